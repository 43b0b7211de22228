r"""The GRU on the GPU with weights that stay on the multiprocessor.

The forward and adjoint equations, and what is stored, are those of `longrnn.kernels.cpu_gru`, for
(5)-(8) of Cho et al. 2014. `longrnn.kernels._cuda_persistent` says where the weights are, and when
these kernels run.

Forward, a row of W belongs to one gate of a unit. The threads of r and z compute their gates. Those
of n compute n and h, with r and z from shared memory. Backward, a column of W belongs to a unit,
and its first thread computes all gradients of the unit.

With 128 units in float32, 44 of the 49,152 weights are in the registers of each of 384 threads, and
126 KiB in shared memory. Up to 156 units fit.
"""

from functools import partial

import numpy as np
import torch

from longrnn.kernels import _cuda_persistent, cpu_gru
from longrnn.kernels._cuda import cuda, device
from longrnn.kernels._cuda_dense import (
    load_vectors,
    run_of,
    set_offsets_in_run,
    state_before,
    unsigned,
)
from longrnn.kernels._cuda_device import ONE, ZERO, load_or_zero, sigmoid, tanh
from longrnn.kernels._cuda_gates import gru_deltas
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

layouts = partial(matrix_layouts, 3)
"""Layouts of the two kernels for a state; W is (3 d, d)."""


@many_registers
def _forward_kernel(W, g, h0, outputs, h_end, gates, products, T, sequences, batch):
    """Run all steps of the sequences of a block.

    There are `sequences` per run, together `batch`. `gates` (time, batch, 3 d) gets r z n,
    `products` (time, batch, d) the state's part of n. The vectors in shared memory are h.
    """
    thread = cuda.threadIdx.x
    row = thread % width
    part = thread // width
    gate = row // d
    unit = row % d
    # The first thread of a row adds the parts of the others.
    has_gate = part == 0 and gate < 3
    has_unit = part == 0 and gate == 2
    offsets = cuda.local.array(tile, np.int64)
    weights = cuda.local.array(in_registers, real)
    total = cuda.local.array(tile, real)
    g_t = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    memory = cuda.shared.array(0, real, ALIGNMENT)
    shared_weights, sums, exchanged = shared_offsets(width, parts, in_registers, in_memory, tile)
    first = run * 3 * d * d
    load_row(weights, memory, shared_weights, in_memory, W, first, 3 * d, d, row, part, width)
    clear_vectors(memory, shared_weights, thread, cuda.blockDim.x)
    cuda.syncthreads()  # the zeros are complete, some of which h0 overwrites
    load_vectors(memory, 0, h0, offsets, thread, cuda.blockDim.x, d)
    cuda.syncthreads()  # the weights and h0 are complete
    base = 0  # offset of the time step in arrays that are d wide
    for _ in range(T):
        if has_gate:
            for i in range(tile):  # read before the product, which hides the latency
                g_t[i] = g[3 * (base + offsets[i]) + row]
        add_products(total, weights, memory, 0, shared_weights, in_memory, row, part, width)
        if parts > 1:
            store_part(total, memory, sums, row, part, width)
            cuda.syncthreads()  # the parts are complete
        if has_gate:
            add_parts(total, memory, sums, row, parts, width)
            for i in range(tile):
                if has_unit:
                    products[base + offsets[i] + unit] = total[i]
                else:
                    value = sigmoid(total[i] + g_t[i])
                    gates[3 * (base + offsets[i]) + row] = value
                    memory[unsigned(exchanged + row * tile + i)] = value
        cuda.syncthreads()  # r and z are complete, and h is read
        if has_unit:
            for i in range(tile):
                r = memory[unsigned(exchanged + unit * tile + i)]
                z = memory[unsigned(exchanged + (d + unit) * tile + i)]
                n = tanh(r * total[i] + g_t[i])
                h = (ONE - z) * n + z * memory[unsigned(unit * tile + i)]
                memory[unsigned(unit * tile + i)] = h
                gates[3 * (base + offsets[i]) + row] = n
                outputs[base + offsets[i] + unit] = h
        cuda.syncthreads()  # the new h is complete
        base += batch * d
    if has_unit:
        for i in range(tile):
            h_end[offsets[i] + unit] = memory[unsigned(unit * tile + i)]


@device
def _read_step(
    r_t, z_t, n_t, product, before, arrived, gates, products, outputs, h0, grad_outputs, arriving,
    base, offsets, j, t, batch, d,
):  # fmt: skip
    """Read what the adjoint of step t of unit j needs.

    `product` gets the state's part of n, `before` the state before the step, and `arrived` the
    gradients of the outputs. `base` is the offset of the step.
    """
    for i in range(offsets.size):
        index = base + offsets[i] + j
        k = 3 * (base + offsets[i]) + j
        r_t[i] = gates[k]
        z_t[i] = gates[k + d]
        n_t[i] = gates[k + 2 * d]
        product[i] = products[index]
        before[i] = state_before(outputs, index - batch * d, h0, offsets[i] + j, t)
        arrived[i] = load_or_zero(grad_outputs, index, arriving)


