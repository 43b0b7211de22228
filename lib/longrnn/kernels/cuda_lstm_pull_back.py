r"""Adjoint states of the LSTM on the GPU: one launch forward, one backward.

The equations, and what is stored, are those of `longrnn.kernels.cpu_lstm_pull_back`. As in
`longrnn.kernels.cuda_rnn` there is one block per few sequences and one thread per hidden unit.
These kernels are for float64 alone.
"""

import math

import numpy as np
import torch

from longrnn.kernels import cpu_lstm_pull_back as cpu
from longrnn.kernels._cuda import cuda, device, engine
from longrnn.kernels._cuda_dense import (
    dot_products,
    load_vectors,
    set_offsets,
    state_before,
    store_vectors,
)
from longrnn.kernels._cuda_device import device_version
from longrnn.kernels._cuda_kernel import d, real, tile, unbounded
from longrnn.kernels._cuda_launch import launch_dense
from longrnn.kernels._cuda_pull_back import (
    FORWARD_BUFFERS,
    STORED_BYTES,
    add_norm,
    divide,
    gated,
    is_due,
    log10_of,
    most_units,
    norm_of,
    run_pull_back,
)
from longrnn.kernels._drive import drive
from longrnn.kernels._pull_back import PullBack

_next_c = device_version(cpu.next_c)
_next_h = device_version(cpu.next_h)
_adjoint_c = device_version(cpu.adjoint_c)
_grad_i = device_version(cpu.grad_i)
_grad_f = device_version(cpu.grad_f)
_grad_g = device_version(cpu.grad_g)
_grad_o = device_version(cpu.grad_o)

_BUFFERS = 12
"""Vectors in shared memory of the backward kernel."""


