r"""The dt-LSTM and the LSTM on the GPU: a block for a few sequences, a thread for each unit.

The forward and adjoint equations, and what is stored, are those of `longrnn.kernels.cpu_dt_lstm`,
for appendix D of Rusch et al. 2022. The factors :math:`\iota` and :math:`\varphi` are 1 in the
LSTM.

States and gradients are in shared memory, and neighboring threads read neighboring weights, as in
`longrnn.kernels.cuda_rnn`. A step computes one gate after the other, which keeps few numbers in
registers. One launch takes several runs, whose batches follow one another.
"""

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels import _cuda_gates, cuda_persistent_lstm
from longrnn.kernels._cuda import cuda, engine
from longrnn.kernels._cuda_dense import (
    dot_products,
    driven_products,
    load_gradients,
    load_vectors,
    run_of,
    set_offsets_in_run,
    state_before,
    store_vectors,
)
from longrnn.kernels._cuda_device import load_or_zero, sigmoid, tanh
from longrnn.kernels._cuda_gates import lstm_deltas
from longrnn.kernels._cuda_kernel import arriving, d, kernel, real, tile
from longrnn.kernels._cuda_launch import is_present, launch_runs, most_units
from longrnn.kernels._cuda_persistent import is_persistent
from longrnn.kernels._drive import Sources
from longrnn.kernels._products import state_products
from longrnn.kernels._recurrence import Recurrence

_BUFFERS = 9
"""Vectors in shared memory of the backward kernel. The forward kernel gets as many and uses three.
"""


@kernel
def _forward_kernel(
    W_T, g, h0, c0, outputs, h_end, c_end, cells, gates, iota, phi, T, sequences, batch
):  # fmt: skip
    """Run all steps of the sequences of a block.

    `W_T` (d, 4 d) of each run is transposed. There are `sequences` per run, together `batch`.
    `g` and `gates` are (time, batch, 4 d); `gates` gets i f g o.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    g_t = cuda.local.array(tile, real)
    total = cuda.local.array(tile, real)
    c = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    W_start = run * 4 * d * d
    memory = cuda.shared.array(0, real)
    now_at = 0
    next_at = d * tile
    c_at = 2 * d * tile  # values that only one thread uses
    load_vectors(memory, now_at, h0, offsets, thread, threads, d)
    load_vectors(memory, c_at, c0, offsets, thread, threads, d)
    cuda.syncthreads()  # the initial state is complete
    base = 0  # offset of the time step in arrays that are d wide
    for _ in range(T):
        j = thread  # no `range`: its length would take a division
        while j < d:
            driven_products(total, g_t, W_T, W_start, j, 4, memory, now_at, g, base, offsets, d)
            for i in range(tile):
                value = sigmoid(total[i])
                gates[4 * (base + offsets[i]) + j] = value
                c[i] = iota * value
            driven_products(
                total, g_t, W_T, W_start, 2 * d + j, 4, memory, now_at, g, base, offsets, d
            )
            for i in range(tile):
                value = tanh(total[i])
                gates[4 * (base + offsets[i]) + 2 * d + j] = value
                c[i] *= value
            driven_products(total, g_t, W_T, W_start, d + j, 4, memory, now_at, g, base, offsets, d)
            for i in range(tile):
                value = sigmoid(total[i])
                gates[4 * (base + offsets[i]) + d + j] = value
                c[i] += phi * value * memory[c_at + j * tile + i]
            driven_products(
                total, g_t, W_T, W_start, 3 * d + j, 4, memory, now_at, g, base, offsets, d
            )
            for i in range(tile):
                value = sigmoid(total[i])
                gates[4 * (base + offsets[i]) + 3 * d + j] = value
                h = value * tanh(c[i])
                memory[c_at + j * tile + i] = c[i]
                memory[next_at + j * tile + i] = h
                cells[base + offsets[i] + j] = c[i]
                outputs[base + offsets[i] + j] = h
            j += threads
        cuda.syncthreads()  # the next h is complete, and this one is read
        now_at, next_at = next_at, now_at
        base += batch * d
    store_vectors(h_end, memory, now_at, offsets, thread, threads, d)
    store_vectors(c_end, memory, c_at, offsets, thread, threads, d)


@kernel
def _backward_kernel(
    W, c0, cells, gates, grad_outputs, grad_h_end, grad_c_end, delta, grad_h0, grad_c0,
    has_h_end, has_c_end, iota, phi, T, sequences, batch,
):  # fmt: skip
    """Backpropagate through all steps of the sequences of a block.

    `delta` (time, batch, 4 d) gets the gradients of the drive.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    arrived = cuda.local.array(tile, real)
    c_t = cuda.local.array(tile, real)
    before = cuda.local.array(tile, real)
    back = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    W_start = run * 4 * d * d
    memory = cuda.shared.array(0, real)
    now_at = 0  # the deltas of this step, and behind them those of the step after it
    later_at = 4 * d * tile
    mu_at = 8 * d * tile  # values that only one thread uses
    load_gradients(memory, mu_at, grad_c_end, has_c_end, offsets, thread, threads, d)
    base = (T - 1) * batch * d  # offset of the time step in arrays that are d wide
    for t in range(T - 1, -1, -1):
        j = thread  # no `range`: its length would take a division
        while j < d:
            for i in range(tile):  # read before the product, which hides the latency
                index = base + offsets[i] + j
                arrived[i] = load_or_zero(grad_outputs, index, arriving)
                c_t[i] = cells[index]
                before[i] = state_before(cells, index - batch * d, c0, offsets[i] + j, t)
            if t == T - 1:
                for i in range(tile):
                    back[i] = load_or_zero(grad_h_end, offsets[i] + j, has_h_end)
            else:
                dot_products(back, W, W_start + j, d, memory, later_at, 4 * d)
            for i in range(tile):
                slot = j * tile + i
                k = 4 * (base + offsets[i]) + j
                gates_t = gates[k], gates[k + d], gates[k + 2 * d], gates[k + 3 * d]
                lambda_ = arrived[i] + back[i]
                mu = memory[mu_at + slot]
                delta_i, delta_f, delta_new, delta_o, mu = lstm_deltas(
                    iota, phi, gates_t, before[i], c_t[i], lambda_, mu
                )
                memory[mu_at + slot] = mu
                memory[now_at + slot] = delta_i
                memory[now_at + d * tile + slot] = delta_f
                memory[now_at + 2 * d * tile + slot] = delta_new
                memory[now_at + 3 * d * tile + slot] = delta_o
                delta[k] = delta_i
                delta[k + d] = delta_f
                delta[k + 2 * d] = delta_new
                delta[k + 3 * d] = delta_o
            j += threads
        cuda.syncthreads()  # the deltas are complete, and the later ones are read
        now_at, later_at = later_at, now_at
        base -= batch * d
    j = thread
    while j < d:
        dot_products(back, W, W_start + j, d, memory, later_at, 4 * d)
        for i in range(tile):
            grad_h0[offsets[i] + j] = back[i]
            grad_c0[offsets[i] + j] = memory[mu_at + j * tile + i]
        j += threads


