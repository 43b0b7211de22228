r"""The time steps with which a network moves its states: learned ones, as UnICORNN's and LEM's texts draw them.

UnICORNN (eq. 6) moves each neuron of layer l by :math:`\Delta t^l \hat\sigma(c^l)`, which training changes; LEM (eq. 3) moves both
of its states by :math:`\Delta t_n, \overline{\Delta t}_n`, which also depend on what is read. A cell tells its own, see
`longrnn.cells.Cell.time_steps`.
"""

import copy

import numpy as np
import torch
from torch import Tensor

from longrnn.cells import Cell

DECADES = np.round(np.linspace(-6, 1, 71), 1)
"""Edges of the classes that time steps are counted in, as log10: ten a decade."""
SCALES = 3
"""Layers, or kinds of time step, that are told apart."""


@torch.no_grad()
def counted(cell: Cell, u: Tensor) -> np.ndarray:
    """Return the share of each class among a cell's time steps, (`SCALES`, classes); ``nan`` where it has fewer kinds.

    They are those along the sequences `u`, (time, batch, input), without dropout. What lies outside all classes counts in the outermost.
    Raises `ValueError` where the cell has none, or more kinds than `SCALES`.
    """
    found = copy.deepcopy(cell).eval().time_steps(u)
    if not 1 <= len(found) <= SCALES:
        raise ValueError(
            f"{cell.name}: expected 1 to {SCALES} kinds of time steps to count, got {len(found)}; "
            "leave time_steps out of the row's measures"
        )
    shares = np.full((SCALES, len(DECADES) - 1), np.nan)
    for kind, steps in enumerate(found):
        logs = np.log10(steps.double().cpu().numpy().ravel())
        inside = np.clip(logs, DECADES[0], np.nextafter(DECADES[-1], -np.inf))
        shares[kind] = np.histogram(inside, DECADES)[0] / logs.size
    return shares
