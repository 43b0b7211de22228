r"""How much of the first state, and of a late one, is left in the last: what the incremental RNN's text draws in training.

Its Figures 3b, 8 and 9 show :math:`\|\partial h_T / \partial h_1\|`, that of :math:`\partial h_T / \partial h_{T-1}`, and
:math:`\|\partial L / \partial h_1\|`. Norms are spectral: the text does not say which.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from lib.cells import Cell
from lib.probes.adjoint import adjoint_norms
from lib.probes.lyapunov import step_jacobians


def state_gains(cell: Cell, u: Tensor, loss: Callable[[Tensor], Tensor]) -> dict[str, float]:
    """Return ``gain_first``, ``gain_last`` and ``adjoint_first``: medians over sequences of log10 norms, in float64.

    Parameters
    ----------
    cell
        It is copied, not changed. Of several state tensors the one that is read out counts, and what passes through the others
        on the way.
    u : (time, batch, input)
        The sequences to measure along: the cost is that of d sequences for each.
    loss
        Maps the last state that is read out, (batch, hidden) in float64, to the sum of the sequences' losses.

    Notes
    -----
    A norm of exactly zero is ``-inf``, one that is not a number ``nan``.
    """
    adjoint = adjoint_norms(cell, u, loss, times=(1,)).readout[0]
    return {
        "gain_first": log_gain(cell, u, 1).median().item(),
        "gain_last": log_gain(cell, u, len(u) - 1).median().item(),
        "adjoint_first": adjoint.median().item(),
    }


def log_gain(cell: Cell, u: Tensor, start: int) -> Tensor:
    """Return log10 of the spectral norm of dh_T/dh_start along each of the sequences `u`, (batch,).

    The product of the steps' Jacobians is scaled after every step, and the logarithms of the scales added.

    Raises
    ------
    ValueError
        `start` leaves no step.
    """
    read = slice(cell.readout * cell.hidden_size, (cell.readout + 1) * cell.hidden_size)
    product, total = None, 0.0
    for jacobian in step_jacobians(cell, u, start=start):
        product = jacobian[..., read] if product is None else jacobian @ product
        scale = product.abs().amax((1, 2), keepdim=True)
        product = product / torch.where(scale > 0, scale, 1.0)
        total = total + scale[:, 0, 0].log10()
    return total + torch.linalg.matrix_norm(product[:, read], 2).log10()
