r"""Adjoint states of the GRU on the GPU: one launch forward, one backward.

The equations, and what is stored, are those of `longrnn.kernels.cpu_gru_pull_back`. As in
`longrnn.kernels.cuda_rnn` there is one block per few sequences and one thread per hidden unit, and
the vectors of a block are in shared memory. Every few steps of the backward kernel the first
threads of a block compute norms, one thread for each sequence, and then all threads divide by them.
These kernels are for float64 alone.
"""

import numpy as np
import torch

from longrnn.kernels import cpu_gru_pull_back as cpu
from longrnn.kernels._cuda import cuda, device, engine
from longrnn.kernels._cuda_dense import (
    dot_products,
    load_vectors,
    set_offsets,
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
    most_units,
    norm_of,
    run_pull_back,
)
from longrnn.kernels._drive import drive
from longrnn.kernels._pull_back import PullBack

_argument_n = device_version(cpu.argument_n)
_next_h = device_version(cpu.next_h)
_grad_n = device_version(cpu.grad_n)
_grad_r = device_version(cpu.grad_r)
_grad_z = device_version(cpu.grad_z)

_BUFFERS = 10
"""Vectors in shared memory of the backward kernel."""


@many_registers
def _forward_kernel(W_T, arguments, h0, h_end, products, states, T, batch):
    """Run all steps of the sequences of a block.

    `W_T` (d, 3 d) is transposed. `arguments` (time, batch, 3 d), in the order r z n, holds the
    drive, and gets the arguments of the activations. `products` and `states` (time, batch, d) get
    the part of n that is W h, and h before the step.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    g_r = cuda.local.array(tile, real)
    g_z = cuda.local.array(tile, real)
    g_n = cuda.local.array(tile, real)
    Wh_r = cuda.local.array(tile, real)
    Wh_z = cuda.local.array(tile, real)
    Wh_n = cuda.local.array(tile, real)
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
                k = 3 * (base + offsets[i]) + j
                g_r[i] = arguments[k]
                g_z[i] = arguments[k + d]
                g_n[i] = arguments[k + 2 * d]
            dot_products(Wh_r, W_T, j, 3 * d, memory, now_at, d)
            dot_products(Wh_z, W_T, d + j, 3 * d, memory, now_at, d)
            dot_products(Wh_n, W_T, 2 * d + j, 3 * d, memory, now_at, d)
            for i in range(tile):
                k = 3 * (base + offsets[i]) + j
                index = base + offsets[i] + j
                slot = j * tile + i
                r = Wh_r[i] + g_r[i]
                z = Wh_z[i] + g_z[i]
                n = _argument_n(r, Wh_n[i], g_n[i])
                arguments[k] = r
                arguments[k + d] = z
                arguments[k + 2 * d] = n
                products[index] = Wh_n[i]
                states[index] = memory[now_at + slot]
                value = _next_h(z, n, memory[now_at + slot])
                memory[next_at + slot] = value
                if t == T - 1:
                    h_end[offsets[i] + j] = value
            j += threads
        cuda.syncthreads()  # the next state is complete, and this one is read
        now_at, next_at = next_at, now_at
        base += batch * d


@device
def _deltas(arguments, product, before, adjoint_h, memory, deltas_at, stride, direct_at):
    """Write the gradients of one unit's products, and what reaches h before the step through z.

    The three gradients are `stride` apart in shared memory, from `deltas_at` on. `adjoint_h` is the
    adjoint after the step.
    """
    r, z, n = arguments
    d_n = _grad_n(z, n, adjoint_h)
    memory[deltas_at] = _grad_r(r, product, d_n)
    memory[deltas_at + stride] = _grad_z(z, n, before, adjoint_h)
    memory[deltas_at + 2 * stride] = gated(r, d_n)
    memory[direct_at] = gated(z, adjoint_h)


@many_registers
def _backward_kernel(
    W, arguments, products, states, adjoint, log_norm, wanted, least, lost, readout, full,
    every, T, batch,
):  # fmt: skip
    """Pull the adjoint back over all steps of the sequences of a block.

    The adjoint (batch, d) is that after the last step, and becomes that before the first. At the
    times that are `wanted`, `readout` and `full` (time, batch) receive its norms before a step.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    total = cuda.local.array(tile, real)
    sequence = min(cuda.blockIdx.x * tile + thread, batch - 1)  # of a thread that computes norms
    set_offsets(offsets, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    now_at = 0  # the deltas of this step, and of the one after it
    later_at = 3 * d * tile
    lambda_at = 6 * d * tile  # values that only one thread uses between two normalizations
    direct_at = 7 * d * tile
    logs_at = 8 * d * tile  # numbers of the threads that compute norms
    scales_at = 9 * d * tile
    load_vectors(memory, lambda_at, adjoint, offsets, thread, threads, d)
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
                k = 3 * (base + offset) + j
                a = arguments[k], arguments[k + d], arguments[k + 2 * d]
                index = base + offset + j
                slot = j * tile + i
                _deltas(
                    a, products[index], states[index], memory[lambda_at + slot],
                    memory, now_at + slot, d * tile, direct_at + slot,
                )  # fmt: skip
            j += threads
        cuda.syncthreads()  # the deltas are complete
        j = thread
        while j < d:
            dot_products(total, W, j, d, memory, now_at, 3 * d)
            for i in range(tile):
                slot = j * tile + i
                memory[lambda_at + slot] = total[i] + memory[direct_at + slot]
            j += threads
        if is_due(t, every, wanted[t]):
            cuda.syncthreads()  # the adjoint is complete
            if thread < tile:
                norm = norm_of(memory, lambda_at + thread, tile, d)
                add_norm(memory, logs_at, scales_at, thread, norm, least[0], lost, sequence)
                if wanted[t] != 0.0:
                    readout[t * batch + sequence] = memory[logs_at + thread]
                    full[t * batch + sequence] = memory[logs_at + thread]
            cuda.syncthreads()  # the norms are complete
            divide(memory, lambda_at, scales_at, thread, threads, tile, d)
        now_at, later_at = later_at, now_at
        base -= batch * d
    store_vectors(adjoint, memory, lambda_at, offsets, thread, threads, d)
    if thread < tile:
        log_norm[sequence] = memory[logs_at + thread]


@engine("gru/pull_back", most_units=most_units)
class GRU(PullBack):
    """The GRU's steps and their adjoints."""

    vectors = cpu.GRU.vectors
    stored_bytes = STORED_BYTES

    @staticmethod
    def forward(weights, state, u):
        """Run some steps, see `PullBack.forward`."""
        W, R, b = weights
        arguments = drive(u, R, b)
        h0 = state[0].contiguous()
        products = u.new_empty(len(u), *h0.shape)
        states = torch.empty_like(products)
        h_end = torch.empty_like(h0)
        parts = W.T.contiguous(), arguments, h0, h_end, products, states
        launch_dense(
            _forward_kernel, h0, *parts, len(u), buffers=FORWARD_BUFFERS, weights=W.numel()
        )
        return (h_end,), (arguments, products, states)

    @staticmethod
    def pull_back(weights, saved, carried, every, wanted):
        """Pull adjoints back over some steps, see `PullBack.pull_back`."""
        return run_pull_back(_backward_kernel, _BUFFERS, weights, saved, carried, every, wanted)
