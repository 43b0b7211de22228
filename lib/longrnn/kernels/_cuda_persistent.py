r"""Products with a matrix that stays on the multiprocessor: layout, choice, and launch.

The dense kernels (`longrnn.kernels._cuda_dense`) read the matrix from a cache at every step. Here a
block reads it once. Then it computes one or a few sequences of a run from beginning to end. `parts`
threads share a row of the matrix, and a thread keeps s = `in_registers` + `in_memory` neighboring
weights of it, the first ones in registers and the others in shared memory:

.. math::
    (W x)_j = \sum_{p} \sum_{q < s} W_{j, p s + q} \, x_{p s + q}

The device functions of the kernels, and where numbers are in shared memory, are in
`longrnn.kernels._cuda_persistent_device`.

The idea is from Diamos et al. 2016 (Persistent RNNs: Stashing Recurrent Weights On-Chip, ICML).

These kernels have not been timed. Their speed is an estimate: in a step of an LSTM with 128 units
in float32, a block reads 168 KiB of weights from shared memory, at 128 bytes per cycle. Its 512
threads also read h in 32 accesses each, one cycle per warp. Together that is 1,900 cycles. The
dense kernels read 256 KiB from the L2 cache, at about 64 bytes per cycle, which is 4,100 cycles. So
`auto` takes these kernels only on a GPU for which `longrnn.kernels._measured` says that they are
faster. `make bench-gpu` times both kinds.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from longrnn.kernels import _cuda_launch
from longrnn.kernels._cuda_kernel import kernel
from longrnn.kernels._cuda_launch import Argument, most_shared_bytes, processors_of
from longrnn.kernels._measured import measured_times
from longrnn.kernels._runs import runs_of

_VARIANTS = ("auto", "persistent", "rows")
_MOST_THREADS = 512
"""Threads of a block. With this many, each one can have 128 registers of four bytes."""
_IN_REGISTERS = {torch.float32: 44, torch.float64: 24}
"""Most weights in the registers of a thread. With 48, one of the GRU's kernels spills."""
_LARGEST_TILE = {torch.float32: 4, torch.float64: 2}
"""Most sequences of a block: the states of more would need the registers of the weights."""


class Layout(NamedTuple):
    """Where a block keeps the weights of a matrix, and how much shared memory it needs."""

    width: int
    """Rows of the matrix, rounded up to whole warps."""
    parts: int
    """Threads that share a row."""
    in_registers: int
    """Weights of a thread in registers, a multiple of four."""
    in_memory: int
    """Weights of a thread in shared memory, a multiple of four."""
    exchanged: int
    """Numbers per sequence that the gates exchange through shared memory."""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.parts * self.width

    def shared_numbers(self, tile: int) -> int:
        """Return how many numbers a block of `tile` sequences keeps in shared memory."""
        vector = self.parts * (self.in_registers + self.in_memory)
        sums = (self.parts - 1) * self.width
        weights = self.threads * self.in_memory
        return (vector + sums + self.exchanged) * tile + weights


class PairLayout(NamedTuple):
    """Where a block keeps W (gates * units, units) and W_y (units, units) of LEM.

    The two products of a step follow each other. A thread takes part in both, for one unit.
    """

    width: int
    """Units, rounded up to whole warps."""
    parts: int
    """Threads that share a unit."""
    rows: int
    """Rows of W that a thread has a part of: one for each gate forward, and one backward."""
    in_registers: int
    """Weights of each of these rows in the registers of a thread, a multiple of four."""
    in_memory: int
    """Weights of each of these rows in shared memory, a multiple of four."""
    in_registers_y: int
    """Weights of W_y in the registers of a thread, a multiple of four."""
    in_memory_y: int
    """Weights of W_y in shared memory, a multiple of four."""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.parts * self.width

    def shared_numbers(self, tile: int) -> int:
        """Return how many numbers a block of `tile` sequences keeps in shared memory."""
        row = self.in_registers + self.in_memory
        row_y = self.in_registers_y + self.in_memory_y
        vectors = self.parts * (row + row_y)
        sums = self.rows * (self.parts - 1) * self.width
        weights = self.threads * (self.rows * self.in_memory + self.in_memory_y)
        return (vectors + sums) * tile + weights


Layouts = Callable[[Tensor], tuple[Layout | PairLayout, ...]]
"""Returns the layouts of the kernels of a cell with a state."""


def matrix_layouts(gates: int, state: Tensor) -> tuple[Layout, Layout]:
    """Return the layouts of a forward and of a backward kernel.

    The forward kernel multiplies by a matrix (gates * units, units). The threads of the last gate
    compute the new state, and get the values of the others through shared memory. The backward
    kernel multiplies by the transposed matrix.

    Parameters
    ----------
    gates : int
        Number of gates.
    state : (batch, units)
        A state of the cell.
    """
    units = state.shape[1]
    rows = gates * units
    forward = _layout(rows, units, state.dtype, exchanged=rows - units)
    backward = _layout(units, rows, state.dtype, exchanged=0)
    return forward, backward


