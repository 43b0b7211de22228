r"""The learned time steps of a network, as the UnICORNN and LEM papers plot them.

UnICORNN (Rusch and Mishra 2021, equation 6 and Figure 5) moves each neuron of layer l by
:math:`\Delta t^l \hat\sigma(c^l)`, which training changes. LEM (Rusch et al. 2022, equation 3 and
Figures 4, 5 and 7) moves its two states by :math:`\Delta t_n` and :math:`\overline{\Delta t}_n`,
which also depend on the inputs. `longrnn.cells.Cell.time_steps` returns them.
"""

import copy

import numpy as np
import torch
from torch import Tensor

from longrnn.cells import Cell, OneStep, Recurrent
from longrnn.probes._checks import bare_cell

DECADES = np.round(np.linspace(-6, 1, 71), 1)
"""Edges of the histogram's bins, as log10 of the time step: ten bins per decade."""
SCALES = 3
"""Largest number of layers, or of kinds of time steps, that can be counted."""


@torch.no_grad()
def count_time_steps(cell: Cell | OneStep | Recurrent, u: Tensor) -> np.ndarray:
    """Return a histogram of the time steps of a cell along sequences, without dropout.

    Parameters
    ----------
    cell
        A cell with learned time steps, as a cell, a one-step cell such as `longrnn.LEMCell`, or a
        layer such as `longrnn.LEM` that has one layer and one direction; it is copied, not changed.
    u : (time, batch, input)
        The sequences, in the dtype of the cell.

    Returns
    -------
    (`SCALES`, bins)
        Fraction of time steps in each bin of `DECADES`, for each kind of time step; NaN for kinds
        that the cell doesn't have. Values outside all bins are counted in the outermost ones.

    Raises
    ------
    TypeError
        `cell` is neither a cell nor a layer, or `u` is not a tensor.
    ValueError
        The layer has several cells or takes inputs batch first, the sequences don't fit the cell,
        or the cell has no time steps, or more kinds than `SCALES`.
    """
    cell = bare_cell(cell)
    cell.check_input(u)
    kinds = copy.deepcopy(cell).eval().time_steps(u)
    if not 1 <= len(kinds) <= SCALES:
        raise ValueError(
            f"{cell.name}: expected 1 to {SCALES} kinds of time steps to count, got {len(kinds)}; "
            "leave time_steps out of the row's measures"
        )
    shares = np.full((SCALES, len(DECADES) - 1), np.nan)
    largest = np.nextafter(DECADES[-1], -np.inf)
    for kind, steps in enumerate(kinds):
        logs = np.log10(steps.double().cpu().numpy().ravel())
        counts, _ = np.histogram(np.clip(logs, DECADES[0], largest), DECADES)
        shares[kind] = counts / logs.size
    return shares
