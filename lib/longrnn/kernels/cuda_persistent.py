r"""The basic RNN on the GPU with weights that stay on the multiprocessor.

The forward and adjoint equations, and what is stored, are those of `longrnn.kernels.cpu_rnn`. The
kernels of `longrnn.kernels.cuda_rnn` read the matrix from a cache at every step. Here a block reads
it once. A thread keeps n weights of one row in its registers (`in_registers`), and `parts` threads
share a row:

.. math::
    (W x)_j = \sum_{p} \sum_{q} W_{j, p n + q} \, x_{p n + q}

Weights that don't fit into the registers of a block are in shared memory. The sums of the parts are
exchanged through shared memory, too. So a step has two barriers: after the sums of the parts, and
after the new state.

One block computes one or a few sequences of a run from beginning to end, and one launch takes
several runs. No GPU has timed these kernels. They run if the option ``variant="persistent"`` asks
for them, or if a measured time says so (`longrnn.kernels._measured`).
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels import _cuda_launch
from longrnn.kernels._cpu_dense import BASIC
from longrnn.kernels._cpu_dense_operator import reference
from longrnn.kernels._cuda import cuda, device
from longrnn.kernels._cuda_dense import set_offsets_in_run, unsigned
from longrnn.kernels._cuda_device import ONE, ZERO, load_or_zero, tanh
from longrnn.kernels._cuda_kernel import d, kernel, real, tile
from longrnn.kernels._cuda_launch import is_present, most_shared_bytes, processors_of
from longrnn.kernels._products import state_products
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import runs_of

in_registers = 32
"""Compile-time constant: weights in the registers of a thread."""
parts = 1
"""Compile-time constant: threads that share a row of the matrix."""
width = 32
"""Compile-time constant: the hidden size, rounded up to whole warps."""
arriving = 0
"""Compile-time constant: whether gradients of the outputs arrive."""

MOST_UNITS = 256
"""Largest hidden size of these kernels."""
_MOST_THREADS = 512
_IN_REGISTERS = {torch.float32: 32, torch.float64: 16}
"""Weights in the registers of a thread. The compiler would put 64 into memory of its own."""


class Layout(NamedTuple):
    """Where a block keeps the weights, and how much shared memory it needs."""

    width: int
    """The hidden size, rounded up to whole warps."""
    parts: int
    """Threads that share a row of the matrix."""
    in_registers: int
    """Weights in the registers of a thread."""
    shared_weights: int
    """Weights in shared memory."""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.parts * self.width

    def shared_numbers(self, tile: int) -> int:
        """Return how many numbers a block of `tile` sequences keeps in shared memory."""
        rest = self.shared_weights // self.width
        state = self.parts * self.in_registers + rest
        sums = (self.parts - 1) * self.width
        return (state + sums) * tile + self.shared_weights


def layout_of(units: int, dtype: torch.dtype) -> Layout:
    """Return how a block keeps the weights of a hidden size.

    A multiprocessor has 65,536 registers of four bytes, 128 for each of 512 threads. Weights take
    32 of them: in float64 a weight takes two.

    Parameters
    ----------
    units : int
        Hidden size, at most `MOST_UNITS`.
    dtype : torch.dtype
    """
    width = -(-units // 32) * 32
    most_parts = _MOST_THREADS // width
    in_registers = _IN_REGISTERS[dtype]
    parts = min(-(-units // in_registers), most_parts)
    rest = max(units - parts * in_registers, 0)
    return Layout(width, parts, in_registers, rest * width)


@device
def hold_weights(weights, memory, kept, matrix, first, j, part, parts, width, d):
    """Read a thread's weights of row `j` into its registers, and some into shared memory.

    `matrix` (d, d) begins at index `first`, with the weights of a row `d` apart. The weights that
    are not in registers are in shared memory from `kept` on. Beyond the matrix, weights are zero.
    """
    in_registers = weights.size
    for q in range(in_registers):
        weights[q] = ZERO
        if part * in_registers + q < d and j < d:
            weights[q] = matrix[first + (part * in_registers + q) * d + j]
    k = parts * in_registers + part
    index = kept + part * width + j
    while k < d:
        memory[index] = ZERO
        if j < d:
            memory[index] = matrix[first + k * d + j]
        k += parts
        index += parts * width


@device
def add_products(totals, weights, memory, kept, j, part, parts, width, d):
    """Set `totals` to a thread's part of row `j` of the products with the states in shared memory.

    The states of all sequences of a block begin at 0, the first numbers first.
    """
    in_registers = weights.size
    tile = totals.size
    for i in range(tile):
        totals[i] = ZERO
    for q in range(in_registers):
        for i in range(tile):
            number = (part * in_registers + q) * tile + i
            totals[i] += weights[q] * memory[unsigned(number)]
    k = parts * in_registers + part
    index = kept + part * width + j
    while k < d:
        weight = memory[unsigned(index)]
        for i in range(tile):
            totals[i] += weight * memory[unsigned(k * tile + i)]
        k += parts
        index += parts * width


@device
def store_part(totals, memory, sums, j, part, width):
    """Write a part of row `j` to shared memory, for `add_parts`; the first part stays."""
    if part > 0:
        for i in range(totals.size):
            memory[unsigned(sums + ((part - 1) * width + j) * totals.size + i)] = totals[i]


@device
def add_parts(totals, memory, sums, j, parts, width):
    """Add the other parts of row `j` to the first."""
    part = 1
    while part < parts:
        for i in range(totals.size):
            totals[i] += memory[unsigned(sums + ((part - 1) * width + j) * totals.size + i)]
        part += 1


@kernel
def _forward_kernel(M_T, g, x0, outputs, x_end, T, sequences, batch):
    """Run all steps of the sequences of a block; `M_T` (d, d) of each run is transposed."""
    thread = cuda.threadIdx.x
    j = thread % width
    part = thread // width
    finishes = part == 0 and j < d  # whether the thread computes the state of a unit
    offsets = cuda.local.array(tile, np.int64)
    weights = cuda.local.array(in_registers, real)
    total = cuda.local.array(tile, real)
    g_t = cuda.local.array(tile, real)
    run = cuda.blockIdx.y
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    memory = cuda.shared.array(0, real)
    height = max(parts * in_registers, d)  # length of the state, padded with zeros
    sums = height * tile
    kept = sums + (parts - 1) * width * tile
    hold_weights(weights, memory, kept, M_T, run * d * d, j, part, parts, width, d)
    k = thread
    while k < height:
        for i in range(tile):
            memory[k * tile + i] = x0[offsets[i] + k] if k < d else ZERO
        k += cuda.blockDim.x
    cuda.syncthreads()
    base = 0
    for _ in range(T):
        if finishes:
            for i in range(tile):
                g_t[i] = g[
                    base + offsets[i] + j
                ]  # read before the product, which hides the latency
        add_products(total, weights, memory, kept, j, part, parts, width, d)
        store_part(total, memory, sums, j, part, width)
        cuda.syncthreads()
        if finishes:
            add_parts(total, memory, sums, j, parts, width)
            for i in range(tile):
                value = tanh(total[i] + g_t[i])
                memory[unsigned(j * tile + i)] = value
                outputs[base + offsets[i] + j] = value
        cuda.syncthreads()
        base += batch * d
    if finishes:
        for i in range(tile):
            x_end[offsets[i] + j] = memory[j * tile + i]


@kernel
def _backward_kernel(
    M, y, grad_outputs, grad_x_end, delta, grad_x0, has_x_end, T, sequences, batch
):  # fmt: skip
    """Backpropagate through all steps of the sequences of a block.

    The state in shared memory is delta of the step after.
    """
    thread = cuda.threadIdx.x
    j = thread % width
    part = thread // width
    finishes = part == 0 and j < d
    offsets = cuda.local.array(tile, np.int64)
    weights = cuda.local.array(in_registers, real)
    back = cuda.local.array(tile, real)
    y_t = cuda.local.array(tile, real)
    arrived = cuda.local.array(tile, real)
    run = cuda.blockIdx.y
    set_offsets_in_run(offsets, cuda.blockIdx.x, run, sequences, d)
    memory = cuda.shared.array(0, real)
    height = max(parts * in_registers, d)  # length of the state, padded with zeros
    sums = height * tile
    kept = sums + (parts - 1) * width * tile
    hold_weights(weights, memory, kept, M, run * d * d, j, part, parts, width, d)
    k = thread
    while k < height:  # beyond the units they stay zero
        for i in range(tile):
            memory[k * tile + i] = ZERO
        k += cuda.blockDim.x
    for i in range(tile):
        back[i] = ZERO
        if has_x_end and finishes:
            back[i] = grad_x_end[offsets[i] + j]
    cuda.syncthreads()
    base = (T - 1) * batch * d
    for _ in range(T):
        if finishes:
            for i in range(tile):
                y_t[i] = y[base + offsets[i] + j]
                arrived[i] = load_or_zero(grad_outputs, base + offsets[i] + j, arriving)
            for i in range(tile):
                value = (arrived[i] + back[i]) * (ONE - y_t[i] * y_t[i])
                memory[unsigned(j * tile + i)] = value
                delta[base + offsets[i] + j] = value
        cuda.syncthreads()
        add_products(back, weights, memory, kept, j, part, parts, width, d)
        store_part(back, memory, sums, j, part, width)
        cuda.syncthreads()
        if finishes:
            add_parts(back, memory, sums, j, parts, width)
        base -= batch * d
    if finishes:
        for i in range(tile):
            grad_x0[offsets[i] + j] = back[i]


def _launch(run, matrix: Tensor, state: Tensor, *arguments, **forms: int) -> None:
    """Run a kernel with a block for each few sequences of a run."""
    batch, units = state.shape
    runs = runs_of(matrix)
    sequences = batch // runs
    layout = layout_of(units, state.dtype)
    tile = 1
    while tile < 4 and runs * -(-sequences // tile) > processors_of(state):
        tile *= 2
    _cuda_launch.launch(
        run,
        (-(-sequences // tile), runs),
        layout.threads,
        matrix,
        *arguments,
        sequences,
        batch,
        shared=layout.shared_numbers(tile) * state.element_size(),
        d=units,
        tile=tile,
        in_registers=layout.in_registers,
        parts=layout.parts,
        width=layout.width,
        **forms,
    )


def fits(state: Tensor) -> bool:
    """Return whether these kernels take states (batch, hidden) of such a size on their device.

    Parameters
    ----------
    state : (batch, hidden)
        A tensor of that size and type on the device.

    Returns
    -------
    bool
    """
    units = state.shape[1]
    if units > MOST_UNITS:
        return False
    needed = layout_of(units, state.dtype).shared_numbers(tile=4) * state.element_size()
    return needed <= most_shared_bytes(state.device)


def _forward(M, g, x0, outputs, x_end):
    _launch(_forward_kernel, M.mT.contiguous(), x0, g, x0, outputs, x_end, len(g))


def _backward(M, x0, outputs, grad_outputs, grad_x_end):
    delta = torch.empty_like(outputs)
    grad_x0 = torch.empty_like(x0)
    tensors = outputs, grad_outputs, grad_x_end, delta, grad_x0
    numbers = is_present(grad_x_end), len(outputs)
    _launch(_backward_kernel, M, x0, *tensors, *numbers, arriving=is_present(grad_outputs))
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
    runs=True,
)
"""The basic RNN: ``RNN(M, g, x0) -> (outputs, (x_T,))``, with the drive g of all times."""
