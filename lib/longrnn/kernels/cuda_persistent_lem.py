r"""LEM on the GPU with weights that stay on the multiprocessor.

The forward and adjoint equations, and the names, are those of `longrnn.kernels.cpu_lem`, for (3)
of Rusch et al. 2022. What is stored is what `longrnn.kernels.cuda_lem` stores.
`longrnn.kernels._cuda_persistent` says when these kernels run.

A step has two products, one after the other: forward with W (3 d, d) and W_y (d, d), backward with
their transposes. The threads of a unit share its rows of both, so that all threads of the block
take part in both products. Forward, these are the rows of both gates and of the target of z in W,
and one of W_y. The first thread of a unit adds the parts of the others and computes the states of
the unit or, backward, all of its gradients. A step has four barriers: after the parts and after the
new vectors, for each product.

In shared memory are the vectors that W multiplies, those that W_y multiplies, the weights of W, of
W_y, and the parts of the sums. `longrnn.kernels._cuda_persistent_device` says in which order. A
block has ``parts * width`` threads: thread ``part * width + j`` multiplies part `part` of the rows
of unit j. `offsets` are those of the present time step, in arrays (time, batch, d).

With 128 units in float32, the most that fit, 44 of the 65,536 weights are in the registers of each
of 512 threads, among them all of W_y, and 168 KiB in shared memory. With 64 units all weights are
in registers. In float64 up to 80 units fit. The limit is the shared memory of a block.

An estimate of the same kind as in `longrnn.kernels._cuda_persistent`: in a step with 128 units in
float32, a block reads its weights from shared memory in 1,344 cycles. Its warps read the vectors in
256 accesses forward and in 512 backward. Together that is 1,600 and 1,900 cycles. The dense kernels
read 256 KiB from the L2 cache, which is 4,100 cycles.
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
from longrnn.kernels._cuda_gates import clip_step, relax, relax_adjoint
from longrnn.kernels._cuda_kernel import arriving, d, many_registers, real, tile
from longrnn.kernels._cuda_launch import is_present
from longrnn.kernels._cuda_persistent import pair_layouts
from longrnn.kernels._cuda_persistent_device import (
    ALIGNMENT,
    add_parts,
    add_products,
    add_products_of_rows,
    clear_vectors,
    in_memory,
    in_memory_y,
    in_registers,
    in_registers_y,
    load_column,
    load_row,
    pair_offsets,
    parts,
    rows,
    store_part,
    width,
)
from longrnn.kernels._products import state_products, sums_of_products
from longrnn.kernels._recurrence import Recurrence

layouts = partial(pair_layouts, 3)
"""Layouts of the two kernels for a state; W is (3 d, d)."""


@many_registers
def _forward_kernel(
    W, W_y, g, y0, z0, y, y_end, z_end, z, gates, dt, least, most, T, sequences, batch
):  # fmt: skip
    """Run all steps of the sequences of a block.

    `W` is (runs, 3 d, d) and `W_y` (runs, d, d), both without the axis if there is one run. There
    are `sequences` per run, together `batch`. `g` (time, batch, 4 d) is the drive, in the order 1 2
    z y. `y` and `z` are (time, batch, d), the initial and final states (batch, d). `gates` (time,
    batch, 4 d) gets gate_z, gate_y, target_z and target_y. The vectors in shared memory are y, at
    0, and z.
    """
    thread = cuda.threadIdx.x
    j = thread % width
    part = thread // width
    # The first thread of a unit adds the parts of the others.
    has_unit = part == 0 and j < d
    offsets = cuda.local.array(tile, np.int64)
    weights = cuda.local.array((rows, in_registers), real)
    weights_y = cuda.local.array(in_registers_y, real)
    total = cuda.local.array((rows, tile), real)
    total_y = cuda.local.array(tile, real)
    g_t = cuda.local.array((rows, tile), real)
    g_y = cuda.local.array(tile, real)
    gate_y = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    memory = cuda.shared.array(0, real, ALIGNMENT)
    z_at, W_at, W_y_at, sums = pair_offsets(
        width, parts, rows, in_registers, in_memory, in_registers_y, in_memory_y, tile
    )
    for row in range(rows):  # row j of W_1, W_2 and W_z
        first = (run * rows + row) * d * d
        from_row = W_at + row * parts * width * in_memory
        load_row(weights[row], memory, from_row, in_memory, W, first, d, d, j, part, width)
    first = run * d * d
    load_row(weights_y, memory, W_y_at, in_memory_y, W_y, first, d, d, j, part, width)
    clear_vectors(memory, W_at, thread, cuda.blockDim.x)
    cuda.syncthreads()  # the zeros are complete, some of which y0 and z0 overwrite
    load_vectors(memory, 0, y0, offsets, thread, cuda.blockDim.x, d)
    load_vectors(memory, z_at, z0, offsets, thread, cuda.blockDim.x, d)
    cuda.syncthreads()  # the weights, y0 and z0 are complete
    for _ in range(T):
        if has_unit:
            for i in range(tile):  # read before the products, which hide the latency
                k = 4 * offsets[i] + j
                for row in range(rows):
                    g_t[row, i] = g[k + row * d]
                g_y[i] = g[k + 3 * d]
        add_products_of_rows(
            total, weights, memory, 0, W_at, in_memory, j, part, parts, width
        )  # fmt: skip
        for row in range(rows):
            at = sums + row * (parts - 1) * width * tile
            store_part(total[row], memory, at, j, part, width)
        cuda.syncthreads()  # the parts are complete, and y is read
        if has_unit:
            for row in range(rows):
                at = sums + row * (parts - 1) * width * tile
                add_parts(total[row], memory, at, j, parts, width)
            for i in range(tile):
                slot = z_at + j * tile + i
                k = 4 * offsets[i] + j
                gate_z = sigmoid(total[0, i] + g_t[0, i])
                gate_y[i] = sigmoid(total[1, i] + g_t[1, i])
                target_z = tanh(total[2, i] + g_t[2, i])
                step_z = clip_step(dt * gate_z, least, most)
                value = relax(step_z, memory[unsigned(slot)], target_z)
                memory[unsigned(slot)] = value
                gates[k] = gate_z
                gates[k + d] = gate_y[i]
                gates[k + 2 * d] = target_z
                z[offsets[i] + j] = value
        cuda.syncthreads()  # the new z is complete
        add_products(total_y, weights_y, memory, z_at, W_y_at, in_memory_y, j, part, width)
        store_part(total_y, memory, sums, j, part, width)
        cuda.syncthreads()  # the parts are complete, and z is read
        if has_unit:
            add_parts(total_y, memory, sums, j, parts, width)
            for i in range(tile):
                slot = j * tile + i
                target_y = tanh(total_y[i] + g_y[i])
                step_y = clip_step(dt * gate_y[i], least, most)
                value = relax(step_y, memory[unsigned(slot)], target_y)
                memory[unsigned(slot)] = value
                gates[4 * offsets[i] + 3 * d + j] = target_y
                y[offsets[i] + j] = value
        cuda.syncthreads()  # the new y is complete
        for i in range(tile):  # one number for step and sequence; with two, registers spill
            offsets[i] += batch * d
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    if has_unit:
        for i in range(tile):
            y_end[offsets[i] + j] = memory[unsigned(j * tile + i)]
            z_end[offsets[i] + j] = memory[unsigned(z_at + j * tile + i)]


@device
def _read_step(
    gate_z, gate_y, target_z, target_y, z_before, y_before, arrived, gates, z, y, z0, y0, grad_y,
    arriving, offsets, j, n, batch, d,
):  # fmt: skip
    """Read what the adjoint of step n of unit j needs.

    `z_before` and `y_before` get the states before the step, and `arrived` the gradients of the
    outputs. `offsets` are those of the step.
    """
    for i in range(offsets.size):
        index = offsets[i] + j
        k = 4 * offsets[i] + j
        gate_z[i] = gates[k]
        gate_y[i] = gates[k + d]
        target_z[i] = gates[k + 2 * d]
        target_y[i] = gates[k + 3 * d]
        z_before[i] = state_before(z, index - batch * d, z0, index, n)
        y_before[i] = state_before(y, index - batch * d, y0, index, n)
        arrived[i] = load_or_zero(grad_y, index, arriving)


@many_registers
def _backward_kernel(
    W, W_y, y0, z0, y, z, gates, grad_y, grad_y_end, grad_z_end, delta, grad_y0, grad_z0,
    has_y_end, has_z_end, dt, least, most, T, sequences, batch,
):  # fmt: skip
    """Backpropagate through all steps of the sequences of a block.

    `y`, `z` and `gates` are what the forward kernel wrote. `grad_y` (time, batch, d), `grad_y_end`
    and `grad_z_end` (batch, d) arrive, or are absent. `delta` (time, batch, 4 d) gets the gradients
    with respect to the drives, in the order 1 2 z y; `grad_y0` and `grad_z0` (batch, d) those with
    respect to the initial state. The vectors in shared memory are the deltas of a step: those of
    1 2 z (3 d, tile), at 0, which the transposed W multiplies, and that of y.
    """
    thread = cuda.threadIdx.x
    j = thread % width
    part = thread // width
    has_unit = part == 0 and j < d
    offsets = cuda.local.array(tile, np.int64)
    weights = cuda.local.array(in_registers, real)
    weights_y = cuda.local.array(in_registers_y, real)
    gate_z = cuda.local.array(tile, real)
    gate_y = cuda.local.array(tile, real)
    target_z = cuda.local.array(tile, real)
    target_y = cuda.local.array(tile, real)
    z_before = cuda.local.array(tile, real)
    y_before = cuda.local.array(tile, real)
    arrived = cuda.local.array(tile, real)
    total = cuda.local.array(tile, real)
    lambda_ = cuda.local.array(tile, real)  # what reaches y from later steps
    mu = cuda.local.array(tile, real)  # what reaches z directly, not through y
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    memory = cuda.shared.array(0, real, ALIGNMENT)
    delta_y_at, W_at, W_y_at, sums = pair_offsets(
        width, parts, 1, in_registers, in_memory, in_registers_y, in_memory_y, tile
    )
    first = run * 3 * d * d
    load_column(weights, memory, W_at, in_memory, W, first, 3 * d, d, j, part, width)
    first = run * d * d
    load_column(weights_y, memory, W_y_at, in_memory_y, W_y, first, d, d, j, part, width)
    clear_vectors(memory, W_at, thread, cuda.blockDim.x)
    for i in range(tile):
        lambda_[i] = ZERO
        mu[i] = ZERO
        if has_unit:
            lambda_[i] = load_or_zero(grad_y_end, offsets[i] + j, has_y_end)
            mu[i] = load_or_zero(grad_z_end, offsets[i] + j, has_z_end)
        offsets[i] += (T - 1) * batch * d
    if has_unit:
        _read_step(
            gate_z, gate_y, target_z, target_y, z_before, y_before, arrived, gates, z, y, z0, y0,
            grad_y, arriving, offsets, j, T - 1, batch, d,
        )  # fmt: skip
    cuda.syncthreads()  # the weights and zeros are complete
    for n in range(T - 1, -1, -1):
        if has_unit:
            for i in range(tile):
                slot = j * tile + i
                k = 4 * offsets[i] + j
                step_y = dt * gate_y[i]
                clipped = clip_step(step_y, least, most)
                gradient = arrived[i] + lambda_[i]
                d_y, d_2, lambda_[i] = relax_adjoint(
                    gate_y[i], step_y, clipped, y_before[i], target_y[i], gradient
                )
                memory[unsigned(delta_y_at + slot)] = d_y
                memory[unsigned(slot + d * tile)] = d_2
                delta[k + 3 * d] = d_y
                delta[k + d] = d_2
        cuda.syncthreads()  # delta_2 and delta_y are complete
        add_products(total, weights_y, memory, delta_y_at, W_y_at, in_memory_y, j, part, width)
        store_part(total, memory, sums, j, part, width)
        cuda.syncthreads()  # the parts are complete, and delta_y is read
        if has_unit:
            add_parts(total, memory, sums, j, parts, width)
            for i in range(tile):
                slot = j * tile + i
                k = 4 * offsets[i] + j
                step_z = dt * gate_z[i]
                clipped = clip_step(step_z, least, most)
                gradient = mu[i] + total[i]
                d_z, d_1, mu[i] = relax_adjoint(
                    gate_z[i], step_z, clipped, z_before[i], target_z[i], gradient
                )
                memory[unsigned(slot)] = d_1
                memory[unsigned(slot + 2 * d * tile)] = d_z
                delta[k] = d_1
                delta[k + 2 * d] = d_z
        cuda.syncthreads()  # delta_1 and delta_z are complete, and the parts are read
        if n > 0:  # after the loop they are those of the initial state
            for i in range(tile):
                offsets[i] -= batch * d
        if has_unit and n > 0:  # read before the product, which hides the latency
            _read_step(
                gate_z, gate_y, target_z, target_y, z_before, y_before, arrived, gates, z, y, z0,
                y0, grad_y, arriving, offsets, j, n - 1, batch, d,
            )  # fmt: skip
        add_products(total, weights, memory, 0, W_at, in_memory, j, part, width)
        store_part(total, memory, sums, j, part, width)
        cuda.syncthreads()  # the parts are complete, and the deltas are read
        if has_unit:
            add_parts(total, memory, sums, j, parts, width)
            for i in range(tile):
                lambda_[i] += total[i]
    if has_unit:
        for i in range(tile):
            grad_y0[offsets[i] + j] = lambda_[i]
            grad_z0[offsets[i] + j] = mu[i]


def _forward(dt, least, most, W, W_y, g, y0, z0, y, y_end, z_end, z, gates):
    layout, _ = layouts(y0)
    tensors = W_y, g, y0, z0, y, y_end, z_end, z, gates
    numbers = dt, least, most, len(g)
    _cuda_persistent.launch(_forward_kernel, layout, W, y0, *tensors, *numbers)


def _backward(dt, least, most, W, W_y, y0, z0, y, z, gates, grad_y, grad_y_end, grad_z_end):
    delta = torch.empty_like(gates)
    grad_y0 = torch.empty_like(y0)
    grad_z0 = torch.empty_like(z0)
    d = y.shape[2]
    _, layout = layouts(y0)
    arrived = grad_y, grad_y_end, grad_z_end
    tensors = W_y, y0, z0, y, z, gates, *arrived, delta, grad_y0, grad_z0
    flags = is_present(grad_y_end), is_present(grad_z_end)
    numbers = *flags, dt, least, most, len(y)
    options = {"arriving": is_present(grad_y)}
    _cuda_persistent.launch(_backward_kernel, layout, W, y0, *tensors, *numbers, **options)
    # Both gradients of weights are functions, which `Recurrence` calls only if they are wanted.
    grad_W = state_products(W, delta[..., : 3 * d], y0, y)
    grad_W_y = partial(sums_of_products, W_y, delta[..., 3 * d :], z)
    return grad_W, grad_W_y, delta, grad_y0, grad_z0


LEM = Recurrence(
    "lem_persistent_cuda", forward=_forward, backward=_backward, **_cuda_gates.LEM_DESCRIPTION
)
"""``LEM(dt, least, most, W, W_y, g, y0, z0) -> (y, (y_T, z_T))``, with the drive g."""
