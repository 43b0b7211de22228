r"""The incremental RNN near its equilibrium: the matrix whose eigenvalues decide whether it is stable.

A. Kag, Z. Zhang, V. Saligrama, *RNNs incrementally evolving on an equilibrium manifold*, ICLR 2020, in the manuscript's numbers:
Figure 7. With :math:`s = g + \sigma h_{k-1}` the residual is :math:`F(g) = \phi(U s + W x + b) - \alpha s` (in form (8)
:math:`\phi(U (U s + W x + b))`), and

.. math:: \nabla F = \operatorname{diag}(\phi') U - \alpha I \qquad (\text{in form (8) } \operatorname{diag}(\phi') U U - \alpha I)

A low rank has a consequence that the text passes over. With ReLU and :math:`U = \alpha I + V H`, alpha = 1, the rows of active
neurons in :math:`\nabla F` are those of a matrix of rank r: where more than r neurons are active, as many eigenvalues as
exceed r are exactly zero, and none of the text's strict inequalities can hold.
"""

import numpy as np
import torch
from longrnn.cells import Cell
from longrnn.probes import Diverged
from torch import Tensor

from study.results.rows import REAL_PARTS

ZERO = 1e-9
"""Real parts below are zero: what is left of rounding where rows of the matrix depend on each other."""


def signs(eigenvalues: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of eigenvalues whose real part is negative, zero and positive, and the shares by classes of `REAL_PARTS`."""
    real = eigenvalues.real.numpy().ravel()
    if not np.isfinite(real).all():
        raise Diverged("an eigenvalue is not finite")
    by_sign = np.array([(real < -ZERO).mean(), (abs(real) <= ZERO).mean(), (real > ZERO).mean()])
    inside = np.where(abs(real) <= ZERO, 0.0, real).clip(REAL_PARTS[0], REAL_PARTS[-1])
    return by_sign, np.histogram(inside, REAL_PARTS)[0] / real.size


def stability(cell: Cell, u: Tensor, *, every: int = 1) -> Tensor:
    """Return the eigenvalues of the derivative of F along sequences, (rounds, batch, hidden), complex.

    A trained iRNN reads `u`, (time, batch, input), from a first state of zero; one round of `every` is looked at. Raises `ValueError`
    where the cell is no iRNN.
    """
    if cell.name != "irnn":
        raise ValueError(
            f"{cell.name}: expected an iRNN, whose inner steps have an equilibrium; leave eigenvalues out of the row's measures"
        )
    weights = cell.weights()
    identity = torch.eye(cell.hidden_size, dtype=u.dtype)
    U = cell.multiply(weights, identity).T.detach()
    inner = U @ U if weights.form == 8 else U
    state, found = cell.initial_state(u.shape[1]), []
    state = tuple(part.to(u.dtype) for part in state)
    for t, u_t in enumerate(u):
        with torch.no_grad():
            after = cell.step(weights, state, u_t)
            s = after[0] + weights.sign * state[0]
            a = cell.argument(weights, s, u_t @ weights.W.T + weights.b)
        if t % every == 0:
            a.requires_grad_()
            (slope,) = torch.autograd.grad(weights.phi(a).sum(), a)
            matrix = slope[:, :, None] * inner - weights.alpha * identity
            found.append(torch.linalg.eigvals(matrix))
        state = after
    return torch.stack(found)