@many_registers
def _backward_kernel(
    W, h0, outputs, gates, products, grad_outputs, grad_h_end, delta, delta_state, grad_h0,
    has_h_end, T, sequences, batch,
):  # fmt: skip
    """Backpropagate through all steps of the sequences of a block.

    `delta` (time, batch, 3 d) gets the gradients of the drive, `delta_state` those of W h. The
    vectors in shared memory are the latter.
    """
    thread = cuda.threadIdx.x
    j = thread % width
    part = thread // width
    has_unit = part == 0 and j < d
    offsets = cuda.local.array(tile, np.int64)
    weights = cuda.local.array(in_registers, real)
    r_t = cuda.local.array(tile, real)
    z_t = cuda.local.array(tile, real)
    n_t = cuda.local.array(tile, real)
    product = cuda.local.array(tile, real)
    before = cuda.local.array(tile, real)
    arrived = cuda.local.array(tile, real)
    back = cuda.local.array(tile, real)
    direct = cuda.local.array(tile, real)  # what reaches h through z
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    memory = cuda.shared.array(0, real, ALIGNMENT)
    shared_weights, sums, _ = shared_offsets(width, parts, in_registers, in_memory, tile)
    first = run * 3 * d * d
    load_column(weights, memory, shared_weights, in_memory, W, first, 3 * d, d, j, part, width)
    clear_vectors(memory, shared_weights, thread, cuda.blockDim.x)
    base = (T - 1) * batch * d  # offset of the time step in arrays that are d wide
    for i in range(tile):
        back[i] = ZERO
        direct[i] = ZERO
        if has_unit:
            back[i] = load_or_zero(grad_h_end, offsets[i] + j, has_h_end)
    if has_unit:
        _read_step(
            r_t, z_t, n_t, product, before, arrived, gates, products, outputs, h0, grad_outputs,
            arriving, base, offsets, j, T - 1, batch, d,
        )  # fmt: skip
    cuda.syncthreads()  # the weights and zeros are complete
    for t in range(T - 1, -1, -1):
        if has_unit:
            for i in range(tile):
                slot = j * tile + i
                k = 3 * (base + offsets[i]) + j
                lambda_ = arrived[i] + back[i] + direct[i]
                values = r_t[i], z_t[i], n_t[i]
                delta_r, delta_z, delta_n = gru_deltas(values, product[i], before[i], lambda_)
                delta_product = delta_n * r_t[i]
                direct[i] = lambda_ * z_t[i]
                memory[unsigned(slot)] = delta_r
                memory[unsigned(slot + d * tile)] = delta_z
                memory[unsigned(slot + 2 * d * tile)] = delta_product
                delta[k] = delta_r
                delta[k + d] = delta_z
                delta[k + 2 * d] = delta_n
                delta_state[k] = delta_r
                delta_state[k + d] = delta_z
                delta_state[k + 2 * d] = delta_product
        cuda.syncthreads()  # the deltas are complete
        base -= batch * d
        if has_unit and t > 0:  # read before the product, which hides the latency
            _read_step(
                r_t, z_t, n_t, product, before, arrived, gates, products, outputs, h0,
                grad_outputs, arriving, base, offsets, j, t - 1, batch, d,
            )  # fmt: skip
        add_products(back, weights, memory, 0, shared_weights, in_memory, j, part, width)
        store_part(back, memory, sums, j, part, width)
        cuda.syncthreads()  # the parts are complete, and the deltas are read
        if has_unit:
            add_parts(back, memory, sums, j, parts, width)
    if has_unit:
        for i in range(tile):
            grad_h0[offsets[i] + j] = back[i] + direct[i]


def _forward(W, g, h0, outputs, h_end, gates, products):
    layout, _ = layouts(h0)
    tensors = g, h0, outputs, h_end, gates, products
    _cuda_persistent.launch(_forward_kernel, layout, W, h0, *tensors, len(g))


def _backward(W, h0, outputs, gates, products, grad_outputs, grad_h_end):
    delta = torch.empty_like(gates)
    delta_state = torch.empty_like(gates)
    grad_h0 = torch.empty_like(h0)
    _, layout = layouts(h0)
    gradients = grad_outputs, grad_h_end, delta, delta_state, grad_h0
    tensors = h0, outputs, gates, products, *gradients
    numbers = is_present(grad_h_end), len(outputs)
    options = {"arriving": is_present(grad_outputs)}
    _cuda_persistent.launch(_backward_kernel, layout, W, h0, *tensors, *numbers, **options)
    return state_products(W, delta_state, h0, outputs), delta, grad_h0


GRU = Recurrence(
    "gru_persistent_cuda",
    forward=_forward,
    backward=_backward,
    arrays=False,
    **cpu_gru.GRU_DESCRIPTION,
)
"""``GRU(W, g, h0) -> (outputs, (h_T,))``, with the drive g of all times."""
