"""What a matrix that is too large or too small does to adjoint states: the text's own illustration, measured.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.9, considers a W of norm 2 with the
slope of the activation set to 1. Here the W of untrained networks is a rotation times a number; inputs that are turned down to
almost nothing make tanh's slope 1.
"""

import math
from collections.abc import Sequence
from itertools import product

import pandas as pd
import torch
from torch import Tensor

from lib.cells import Cell, make_cell
from lib.probes.adjoint import adjoint_norms

NETWORKS = ("rnn", "inverse_rnn", "lu_rnn")


def scaled_adjoints(
    scales: Sequence[float],
    loudness: Sequence[float],
    u: Tensor,
    targets: Tensor,
    *,
    width: int,
    tau: int,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Measure the adjoint states of untrained networks whose W is multiplied by each of `scales`.

    Parameters
    ----------
    scales
        Factors of the rotation W.
    loudness
        Factors of the inputs' effect R u + b; near 0 the network is linear.
    u : (time, batch, input)
        Sequences.
    targets : (batch,)
        A number for each; the loss is the squared error of a linear read-out of the last state.
    width, tau
        Recurrent dimension, and steps between interchanges.
    seed
        Draws W, R and the read-out; they are the same for all networks.

    Returns
    -------
    pandas.DataFrame
        Columns ``architecture``, ``scale``, ``loudness``, ``time`` and ``log10_ratio``, the median over sequences of the
        adjoint state's norm relative to the last one.

    Notes
    -----
    W is :math:`e^A` with Gaussian A = -A', a rotation by angles up to about one radian, whose factors L and U need no exchange
    of rows. R is uniform within :math:`\pm 1 / \sqrt{p}`, and b cancels the mean input, so that tanh works around zero.
    """
    draw = torch.Generator().manual_seed(seed)
    A = torch.randn(width, width, dtype=torch.float64, generator=draw) / math.sqrt(8 * width)
    W = torch.linalg.matrix_exp(A - A.T)
    R = (2 * torch.rand(width, u.shape[2], generator=draw) - 1) / math.sqrt(u.shape[2])
    readout = torch.randn(width, dtype=torch.float64, generator=draw) / math.sqrt(width)

    def loss(x: Tensor) -> Tensor:
        return (x @ readout - targets).square().sum()

    rows = []
    for name, scale, level in product(NETWORKS, scales, loudness):
        b = -R @ u.mean(dim=(0, 1))
        cell = _cell(name, scale * W, level * R, level * b, tau)
        norms = adjoint_norms(cell, u, loss)
        ratio = (norms.readout - norms.readout[-1]).median(dim=1).values
        at = {"architecture": name, "scale": scale, "loudness": level}
        rows.append(pd.DataFrame(at | {"time": norms.times, "log10_ratio": ratio.numpy()}))
    return pd.concat(rows, ignore_index=True)


def _cell(name: str, W: Tensor, R: Tensor, b: Tensor, tau: int) -> Cell:
    hyper_parameters = {} if name == "rnn" else {"tau": tau}
    cell = make_cell(name, R.shape[1], len(W), **hyper_parameters).requires_grad_(False)
    if name == "lu_rnn":
        cell.set_matrix(W)
    else:
        cell.W.copy_(W)
    cell.R.copy_(R)
    cell.b.copy_(b)
    return cell
