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

These kernels have not been timed. Their speed is an estimate: in a step of an LSTM with 128
units in float32, a block reads 168 KiB of weights from shared memory, at 128 bytes per cycle. Its
512 threads also read h in 32 accesses each, one cycle per warp. Together that is 1,900 cycles. The
dense kernels read 256 KiB from the L2 cache, at about 64 bytes per cycle, which is 4,100
cycles. So `auto` takes these kernels only on a GPU for which `longrnn.kernels._measured` says that
they are faster. A row of that table is all it takes to change the choice. `make bench-gpu` times
both kinds.
"""

import math
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


def forward_layout(gates: int, units: int, dtype: torch.dtype) -> Layout:
    """Return the layout of a forward kernel, which multiplies by a matrix (gates * units, units).

    The threads of the last gate compute the new state, and get the values of the others through
    shared memory.

    Parameters
    ----------
    gates, units : int
        Number of gates, and hidden size.
    dtype : torch.dtype
    """
    return _layout(gates * units, units, dtype, exchanged=(gates - 1) * units)


def backward_layout(gates: int, units: int, dtype: torch.dtype) -> Layout:
    """Return the layout of a backward kernel, which multiplies by the transposed matrix.

    Parameters
    ----------
    gates, units : int
        Number of gates, and hidden size.
    dtype : torch.dtype
    """
    return _layout(units, gates * units, dtype, exchanged=0)


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


def fits(gates: int, state: Tensor) -> bool:
    """Return whether the weights of a cell fit on a multiprocessor of a state's device.

    Parameters
    ----------
    gates : int
        Number of gates: the matrix is (gates * units, units).
    state : (batch, units)
        A tensor of that size and type on the device.

    Returns
    -------
    bool
    """
    units = state.shape[1]
    most = most_shared_bytes(state.device)
    for layout_of in (forward_layout, backward_layout):
        layout = layout_of(gates, units, state.dtype)
        needed = layout.shared_numbers(_LARGEST_TILE[state.dtype]) * state.element_size()
        if layout.threads > _MOST_THREADS or needed > most:
            return False
    return True


def is_persistent(cell: str, variant: str, gates: int, state: Tensor) -> bool:
    """Return whether kernels with persistent weights run a cell.

    Parameters
    ----------
    cell : str
        Name of the cell.
    variant : {"auto", "persistent", "rows"}
        ``"persistent"`` asks for them, ``"rows"`` for the dense kernels. ``"auto"`` takes what was
        measured to be faster on this GPU, and the dense kernels if nothing was measured.
    gates : int
        Number of gates: the matrix is (gates * units, units).
    state : (batch, units)
        A state of the cell.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        There is no such variant, or it is ``"persistent"`` and the weights don't fit.
    """
    if variant not in _VARIANTS:
        raise ValueError(
            f"{cell}: expected variant to be one of {', '.join(_VARIANTS)}, got {variant!r}"
        )
    units = state.shape[1]
    if variant == "persistent" and not fits(gates, state):
        raise ValueError(
            f"variant 'persistent' of {cell} keeps all weights on a multiprocessor, but those of "
            f"{units} units in {state.dtype} don't fit; use variant='auto'"
        )
    if variant == "auto":
        times = measured_times(cell, units)
        persistent = times.get("numba-cuda, persistent", math.inf)
        is_faster = persistent < times.get("numba-cuda", math.inf)
        return is_faster and fits(gates, state)
    return variant == "persistent"


def launch(
    run: kernel,
    layout: Layout,
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
    layout : Layout
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
        width=layout.width,
        parts=layout.parts,
        in_registers=layout.in_registers,
        in_memory=layout.in_memory,
        **constants,
    )
