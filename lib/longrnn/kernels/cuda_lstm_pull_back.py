r"""Adjoint states of the LSTM on the GPU: one launch forward, one backward.

The equations, and what is stored, are those of `longrnn.kernels.cpu_lstm_pull_back`. As in
`longrnn.kernels.cuda_rnn` there is one block per few sequences and one thread per hidden unit, and
the vectors of a block are in shared memory. Every few steps of the backward kernel the first
threads of a block compute norms, one thread for each sequence, and then all threads divide by them.
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
from longrnn.kernels._cuda_kernel import d, many_registers, real, tile
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


@many_registers
def _forward_kernel(W_T, arguments, h0, c0, h_end, cells, T, batch):
    """Run all steps of the sequences of a block.

    `W_T` (d, 4 d) is transposed. `arguments` (time, batch, 4 d), in the order i f g o, holds the
    drive, and gets the arguments of the activations. `cells` (time, batch, d) gets c after every
    step.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    g_i = cuda.local.array(tile, real)
    g_f = cuda.local.array(tile, real)
    g_g = cuda.local.array(tile, real)
    g_o = cuda.local.array(tile, real)
    Wh_i = cuda.local.array(tile, real)
    Wh_f = cuda.local.array(tile, real)
    Wh_g = cuda.local.array(tile, real)
    Wh_o = cuda.local.array(tile, real)
    before = cuda.local.array(tile, real)
    set_offsets(offsets, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    now_at = 0
    next_at = d * tile
    load_vectors(memory, now_at, h0, offsets, thread, threads, d)
    cuda.syncthreads()  # the initial state is complete
    base = 0  # offset of the time step in arrays that are d wide
    for t in range(T):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):  # read before the products, which hide the latency
                k = 4 * (base + offsets[i]) + j
                g_i[i] = arguments[k]
                g_f[i] = arguments[k + d]
                g_g[i] = arguments[k + 2 * d]
                g_o[i] = arguments[k + 3 * d]
                index = base + offsets[i] + j
                before[i] = state_before(cells, index - batch * d, c0, offsets[i] + j, t)
            dot_products(Wh_i, W_T, j, 4 * d, memory, now_at, d)
            dot_products(Wh_f, W_T, d + j, 4 * d, memory, now_at, d)
            dot_products(Wh_g, W_T, 2 * d + j, 4 * d, memory, now_at, d)
            dot_products(Wh_o, W_T, 3 * d + j, 4 * d, memory, now_at, d)
            for i in range(tile):
                k = 4 * (base + offsets[i]) + j
                a_i = Wh_i[i] + g_i[i]
                a_f = Wh_f[i] + g_f[i]
                a_g = Wh_g[i] + g_g[i]
                a_o = Wh_o[i] + g_o[i]
                arguments[k] = a_i
                arguments[k + d] = a_f
                arguments[k + 2 * d] = a_g
                arguments[k + 3 * d] = a_o
                c = _next_c(a_i, a_f, a_g, before[i])
                cells[base + offsets[i] + j] = c
                value = _next_h(a_o, c)
                memory[next_at + j * tile + i] = value
                if t == T - 1:
                    h_end[offsets[i] + j] = value
            j += threads
        cuda.syncthreads()  # the next h is complete, and this one is read
        now_at, next_at = next_at, now_at
        base += batch * d


@device
def _deltas(arguments, before, c, memory, deltas_at, stride, lambda_at, mu_at):
    """Write the gradients of the arguments of one unit's activations, and mu before the step.

    The four gradients are `stride` apart in shared memory, from `deltas_at` on. `lambda_at` and
    `mu_at` are the indices there of the adjoints after the step.
    """
    a_i, a_f, a_g, a_o = arguments
    adjoint_h = memory[lambda_at]
    adjoint_c = _adjoint_c(a_o, c, adjoint_h, memory[mu_at])
    memory[deltas_at] = _grad_i(a_i, a_g, adjoint_c)
    memory[deltas_at + stride] = _grad_f(a_f, before, adjoint_c)
    memory[deltas_at + 2 * stride] = _grad_g(a_i, a_g, adjoint_c)
    memory[deltas_at + 3 * stride] = _grad_o(a_o, c, adjoint_h)
    memory[mu_at] = gated(a_f, adjoint_c)


@many_registers
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
    now_at = 0  # the deltas of this step, and of the one after it
    later_at = 4 * d * tile
    lambda_at = 8 * d * tile  # values that only one thread uses between two normalizations
    mu_at = 9 * d * tile
    logs_at = 10 * d * tile  # numbers of the threads that compute norms
    scales_at = 11 * d * tile
    load_vectors(memory, lambda_at, h_adjoint, offsets, thread, threads, d)
    load_vectors(memory, mu_at, c_adjoint, offsets, thread, threads, d)
    if thread < tile:
        memory[logs_at + thread] = log_norm[sequence]
    base = (T - 1) * batch * d
    for t in range(T - 1, -1, -1):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):
                # Not `offsets[i]`: the compiler does not unroll this loop, and a register has no
                # index, so the array would be in memory.
                offset = min(cuda.blockIdx.x * tile + i, batch - 1) * d
                k = 4 * (base + offset) + j
                a = arguments[k], arguments[k + d], arguments[k + 2 * d], arguments[k + 3 * d]
                index = base + offset + j
                before = state_before(cells, index - batch * d, c0, offset + j, t)
                slot = j * tile + i
                _deltas(
                    a, before, cells[index],
                    memory, now_at + slot, d * tile, lambda_at + slot, mu_at + slot,
                )  # fmt: skip
            j += threads
        cuda.syncthreads()  # the deltas are complete
        j = thread
        while j < d:
            dot_products(total, W, j, d, memory, now_at, 4 * d)
            for i in range(tile):
                memory[lambda_at + j * tile + i] = total[i]
            j += threads
        if is_due(t, every, wanted[t]):
            cuda.syncthreads()  # the adjoint is complete
            if thread < tile:
                readout_norm = norm_of(memory, lambda_at + thread, tile, d)
                norm = math.hypot(readout_norm, norm_of(memory, mu_at + thread, tile, d))
                add_norm(memory, logs_at, scales_at, thread, norm, least[0], lost, sequence)
                if wanted[t] != 0.0:
                    share = readout_norm / memory[scales_at + thread]
                    readout[t * batch + sequence] = memory[logs_at + thread] + log10_of(share)
                    full[t * batch + sequence] = memory[logs_at + thread]
            cuda.syncthreads()  # the norms are complete
            divide(memory, lambda_at, scales_at, thread, threads, tile, d)
            divide(memory, mu_at, scales_at, thread, threads, tile, d)
        now_at, later_at = later_at, now_at
        base -= batch * d
    store_vectors(h_adjoint, memory, lambda_at, offsets, thread, threads, d)
    store_vectors(c_adjoint, memory, mu_at, offsets, thread, threads, d)
    if thread < tile:
        log_norm[sequence] = memory[logs_at + thread]


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
