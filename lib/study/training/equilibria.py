r"""The stability of the incremental RNN near its equilibrium, from the eigenvalues of a matrix.

A. Kag, Z. Zhang, V. Saligrama, *RNNs incrementally evolving on an equilibrium manifold*, ICLR 2020,
Figure 7 of the manuscript. With :math:`s = g + \sigma h_{k-1}` the residual is
:math:`F(g) = \phi(U s + W x + b) - \alpha s` (in form (8) :math:`\phi(U (U s + W x + b))`), and

.. math:: \nabla F = \operatorname{diag}(\phi') U - \alpha I
    \qquad (\text{in form (8) } \operatorname{diag}(\phi') U U - \alpha I)

A low rank r has a consequence that the paper does not mention. Let the activation be ReLU and
:math:`U = \alpha I + V H` with alpha = 1. Then the rows of :math:`\nabla F` of active neurons are
rows of :math:`V H`, which has rank r. If k > r neurons are active, at least k - r eigenvalues are
exactly zero. So the eigenvalues can't all be negative, as the paper says that they should be.
"""

import numpy as np
import torch
from longrnn.cells import Cell
from longrnn.probes import Diverged
from torch import Tensor

from study.results.rows import REAL_PARTS

ZERO = 1e-9
"""Absolute real parts up to this count as zero, because of rounding errors."""


def real_part_fractions(eigenvalues: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the fractions of eigenvalues by the sign and the size of their real parts.

    Parameters
    ----------
    eigenvalues : Tensor
        Complex, of any shape.

    Returns
    -------
    by_sign : numpy.ndarray
        Fractions of negative, zero and positive real parts, (3,).
    by_size : numpy.ndarray
        Fractions in the bins of `study.results.rows.REAL_PARTS`, (bins,).

    Raises
    ------
    Diverged
        An eigenvalue is not finite.
    """
    real = eigenvalues.real.numpy().ravel()
    if not np.isfinite(real).all():
        raise Diverged("an eigenvalue is not finite")
    by_sign = np.array([(real < -ZERO).mean(), (abs(real) <= ZERO).mean(), (real > ZERO).mean()])
    clipped = np.where(abs(real) <= ZERO, 0.0, real).clip(REAL_PARTS[0], REAL_PARTS[-1])
    counts, _ = np.histogram(clipped, REAL_PARTS)
    return by_sign, counts / real.size


def equilibrium_eigenvalues(cell: Cell, u: Tensor, *, every: int = 1) -> Tensor:
    """Return the eigenvalues of the gradient of F (see the module) along sequences.

    Parameters
    ----------
    cell : Cell
        An iRNN. It starts from a state of zero.
    u : Tensor
        Inputs, shape (time, batch, input).
    every : int
        Compute every n-th time step only.

    Returns
    -------
    Tensor
        Complex, shape (time steps computed, batch, hidden).

    Raises
    ------
    ValueError
        The cell is not an iRNN.
    """
    if cell.name != "irnn":
        raise ValueError(
            f"{cell.name}: expected an iRNN, whose inner steps have an equilibrium; "
            "remove eigenvalues from the measures"
        )
    weights = cell.weights()
    identity = torch.eye(cell.hidden_size, dtype=u.dtype)
    U = cell.multiply(weights, identity).T.detach()
    inner = U @ U if weights.form == 8 else U
    state = tuple(part.to(u.dtype) for part in cell.initial_state(u.shape[1]))
    eigenvalues = []
    for t, u_t in enumerate(u):
        with torch.no_grad():
            after = cell.step(weights, state, u_t)
            s = after[0] + weights.sign * state[0]
            a = cell.argument(weights, s, u_t @ weights.W.T + weights.b)
        if t % every == 0:
            a.requires_grad_()
            (slope,) = torch.autograd.grad(weights.phi(a).sum(), a)
            matrix = slope[:, :, None] * inner - weights.alpha * identity
            eigenvalues.append(torch.linalg.eigvals(matrix))
        state = after
    return torch.stack(eigenvalues)
