r"""The incremental RNN near its equilibrium: paths, distances, and the matrix whose eigenvalues decide whether it is stable.

A. Kag, Z. Zhang, V. Saligrama, *RNNs incrementally evolving on an equilibrium manifold*, ICLR 2020, in the manuscript's numbers:
Figures 2, 6 and 7. With :math:`s = g + \sigma h_{k-1}` the residual is :math:`F(g) = \phi(U s + W x + b) - \alpha s` (in form (8)
:math:`\phi(U (U s + W x + b))`), and

.. math:: \nabla F = \operatorname{diag}(\phi') U - \alpha I \qquad (\text{in form (8) } \operatorname{diag}(\phi') U U - \alpha I)

A low rank has a consequence that the text passes over. With ReLU and :math:`U = \alpha I + V H`, alpha = 1, the rows of active
neurons in :math:`\nabla F` are those of a matrix of rank r: where more than r neurons are active, as many eigenvalues as
exceed r are exactly zero, and none of the text's strict inequalities can hold.
"""

import numpy as np
import torch
from torch import Tensor

from lib.cells import Cell, make_cell
from lib.cells.irnn import equilibrium, multiply

CELLS = ("rnn", "fastrnn", "irnn")


def random_walk(steps: int, deviation: float, rng: np.random.Generator) -> Tensor:
    """Return a walk from 0 with normal steps of this standard deviation, (steps, 1, 1), float64."""
    return torch.from_numpy(rng.normal(0, deviation, (steps, 1, 1)).cumsum(0))


def alike(
    rng: np.random.Generator, *, norm: float, eta: float, inner_steps: int
) -> dict[str, Cell]:
    """Return an RNN, a FastRNN and an iRNN of two neurons with tanh and the same random weights, as Figure 2 has them.

    Parameters
    ----------
    norm
        Spectral norm that U is scaled to; the text's conditions ask for less than 1.
    eta, inner_steps
        Of iRNN, equation (5) as printed, from zero.
    """
    U = torch.from_numpy(rng.standard_normal((2, 2)))
    U *= norm / torch.linalg.matrix_norm(U, 2)
    W, b = (torch.from_numpy(rng.standard_normal(shape)) for shape in ((2, 1), 2))
    more = {
        "rnn": {},
        "fastrnn": {"phi": "tanh"},
        "irnn": {"phi": "tanh", "inner_steps": inner_steps, "eta": eta, "train_eta": "fixed"},
    }
    cells = {}
    for name in CELLS:
        cell = make_cell(name, 1, 2, **more[name]).double().requires_grad_(False)
        inner, outer = (cell.W, cell.R) if name == "rnn" else (cell.U, cell.W)
        for parameter, value in ((inner, U), (outer, W), (cell.b, b)):
            parameter.copy_(value)
        cells[name] = cell
    return cells


@torch.no_grad()
def path(cell: Cell, u: Tensor) -> Tensor:
    """Return the places that a network of `alike` passes through, (time, hidden): its states, of iRNN g + h_(k-1).

    The sum is what lies on the equilibrium surface. By theorem 1 the increments themselves change their sign at every step.
    """
    h, _ = cell(u)
    if cell.name == "irnn":
        h = h + cell.sign * torch.cat([torch.zeros_like(h[:1]), h[:-1]])
    return h[:, 0]


def roughness(points: Tensor) -> float:
    """Return the length of a path, (time, hidden), over the diagonal of the box around it.

    >>> roughness(torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]]))
    2.0
    """
    length = points.diff(dim=0).norm(dim=1).sum()
    return (length / (points.amax(0) - points.amin(0)).norm()).item()


@torch.no_grad()
def off_the_surface(irnn: Cell, points: Tensor, u: Tensor) -> float:
    """Return how far the places of a path, (time, hidden), are from the equilibrium for their inputs, the mean of |phi(U s + W x + b) - alpha s|."""
    weights = irnn.weights()
    change = weights.phi(_argument(irnn, points, u[:, 0])) - weights.alpha * points
    return change.norm(dim=1).mean().item()


@torch.no_grad()
def residuals(cell: Cell, u: Tensor) -> Tensor:
    """Return how far an iRNN is from its equilibrium after each round, |F(h_k)|, (time, batch)."""
    weights = cell.weights()
    h, found = torch.zeros(u.shape[1], cell.hidden_size, dtype=u.dtype), []
    for u_t in u:
        (g,) = cell.step(weights, (h,), u_t)
        s = g + weights.sign * h
        found.append((weights.phi(_argument(cell, s, u_t)) - weights.alpha * s).norm(dim=1))
        h = g
    return torch.stack(found)


@torch.no_grad()
def distances(cell: Cell, h: Tensor, u: Tensor, inner_steps: int) -> Tensor:
    """Return the distances of g_1 .. g_K to the equilibrium, (K, batch), for a state (batch, hidden) and inputs (batch, input).

    Raises `lib.cells.irnn.NoEquilibriumError` where there is none to be found.
    """
    weights = cell.weights()
    target, eta = equilibrium(weights, h, u), weights.eta.flatten()[0]
    g, found = torch.zeros_like(h) if weights.from_zero else h, []
    for _ in range(inner_steps):
        s = g + weights.sign * h
        g = g + eta * (weights.phi(_argument(cell, s, u)) - weights.alpha * s)
        found.append((g - target).norm(dim=1))
    return torch.stack(found)


def stability(cell: Cell, u: Tensor, *, every: int = 1) -> Tensor:
    """Return the eigenvalues of the derivative of F along sequences, (rounds, batch, hidden), complex.

    Parameters
    ----------
    u : (time, batch, input)
        What a trained iRNN reads; its first state is zero.
    every
        One round of so many is looked at.
    """
    weights = cell.weights()
    identity = torch.eye(cell.hidden_size, dtype=u.dtype)
    U = multiply(weights, identity).T.detach()
    inner = U @ U if weights.form == 8 else U
    state, found = cell.initial_state(u.shape[1]), []
    state = tuple(part.to(u.dtype) for part in state)
    for t, u_t in enumerate(u):
        with torch.no_grad():
            after = cell.step(weights, state, u_t)
            a = _argument(cell, after[0] + weights.sign * state[0], u_t)
        if t % every == 0:
            a.requires_grad_()
            (slope,) = torch.autograd.grad(weights.phi(a).sum(), a)
            matrix = slope[:, :, None] * inner - weights.alpha * identity
            found.append(torch.linalg.eigvals(matrix))
        state = after
    return torch.stack(found)


def _argument(cell: Cell, s: Tensor, u: Tensor) -> Tensor:
    """Return what the activation is applied to, for the rows of s and of the inputs."""
    weights = cell.weights()
    a = multiply(weights, s) + u @ weights.W.T + weights.b
    return multiply(weights, a) if weights.form == 8 else a
