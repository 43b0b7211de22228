r"""The dt-LSTM and the LSTM on the GPU with weights that stay on the multiprocessor.

The forward and adjoint equations, and what is stored, are those of `longrnn.kernels.cpu_dt_lstm`,
for appendix D of Rusch et al. 2022. `longrnn.kernels._cuda_persistent` says where the weights are,
and when these kernels run.

Forward, a row of W belongs to one gate of a unit. Its thread computes that gate, in the order
i f g o. The thread of the gate o then computes c and h, with the other gates from shared memory.
Backward, a column of W belongs to a unit, and its first thread computes all gradients of the unit.

With 128 units in float32, the most that fit, 44 of the 65,536 weights are in the registers of each
of 512 threads, and 168 KiB in shared memory.
"""

from functools import partial

import numpy as np
import torch

from longrnn.kernels import _cuda_gates, _cuda_persistent
from longrnn.kernels._cuda import cuda, device
from longrnn.kernels._cuda_dense import (
    load_vectors,
    run_of,
    set_offsets_in_run,
    state_before,
    unsigned,
)
from longrnn.kernels._cuda_device import ZERO, load_or_zero, sigmoid, tanh
from longrnn.kernels._cuda_gates import lstm_deltas
from longrnn.kernels._cuda_kernel import arriving, d, many_registers, real, tile
from longrnn.kernels._cuda_launch import is_present
from longrnn.kernels._cuda_persistent import matrix_layouts
from longrnn.kernels._cuda_persistent_device import (
    ALIGNMENT,
    add_parts,
    add_products,
    clear_vectors,
    in_memory,
    in_registers,
    load_column,
    load_row,
    parts,
    shared_offsets,
    store_part,
    width,
)
from longrnn.kernels._products import state_products
from longrnn.kernels._recurrence import Recurrence

layouts = partial(matrix_layouts, 4)
"""Layouts of the two kernels for a state; W is (4 d, d)."""


@many_registers
def _forward_kernel(
    W, g, h0, c0, outputs, h_end, c_end, cells, gates, iota, phi, T, sequences, batch
):  # fmt: skip
    """Run all steps of the sequences of a block.

    There are `sequences` per run, together `batch`. `gates` (time, batch, 4 d) gets i f g o. The
    vectors in shared memory are h.
    """
    thread = cuda.threadIdx.x
    row = thread % width
    part = thread // width
    gate = row // d
    unit = row % d
    # The first thread of a row adds the parts of the others.
    has_gate = part == 0 and gate < 4
    has_unit = part == 0 and gate == 3
    offsets = cuda.local.array(tile, np.int64)
    weights = cuda.local.array(in_registers, real)
    total = cuda.local.array(tile, real)
    g_t = cuda.local.array(tile, real)
    c = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    memory = cuda.shared.array(0, real, ALIGNMENT)
    shared_weights, sums, exchanged = shared_offsets(width, parts, in_registers, in_memory, tile)
    first = run * 4 * d * d
    load_row(weights, memory, shared_weights, in_memory, W, first, 4 * d, d, row, part, width)
    clear_vectors(memory, shared_weights, thread, cuda.blockDim.x)
    cuda.syncthreads()  # the zeros are complete, some of which h0 overwrites
    load_vectors(memory, 0, h0, offsets, thread, cuda.blockDim.x, d)
    for i in range(tile):
        c[i] = ZERO
        if has_unit:
            c[i] = c0[offsets[i] + unit]
    cuda.syncthreads()  # the weights and h0 are complete
    base = 0  # offset of the time step in arrays that are d wide
    for _ in range(T):
        if has_gate:
            for i in range(tile):  # read before the product, which hides the latency
                g_t[i] = g[4 * (base + offsets[i]) + row]
        add_products(total, weights, memory, 0, shared_weights, in_memory, row, part, width)
        if parts > 1:
            store_part(total, memory, sums, row, part, width)
            cuda.syncthreads()  # the parts are complete
        if has_gate:
            add_parts(total, memory, sums, row, parts, width)
            for i in range(tile):
                value = total[i] + g_t[i]
                if gate == 2:
                    value = tanh(value)
                else:
                    value = sigmoid(value)
                total[i] = value
                gates[4 * (base + offsets[i]) + row] = value
                if gate < 3:
                    memory[unsigned(exchanged + row * tile + i)] = value
        cuda.syncthreads()  # i, f and g are complete, and h is read
        if has_unit:
            for i in range(tile):
                slot = exchanged + unit * tile + i
                input_gate = memory[unsigned(slot)]
                forget_gate = memory[unsigned(slot + d * tile)]
                new = memory[unsigned(slot + 2 * d * tile)]
                c[i] = phi * forget_gate * c[i] + iota * input_gate * new  # appendix D
                h = total[i] * tanh(c[i])
                memory[unsigned(unit * tile + i)] = h
                cells[base + offsets[i] + unit] = c[i]
                outputs[base + offsets[i] + unit] = h
        cuda.syncthreads()  # the new h is complete
        base += batch * d
    if has_unit:
        for i in range(tile):
            h_end[offsets[i] + unit] = memory[unsigned(unit * tile + i)]
            c_end[offsets[i] + unit] = c[i]


@device
def _read_step(
    i_t, f_t, new_t, o_t, before, arrived, gates, cells, c0, grad_outputs, arriving, base, offsets,
    j, t, batch, d,
):  # fmt: skip
    """Read what the adjoint of step t of unit j needs.

    `before` gets the cells before the step, and `arrived` the gradients of the outputs. `base` is
    the offset of the step.
    """
    for i in range(offsets.size):
        index = base + offsets[i] + j
        k = 4 * (base + offsets[i]) + j
        i_t[i] = gates[k]
        f_t[i] = gates[k + d]
        new_t[i] = gates[k + 2 * d]
        o_t[i] = gates[k + 3 * d]
        before[i] = state_before(cells, index - batch * d, c0, offsets[i] + j, t)
        arrived[i] = load_or_zero(grad_outputs, index, arriving)


