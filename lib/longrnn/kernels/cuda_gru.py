r"""The GRU on the GPU: a block for a few sequences, a thread for each unit.

The forward and adjoint equations, and what is stored, are those of `longrnn.kernels.cpu_gru`, for
(5)-(8) of Cho et al. 2014.

States and gradients are in shared memory, and neighboring threads read neighboring weights, as in
`longrnn.kernels.cuda_rnn`. A step computes one gate after the other, which keeps few numbers in
registers. One launch takes several runs, whose batches follow one another.
"""

import numpy as np
import torch

from longrnn.kernels import cpu_gru, cuda_persistent_gru
from longrnn.kernels._cuda import cuda, engine
from longrnn.kernels._cuda_dense import (
    dot_products,
    driven_products,
    load_vectors,
    run_of,
    set_offsets_in_run,
    state_before,
    store_vectors,
)
from longrnn.kernels._cuda_device import ONE, load_or_zero, sigmoid, tanh
from longrnn.kernels._cuda_gates import gru_deltas
from longrnn.kernels._cuda_kernel import arriving, d, kernel, real, tile
from longrnn.kernels._cuda_launch import is_present, launch_runs, most_units
from longrnn.kernels._cuda_persistent import is_persistent
from longrnn.kernels._drive import Sources
from longrnn.kernels._products import state_products
from longrnn.kernels._recurrence import Recurrence

_BUFFERS = 7
"""Vectors in shared memory of the backward kernel. The forward kernel gets as many and uses two."""


@kernel
def _forward_kernel(W_T, g, h0, outputs, h_end, gates, products, T, sequences, batch):
    """Run all steps of the sequences of a block.

    `W_T` (d, 3 d) of each run is transposed. There are `sequences` per run, together `batch`.
    `g` and `gates` are (time, batch, 3 d); `gates` gets r z n, and `products` (time, batch, d) the
    state's part of n.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    g_t = cuda.local.array(tile, real)
    total = cuda.local.array(tile, real)
    n = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    W_start = run * 3 * d * d
    memory = cuda.shared.array(0, real)
    now_at = 0
    next_at = d * tile
    load_vectors(memory, now_at, h0, offsets, thread, threads, d)
    cuda.syncthreads()  # the initial state is complete
    base = 0  # offset of the time step in arrays that are d wide
    for _ in range(T):
        j = thread  # no `range`: its length would take a division
        while j < d:
            driven_products(total, g_t, W_T, W_start, j, 3, memory, now_at, g, base, offsets, d)
            for i in range(tile):
                r = sigmoid(total[i])
                gates[3 * (base + offsets[i]) + j] = r
                n[i] = r
            for i in range(tile):  # read before the product, which hides the latency
                g_t[i] = g[3 * (base + offsets[i]) + 2 * d + j]
            dot_products(total, W_T, W_start + 2 * d + j, 3 * d, memory, now_at, d)
            for i in range(tile):
                products[base + offsets[i] + j] = total[i]
                n[i] = tanh(n[i] * total[i] + g_t[i])
                gates[3 * (base + offsets[i]) + 2 * d + j] = n[i]
            driven_products(total, g_t, W_T, W_start, d + j, 3, memory, now_at, g, base, offsets, d)
            for i in range(tile):
                z = sigmoid(total[i])
                gates[3 * (base + offsets[i]) + d + j] = z
                h = (ONE - z) * n[i] + z * memory[now_at + j * tile + i]
                memory[next_at + j * tile + i] = h
                outputs[base + offsets[i] + j] = h
            j += threads
        cuda.syncthreads()  # the next state is complete, and this one is read
        now_at, next_at = next_at, now_at
        base += batch * d
    store_vectors(h_end, memory, now_at, offsets, thread, threads, d)


@kernel
def _backward_kernel(
    W, h0, outputs, gates, products, grad_outputs, grad_h_end, delta, delta_state, grad_h0,
    has_h_end, T, sequences, batch,
):  # fmt: skip
    """Backpropagate through all steps of the sequences of a block.

    `delta` (time, batch, 3 d) gets the gradients of the drive, and `delta_state` (time, batch, 3 d)
    those of W h.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    arrived = cuda.local.array(tile, real)
    product = cuda.local.array(tile, real)
    before = cuda.local.array(tile, real)
    back = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    W_start = run * 3 * d * d
    memory = cuda.shared.array(0, real)
    now_at = 0  # the gradients of W h of this step, and behind them those of the step after it
    later_at = 3 * d * tile
    direct_at = 6 * d * tile  # values that only one thread uses: what reaches h through z
    base = (T - 1) * batch * d  # offset of the time step in arrays that are d wide
    for t in range(T - 1, -1, -1):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):  # read before the product, which hides the latency
                index = base + offsets[i] + j
                arrived[i] = load_or_zero(grad_outputs, index, arriving)
                product[i] = products[index]
                before[i] = state_before(outputs, index - batch * d, h0, offsets[i] + j, t)
            if t == T - 1:
                for i in range(tile):
                    back[i] = load_or_zero(grad_h_end, offsets[i] + j, has_h_end)
            else:
                dot_products(back, W, W_start + j, d, memory, later_at, 3 * d)
                for i in range(tile):
                    back[i] += memory[direct_at + j * tile + i]
            for i in range(tile):
                slot = j * tile + i
                k = 3 * (base + offsets[i]) + j
                r = gates[k]
                z = gates[k + d]
                lambda_ = arrived[i] + back[i]
                gates_t = r, z, gates[k + 2 * d]
                delta_r, delta_z, delta_n = gru_deltas(gates_t, product[i], before[i], lambda_)
                memory[direct_at + slot] = lambda_ * z
                memory[now_at + slot] = delta_r
                memory[now_at + d * tile + slot] = delta_z
                memory[now_at + 2 * d * tile + slot] = delta_n * r
                delta[k] = delta_r
                delta[k + d] = delta_z
                delta[k + 2 * d] = delta_n
                delta_state[k] = delta_r
                delta_state[k + d] = delta_z
                delta_state[k + 2 * d] = delta_n * r
            j += threads
        cuda.syncthreads()  # the deltas are complete, and the later ones are read
        now_at, later_at = later_at, now_at
        base -= batch * d
    j = thread
    while j < d:
        dot_products(back, W, W_start + j, d, memory, later_at, 3 * d)
        for i in range(tile):
            grad_h0[offsets[i] + j] = back[i] + memory[direct_at + j * tile + i]
        j += threads