@unbounded  # with bounds some float64 registers spill
def _forward_kernel(W_T, arguments, h0, c0, h_end, cells, T, batch):
    """Run all steps of the sequences of a block.

    `arguments` (time, batch, 4 d), order i f g o, holds the drive, and gets the arguments of the
    activations.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    g_i = cuda.local.array(tile, real)
    g_f = cuda.local.array(tile, real)
    g_g = cuda.local.array(tile, real)
    g_o = cuda.local.array(tile, real)
    by_i = cuda.local.array(tile, real)
    by_f = cuda.local.array(tile, real)
    by_g = cuda.local.array(tile, real)
    by_o = cuda.local.array(tile, real)
    before = cuda.local.array(tile, real)
    set_offsets(offsets, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    now = 0
    following = d * tile
    load_vectors(memory, now, h0, offsets, thread, threads, d)
    cuda.syncthreads()
    base = 0  # offset of the time step in arrays that are d wide
    for t in range(T):
        for j in range(thread, d, threads):
            for i in range(tile):  # read before the products, which hide the latency
                k = 4 * (base + offsets[i]) + j
                g_i[i] = arguments[k]
                g_f[i] = arguments[k + d]
                g_g[i] = arguments[k + 2 * d]
                g_o[i] = arguments[k + 3 * d]
                index = base + offsets[i] + j
                before[i] = state_before(cells, index - batch * d, c0, offsets[i] + j, t)
            dot_products(by_i, W_T, j, 4 * d, memory, now, d)
            dot_products(by_f, W_T, d + j, 4 * d, memory, now, d)
            dot_products(by_g, W_T, 2 * d + j, 4 * d, memory, now, d)
            dot_products(by_o, W_T, 3 * d + j, 4 * d, memory, now, d)
            for i in range(tile):
                k = 4 * (base + offsets[i]) + j
                a_i = by_i[i] + g_i[i]
                a_f = by_f[i] + g_f[i]
                a_g = by_g[i] + g_g[i]
                a_o = by_o[i] + g_o[i]
                arguments[k] = a_i
                arguments[k + d] = a_f
                arguments[k + 2 * d] = a_g
                arguments[k + 3 * d] = a_o
                c = _next_c(a_i, a_f, a_g, before[i])
                cells[base + offsets[i] + j] = c
                value = _next_h(a_o, c)
                memory[following + j * tile + i] = value
                if t == T - 1:
                    h_end[offsets[i] + j] = value
        cuda.syncthreads()
        now, following = following, now
        base += batch * d


@device
def _deltas(arguments, before, c, memory, deltas, stride, lambda_, mu):
    """Write the gradients of the arguments of one unit's activations, and mu before the step.

    The four gradients are `stride` apart in shared memory, from `deltas` on. `lambda_` and `mu` are
    the indices there of the adjoints after the step.
    """
    a_i, a_f, a_g, a_o = arguments
    adjoint_h = memory[lambda_]
    adjoint_c = _adjoint_c(a_o, c, adjoint_h, memory[mu])
    memory[deltas] = _grad_i(a_i, a_g, adjoint_c)
    memory[deltas + stride] = _grad_f(a_f, before, adjoint_c)
    memory[deltas + 2 * stride] = _grad_g(a_i, a_g, adjoint_c)
    memory[deltas + 3 * stride] = _grad_o(a_o, c, adjoint_h)
    memory[mu] = gated(a_f, adjoint_c)


@unbounded  # with bounds some float64 registers spill
def _backward_kernel(
    W, arguments, c0, cells, h_adjoint, c_adjoint, log_norm, wanted, least, lost, readout, full,
    every, T, batch,
):  # fmt: skip
    """Pull the adjoints back over all steps of the sequences of a block.

    The adjoints (batch, d) are those after the last step, and become those before the first. At
    the times that are `wanted`, `readout` and `full` (time, batch) receive the norms before a step.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    total = cuda.local.array(tile, real)
    sequence = min(cuda.blockIdx.x * tile + thread, batch - 1)  # of a thread that computes norms
    set_offsets(offsets, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    now = 0  # the deltas of this step, and of the one after it
    following = 4 * d * tile
    lambda_ = 8 * d * tile  # values that only one thread uses between two normalizations
    mu = 9 * d * tile
    logs = 10 * d * tile  # numbers of the threads that compute norms
    scales = 11 * d * tile
    load_vectors(memory, lambda_, h_adjoint, offsets, thread, threads, d)
    load_vectors(memory, mu, c_adjoint, offsets, thread, threads, d)
    if thread < tile:
        memory[logs + thread] = log_norm[sequence]
    base = (T - 1) * batch * d
    for t in range(T - 1, -1, -1):
        for j in range(thread, d, threads):
            for i in range(tile):
                offset = min(cuda.blockIdx.x * tile + i, batch - 1) * d
                k = 4 * (base + offset) + j
                a = arguments[k], arguments[k + d], arguments[k + 2 * d], arguments[k + 3 * d]
                index = base + offset + j
                before = state_before(cells, index - batch * d, c0, offset + j, t)
                slot = j * tile + i
                _deltas(
                    a, before, cells[index],
                    memory, now + slot, d * tile, lambda_ + slot, mu + slot,
                )  # fmt: skip
        cuda.syncthreads()
        for j in range(thread, d, threads):
            dot_products(total, W, j, d, memory, now, 4 * d)
            for i in range(tile):
                memory[lambda_ + j * tile + i] = total[i]
        if is_due(t, every, wanted[t]):
            cuda.syncthreads()
            if thread < tile:
                of_readout = norm_of(memory, lambda_ + thread, tile, d)
                norm = math.hypot(of_readout, norm_of(memory, mu + thread, tile, d))
                add_norm(memory, logs, scales, thread, norm, least[0], lost, sequence)
                if wanted[t] != 0.0:
                    share = of_readout / memory[scales + thread]
                    readout[t * batch + sequence] = memory[logs + thread] + log10_of(share)
                    full[t * batch + sequence] = memory[logs + thread]
            cuda.syncthreads()
            divide(memory, lambda_, scales, thread, threads, tile, d)
            divide(memory, mu, scales, thread, threads, tile, d)
        now, following = following, now
        base -= batch * d
    store_vectors(h_adjoint, memory, lambda_, offsets, thread, threads, d)
    store_vectors(c_adjoint, memory, mu, offsets, thread, threads, d)
    if thread < tile:
        log_norm[sequence] = memory[logs + thread]


@engine("lstm/pull_back", "chrono_lstm/pull_back", most_units=most_units)
class LSTM(PullBack):
    """The LSTM's steps and their adjoints."""

    vectors = cpu.LSTM.vectors
    stored_bytes = STORED_BYTES

    @staticmethod
    def forward(weights, state, u):
        """Run some steps, see `PullBack.forward`."""
        W, R, b = weights
        arguments = drive(u, R, b)
        h0, c0 = (part.contiguous() for part in state)
        cells = u.new_empty(len(u), *c0.shape)
        h_end = torch.empty_like(h0)
        parts = W.T.contiguous(), arguments, h0, c0, h_end, cells
        launch_dense(
            _forward_kernel, h0, *parts, len(u), buffers=FORWARD_BUFFERS, weights=W.numel()
        )
        return (h_end, cells[-1]), (arguments, c0, cells)

    @staticmethod
    def pull_back(weights, saved, carried, every, wanted):
        """Pull adjoints back over some steps, see `PullBack.pull_back`."""
        return run_pull_back(_backward_kernel, _BUFFERS, weights, saved, carried, every, wanted)
