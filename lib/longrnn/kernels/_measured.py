"""Measured times of engines, by the name of the GPU; ``auto`` chooses by them.

Milliseconds of a forward and backward pass of 100 sequences of 784 time steps in float32, medians
of five rounds. They are copies of rows of ``data/reference/timings/kernels`` in the repository,
which a test compares. A kernel that changes has to be timed again.
"""

from collections.abc import Mapping
from functools import cache

import torch

from longrnn.kernels._modes import constant_when_traced

MEASURED: Mapping[str, Mapping[tuple[str, int], Mapping[str, float]]] = {
    "NVIDIA H200": {
        ("rnn", 128): {"library": 2.09731, "numba-cuda": 2.89776},
    },
}
"""Times by device, by cell and hidden size, and by engine. Cells with one fast engine need none.

A variant of an engine follows its name: ``"numba-cuda, persistent"``.
"""


@constant_when_traced  # a choice by these times
def device_name() -> str:
    """Return the name of the first GPU, an empty string if there is none."""
    return _first_gpu()


@cache
def _first_gpu() -> str:
    if not torch.cuda.is_available():
        return ""
    return torch.cuda.get_device_name(0)


def measured_times(cell: str, units: int | None = None) -> Mapping[str, float]:
    """Return the times of a cell's engines on the GPU of this machine.

    Parameters
    ----------
    cell : str
        Name of the cell.
    units : int, optional
        Hidden size; the times of the nearest measured one are returned.

    Returns
    -------
    mapping of str to float
        Milliseconds by engine; empty if this device or cell was not measured.
    """
    times = MEASURED.get(device_name(), {})
    sizes = sorted(size for name, size in times if name == cell)
    if not sizes:
        return {}
    wanted = units
    if wanted is None:
        wanted = sizes[0]
    nearest = min(sizes, key=lambda size: abs(size - wanted))
    return times[cell, nearest]
