r"""The basic RNN on the GPU with weights that stay on the multiprocessor.

The forward and adjoint equations, and what is stored, are those of `longrnn.kernels.cpu_rnn`.
`longrnn.kernels._cuda_persistent` says where the weights are, and when these kernels run. A step
has two barriers: after the sums of the parts, and after the new state.
"""

from functools import partial

import numpy as np
import torch

from longrnn.kernels import _cuda_persistent
from longrnn.kernels._cpu_dense import BASIC
from longrnn.kernels._cpu_dense_operator import reference
from longrnn.kernels._cuda import cuda
from longrnn.kernels._cuda_dense import load_vectors, run_of, set_offsets_in_run, unsigned
from longrnn.kernels._cuda_device import ONE, ZERO, load_or_zero, tanh
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

layouts = partial(matrix_layouts, 1)
"""Layouts of the two kernels for a state; M is (d, d)."""


@many_registers
def _forward_kernel(M, g, x0, outputs, x_end, T, sequences, batch):
    """Run all steps of the sequences of a block; there are `sequences` per run."""
    thread = cuda.threadIdx.x
    j = thread % width
    part = thread // width
    # The first thread of a unit adds the parts of the others.
    has_unit = part == 0 and j < d
    offsets = cuda.local.array(tile, np.int64)
    weights = cuda.local.array(in_registers, real)
    total = cuda.local.array(tile, real)
    g_t = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    memory = cuda.shared.array(0, real, ALIGNMENT)
    shared_weights, sums, _ = shared_offsets(width, parts, in_registers, in_memory, tile)
    first = run * d * d
    load_row(weights, memory, shared_weights, in_memory, M, first, d, d, j, part, width)
    clear_vectors(memory, shared_weights, thread, cuda.blockDim.x)
    cuda.syncthreads()  # the zeros are complete, some of which x0 overwrites
    load_vectors(memory, 0, x0, offsets, thread, cuda.blockDim.x, d)
    cuda.syncthreads()  # the weights and x0 are complete
    base = 0  # offset of the time step
    for _ in range(T):
        if has_unit:
            for i in range(tile):  # read before the product, which hides the latency
                g_t[i] = g[base + offsets[i] + j]
        add_products(total, weights, memory, 0, shared_weights, in_memory, j, part, width)
        store_part(total, memory, sums, j, part, width)
        cuda.syncthreads()  # the parts are complete, and the state is read
        if has_unit:
            add_parts(total, memory, sums, j, parts, width)
            for i in range(tile):
                value = tanh(total[i] + g_t[i])
                memory[unsigned(j * tile + i)] = value
                outputs[base + offsets[i] + j] = value
        cuda.syncthreads()  # the new state is complete
        base += batch * d
    if has_unit:
        for i in range(tile):
            x_end[offsets[i] + j] = memory[j * tile + i]


@many_registers
def _backward_kernel(
    M, y, grad_outputs, grad_x_end, delta, grad_x0, has_x_end, T, sequences, batch
):  # fmt: skip
    """Backpropagate through all steps of the sequences of a block.

    The vectors in shared memory are delta.
    """
    thread = cuda.threadIdx.x
    j = thread % width
    part = thread // width
    has_unit = part == 0 and j < d
    offsets = cuda.local.array(tile, np.int64)
    weights = cuda.local.array(in_registers, real)
    back = cuda.local.array(tile, real)
    y_t = cuda.local.array(tile, real)
    arrived = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    memory = cuda.shared.array(0, real, ALIGNMENT)
    shared_weights, sums, _ = shared_offsets(width, parts, in_registers, in_memory, tile)
    first = run * d * d
    load_column(weights, memory, shared_weights, in_memory, M, first, d, d, j, part, width)
    clear_vectors(memory, shared_weights, thread, cuda.blockDim.x)
    base = (T - 1) * batch * d  # offset of the time step
    for i in range(tile):
        back[i] = ZERO
        if has_unit:
            back[i] = load_or_zero(grad_x_end, offsets[i] + j, has_x_end)
            y_t[i] = y[base + offsets[i] + j]
            arrived[i] = load_or_zero(grad_outputs, base + offsets[i] + j, arriving)
    cuda.syncthreads()  # the weights and zeros are complete
    for t in range(T - 1, -1, -1):
        if has_unit:
            for i in range(tile):
                value = (arrived[i] + back[i]) * (ONE - y_t[i] * y_t[i])
                memory[unsigned(j * tile + i)] = value
                delta[base + offsets[i] + j] = value
        cuda.syncthreads()  # delta is complete
        base -= batch * d
        if has_unit and t > 0:  # read before the product, which hides the latency
            for i in range(tile):
                y_t[i] = y[base + offsets[i] + j]
                arrived[i] = load_or_zero(grad_outputs, base + offsets[i] + j, arriving)
        add_products(back, weights, memory, 0, shared_weights, in_memory, j, part, width)
        store_part(back, memory, sums, j, part, width)
        cuda.syncthreads()  # the parts are complete, and delta is read
        if has_unit:
            add_parts(back, memory, sums, j, parts, width)
    if has_unit:
        for i in range(tile):
            grad_x0[offsets[i] + j] = back[i]


def _forward(M, g, x0, outputs, x_end):
    layout, _ = layouts(x0)
    _cuda_persistent.launch(_forward_kernel, layout, M, x0, g, x0, outputs, x_end, len(g))


def _backward(M, x0, outputs, grad_outputs, grad_x_end):
    delta = torch.empty_like(outputs)
    grad_x0 = torch.empty_like(x0)
    _, layout = layouts(x0)
    tensors = M, x0, outputs, grad_outputs, grad_x_end, delta, grad_x0
    numbers = is_present(grad_x_end), len(outputs)
    options = {"arriving": is_present(grad_outputs)}
    _cuda_persistent.launch(_backward_kernel, layout, *tensors, *numbers, **options)
    return state_products(M, delta, x0, outputs), delta, grad_x0


def _reference(M, g, x0):
    return reference(BASIC, None, M, None, None, g, None, x0)


RNN = Recurrence(
    "rnn_persistent_cuda",
    inputs="M g:1 x0:0",
    results="outputs x_end",
    saved="M x0 outputs",
    shapes=lambda a: [a.g.shape, a.x0.shape],
    forward=_forward,
    backward=_backward,
    reference=_reference,
    arrays=False,
    takes_networks=True,
)
"""The basic RNN: ``RNN(M, g, x0) -> (outputs, (x_T,))``, with the drive g of all times."""