@many_registers
def _backward_kernel(
    W, c0, cells, gates, grad_outputs, grad_h_end, grad_c_end, delta, grad_h0, grad_c0,
    has_h_end, has_c_end, iota, phi, T, sequences, batch,
):  # fmt: skip
    """Backpropagate through all steps of the sequences of a block.

    `delta` (time, batch, 4 d) gets the gradients of the drive. The vectors in shared memory are
    the same numbers.
    """
    thread = cuda.threadIdx.x
    j = thread % width
    part = thread // width
    has_unit = part == 0 and j < d
    offsets = cuda.local.array(tile, np.int64)
    weights = cuda.local.array(in_registers, real)
    i_t = cuda.local.array(tile, real)
    f_t = cuda.local.array(tile, real)
    new_t = cuda.local.array(tile, real)
    o_t = cuda.local.array(tile, real)
    c_t = cuda.local.array(tile, real)
    before = cuda.local.array(tile, real)
    arrived = cuda.local.array(tile, real)
    back = cuda.local.array(tile, real)
    mu = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    memory = cuda.shared.array(0, real, ALIGNMENT)
    shared_weights, sums, _ = shared_offsets(width, parts, in_registers, in_memory, tile)
    first = run * 4 * d * d
    load_column(weights, memory, shared_weights, in_memory, W, first, 4 * d, d, j, part, width)
    clear_vectors(memory, shared_weights, thread, cuda.blockDim.x)
    base = (T - 1) * batch * d  # offset of the time step in arrays that are d wide
    for i in range(tile):
        back[i] = ZERO
        mu[i] = ZERO
        if has_unit:
            back[i] = load_or_zero(grad_h_end, offsets[i] + j, has_h_end)
            mu[i] = load_or_zero(grad_c_end, offsets[i] + j, has_c_end)
            c_t[i] = cells[base + offsets[i] + j]
    if has_unit:
        _read_step(
            i_t, f_t, new_t, o_t, before, arrived, gates, cells, c0, grad_outputs, arriving, base,
            offsets, j, T - 1, batch, d,
        )  # fmt: skip
    cuda.syncthreads()  # the weights and zeros are complete
    for t in range(T - 1, -1, -1):
        if has_unit:
            for i in range(tile):
                slot = j * tile + i
                k = 4 * (base + offsets[i]) + j
                values = i_t[i], f_t[i], new_t[i], o_t[i]
                delta_i, delta_f, delta_new, delta_o, mu[i] = lstm_deltas(
                    iota, phi, values, before[i], c_t[i], arrived[i] + back[i], mu[i]
                )
                memory[unsigned(slot)] = delta_i
                memory[unsigned(slot + d * tile)] = delta_f
                memory[unsigned(slot + 2 * d * tile)] = delta_new
                memory[unsigned(slot + 3 * d * tile)] = delta_o
                delta[k] = delta_i
                delta[k + d] = delta_f
                delta[k + 2 * d] = delta_new
                delta[k + 3 * d] = delta_o
                c_t[i] = before[i]
        cuda.syncthreads()  # the deltas are complete
        base -= batch * d
        if has_unit and t > 0:  # read before the product, which hides the latency
            _read_step(
                i_t, f_t, new_t, o_t, before, arrived, gates, cells, c0, grad_outputs, arriving,
                base, offsets, j, t - 1, batch, d,
            )  # fmt: skip
        add_products(back, weights, memory, 0, shared_weights, in_memory, j, part, width)
        store_part(back, memory, sums, j, part, width)
        cuda.syncthreads()  # the parts are complete, and the deltas are read
        if has_unit:
            add_parts(back, memory, sums, j, parts, width)
    if has_unit:
        for i in range(tile):
            grad_h0[offsets[i] + j] = back[i]
            grad_c0[offsets[i] + j] = mu[i]


def _forward(iota, phi, W, g, h0, c0, outputs, h_end, c_end, cells, gates):
    layout, _ = layouts(h0)
    tensors = g, h0, c0, outputs, h_end, c_end, cells, gates
    numbers = iota, phi, len(g)
    _cuda_persistent.launch(_forward_kernel, layout, W, h0, *tensors, *numbers)


def _backward(iota, phi, W, h0, c0, outputs, cells, gates, grad_outputs, grad_h_end, grad_c_end):
    delta = torch.empty_like(gates)
    grad_h0 = torch.empty_like(h0)
    grad_c0 = torch.empty_like(c0)
    _, layout = layouts(h0)
    arrived = grad_outputs, grad_h_end, grad_c_end
    tensors = c0, cells, gates, *arrived, delta, grad_h0, grad_c0
    flags = is_present(grad_h_end), is_present(grad_c_end)
    numbers = *flags, iota, phi, len(cells)
    options = {"arriving": is_present(grad_outputs)}
    _cuda_persistent.launch(_backward_kernel, layout, W, h0, *tensors, *numbers, **options)
    return state_products(W, delta, h0, outputs), delta, grad_h0, grad_c0


LSTM = Recurrence(
    "lstm_persistent_cuda", forward=_forward, backward=_backward, **_cuda_gates.LSTM_DESCRIPTION
)
"""``LSTM(iota, phi, W, g, h0, c0) -> (outputs, (h_T, c_T))``, with the drive g."""