def _forward(iota, phi, W, g, h0, c0, outputs, h_end, c_end, cells, gates):
    tensors = W.mT.contiguous(), g, h0, c0, outputs, h_end, c_end, cells, gates
    numbers = iota, phi, len(g)
    launch_runs(_forward_kernel, h0, (W,), *tensors, *numbers, buffers=_BUFFERS)


def _backward(iota, phi, W, h0, c0, outputs, cells, gates, grad_outputs, grad_h_end, grad_c_end):
    delta = torch.empty_like(gates)
    grad_h0 = torch.empty_like(h0)
    grad_c0 = torch.empty_like(c0)
    arrived = grad_outputs, grad_h_end, grad_c_end
    tensors = W, c0, cells, gates, *arrived, delta, grad_h0, grad_c0
    flags = is_present(grad_h_end), is_present(grad_c_end)
    numbers = *flags, iota, phi, len(cells)
    options = {"buffers": _BUFFERS, "arriving": is_present(grad_outputs)}
    launch_runs(_backward_kernel, h0, (W,), *tensors, *numbers, **options)
    return state_products(W, delta, h0, outputs), delta, grad_h0, grad_c0


_LSTM = Recurrence(
    "lstm_cuda", forward=_forward, backward=_backward, **_cuda_gates.LSTM_DESCRIPTION
)


def _recurrence(cell: str, variant: str, h0: Tensor) -> Recurrence:
    """Return the kernels of this file or those of `longrnn.kernels.cuda_persistent_lstm`."""
    if is_persistent(cell, variant, cuda_persistent_lstm.layouts, h0):
        return cuda_persistent_lstm.LSTM
    return _LSTM


@engine("dt_lstm", most_units=most_units(_BUFFERS), takes_networks=True, options=("variant",))
def dt_lstm(weights, state, u, *, variant: str = "auto"):
    """Run the dt-LSTM, appendix D of Rusch et al. 2022.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.dt_lstm.DtLSTMCore.step`.
    state : tuple of (batch, d)
        (h, c) before the first input.
    u : (time, batch, p)
        The inputs.
    variant : {"auto", "persistent", "rows"}
        See `longrnn.kernels._cuda_persistent.is_persistent`.

    Returns
    -------
    outputs : (time, batch, d)
        h after every input.
    state : tuple of (batch, d)
        (h, c) after the last input.
    """
    W, R, b, iota, phi = weights
    sources = Sources(u, R, b)
    run = _recurrence("dt_lstm", variant, state[0])
    return run(float(iota), float(phi), W, sources.drive(), *state, sources=sources)


@engine(
    "lstm",
    "chrono_lstm",
    most_units=most_units(_BUFFERS),
    takes_networks=True,
    opt_in=True,
    options=("variant",),
)
def lstm(weights, state, u, *, variant: str = "auto"):
    """Run the LSTM, one network or several in one launch.

    cuDNN's layer takes only one network. Which is faster for one was not measured.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.lstm.LSTMCore.step`.
    state : tuple of (batch, d)
        (h, c) before the first input.
    u : (time, batch, p)
        The inputs.
    variant : {"auto", "persistent", "rows"}
        See `longrnn.kernels._cuda_persistent.is_persistent`.

    Returns
    -------
    outputs : (time, batch, d)
        h after every input.
    state : tuple of (batch, d)
        (h, c) after the last input.
    """
    W, R, b = weights
    sources = Sources(u, R, b)
    run = _recurrence("lstm", variant, state[0])
    return run(1.0, 1.0, W, sources.drive(), *state, sources=sources)