def pair_layouts(gates: int, state: Tensor) -> tuple[PairLayout, PairLayout]:
    """Return the layouts of a forward and of a backward kernel with two matrices.

    Both kernels have the same numbers of weights in registers and in shared memory. W_y gets the
    registers first: its product is shorter, so less computation hides the latency of shared memory.

    Parameters
    ----------
    gates : int
        Number of gates: W is (gates * units, units).
    state : (batch, units)
        A state of the cell.
    """
    units = state.shape[1]
    most_in_registers = _IN_REGISTERS[state.dtype]
    width = -(-units // 32) * 32
    most_parts = max(_MOST_THREADS // width, 1)
    # So many parts that all weights could be in registers, if a block may have the threads.
    fours = max(most_in_registers // (4 * (gates + 1)), 1)
    parts = min(-(-units // (4 * fours)), most_parts)
    row = 4 * -(-units // (4 * parts))  # weights of a thread and a row
    # At least four weights of each row are in registers: a local array can't be empty.
    in_registers_y = min(row, max(most_in_registers - 4 * gates, 4))
    fours = max((most_in_registers - in_registers_y) // (4 * gates), 1)
    in_registers = min(row, 4 * fours)
    in_memory = row - in_registers
    of_y = in_registers_y, row - in_registers_y
    forward = PairLayout(width, parts, gates, in_registers, in_memory, *of_y)
    backward = PairLayout(width, parts, 1, gates * in_registers, gates * in_memory, *of_y)
    return forward, backward


def _layout(rows: int, columns: int, dtype: torch.dtype, exchanged: int) -> Layout:
    """Return the layout of a matrix.

    With more rows than `_MOST_THREADS` it does not fit, see `fits`.
    """
    width = -(-rows // 32) * 32
    most_in_registers = _IN_REGISTERS[dtype]
    most_parts = max(_MOST_THREADS // width, 1)
    parts = min(-(-columns // most_in_registers), most_parts)
    fours = -(-columns // (4 * parts))
    in_registers = min(4 * fours, most_in_registers)
    in_memory = 4 * fours - in_registers
    return Layout(width, parts, in_registers, in_memory, exchanged)


def fits(layouts: Layouts, state: Tensor) -> bool:
    """Return whether the weights of a cell fit on a multiprocessor of a state's device.

    Parameters
    ----------
    layouts : callable
        ``layouts(state)`` returns those of the cell's kernels.
    state : (batch, units)
        A tensor of that size and type on the device.

    Returns
    -------
    bool
    """
    most = most_shared_bytes(state.device)
    for layout in layouts(state):
        needed = layout.shared_numbers(_LARGEST_TILE[state.dtype]) * state.element_size()
        if layout.threads > _MOST_THREADS or needed > most:
            return False
    return True


def is_persistent(cell: str, variant: str, layouts: Layouts, state: Tensor) -> bool:
    """Return whether kernels with persistent weights run a cell.

    Parameters
    ----------
    cell : str
        Name of the cell.
    variant : {"auto", "persistent", "rows"}
        ``"persistent"`` asks for them, ``"rows"`` for the dense kernels. ``"auto"`` takes what was
        measured to be faster on this GPU, and the dense kernels if nothing was measured.
    layouts : callable
        ``layouts(state)`` returns those of the cell's kernels.
    state : (batch, units)
        A state of the cell.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        `variant` is unknown, or it is ``"persistent"`` and the weights don't fit.
    """
    if variant not in _VARIANTS:
        raise ValueError(
            f"{cell}: expected variant to be one of {', '.join(_VARIANTS)}, got {variant!r}"
        )
    units = state.shape[1]
    if variant == "persistent" and not fits(layouts, state):
        raise ValueError(
            f"variant 'persistent' of {cell} keeps all weights on a multiprocessor, but those of "
            f"{units} units in {state.dtype} don't fit; use variant='auto'"
        )
    if variant == "auto":
        times = measured_times(cell, units)
        persistent = times.get("numba-cuda, persistent", math.inf)
        is_faster = persistent < times.get("numba-cuda", math.inf)
        return is_faster and fits(layouts, state)
    return variant == "persistent"


def launch(
    run: kernel,
    layout: Layout | PairLayout,
    matrix: Tensor,
    state: Tensor,
    *arguments: Argument,
    **constants: int,
) -> None:
    """Run a kernel with a block for each few sequences of a run.

    A block computes one sequence, or two or four if there are more sequences than multiprocessors.

    Parameters
    ----------
    run : kernel
    layout : Layout or PairLayout
        Its numbers are compile-time constants of the kernel.
    matrix : (rows, columns) or (runs, rows, columns)
        The matrix, the kernel's first argument.
    state : (batch, units)
        Gives the sizes. The batches of the runs follow one another.
    *arguments
        Other arguments of the kernel; the sequences per run and the batch follow them.
    **constants : int
        Further compile-time constants.
    """
    batch, units = state.shape
    runs = runs_of(matrix)
    sequences = batch // runs
    largest = _LARGEST_TILE[state.dtype]
    tile = 1
    while tile < largest and runs * -(-sequences // tile) > processors_of(state):
        tile *= 2
    _cuda_launch.launch(
        run,
        runs * -(-sequences // tile),
        layout.threads,
        matrix,
        *arguments,
        sequences,
        batch,
        shared=layout.shared_numbers(tile) * state.element_size(),
        d=units,
        tile=tile,
        **layout._asdict(),
        **constants,
    )