def _forward(W, g, h0, outputs, h_end, gates, products):
    tensors = W.mT.contiguous(), g, h0, outputs, h_end, gates, products
    launch_runs(_forward_kernel, h0, (W,), *tensors, len(g), buffers=_BUFFERS)


def _backward(W, h0, outputs, gates, products, grad_outputs, grad_h_end):
    delta = torch.empty_like(gates)
    delta_state = torch.empty_like(gates)
    grad_h0 = torch.empty_like(h0)
    gradients = grad_outputs, grad_h_end, delta, delta_state, grad_h0
    tensors = W, h0, outputs, gates, products, *gradients
    numbers = is_present(grad_h_end), len(outputs)
    options = {"buffers": _BUFFERS, "arriving": is_present(grad_outputs)}
    launch_runs(_backward_kernel, h0, (W,), *tensors, *numbers, **options)
    return state_products(W, delta_state, h0, outputs), delta, grad_h0


_GRU = Recurrence(
    "gru_cuda", forward=_forward, backward=_backward, arrays=False, **cpu_gru.GRU_DESCRIPTION
)


@engine(
    "gru", most_units=most_units(_BUFFERS), takes_networks=True, opt_in=True, options=("variant",)
)
def gru(weights, state, u, *, variant: str = "auto"):
    """Run the GRU of Cho et al. 2014, one network or several in one launch.

    cuDNN's layer takes only one network. Which is faster for one was not measured.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.gru.GRUCore.step`.
    state : tuple of (batch, d)
        (h,) before the first input.
    u : (time, batch, p)
        The inputs.
    variant : {"auto", "persistent", "rows"}
        See `longrnn.kernels._cuda_persistent.is_persistent`.

    Returns
    -------
    outputs : (time, batch, d)
        h after every input.
    state : tuple of (batch, d)
        (h,) after the last input.
    """
    W, R, b = weights
    sources = Sources(u, R, b)
    run = _GRU
    if is_persistent("gru", variant, cuda_persistent_gru.layouts, state[0]):
        run = cuda_persistent_gru.GRU
    return run(W, sources.drive(), state[0], sources=sources)
