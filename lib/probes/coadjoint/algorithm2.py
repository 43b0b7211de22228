r"""Algorithm 2 for the basic RNN, equation by equation: forward coadjoints, backward coadjoints, gradient.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.6 and appendix A2. The network is

.. math:: x_t = \sigma(z_t), \quad z_t = W x_{t-1} + R u_t + b_1, \qquad \hat{y} = \phi(a), \quad a = V x_T + b_2 \tag{2.1}

with :math:`\sigma, \phi` applied component by component, so their Jacobians are diagonal (remark 2.2): below s_t and q_t are the
diagonals of :math:`\sigma^{(1)}(z_t)` and :math:`\sigma^{(2)}(z_t)`, p and r those of :math:`\phi^{(1)}(a)` and
:math:`\phi^{(2)}(a)`.

====== ============ ================== ==========================================
symbol name         shape              meaning
====== ============ ================== ==========================================
x_t    ``x``        (T + 1, batch, d)  states from x_0 on
l_t    ``lambda_``  (T + 1, batch, d)  adjoints; entry 0 is not used
g_t    ``gamma``    (T + 1, batch, d)  forward coadjoints; entry 0 is not used
a_t    ``alpha``    (T + 1, batch, d)  backward coadjoints; entry 0 is not used
====== ============ ================== ==========================================

Entries carry the text's own time index t. Everything is computed for the sequences of a mini-batch side by side, and
the gradient is that of the mean over them, as Algorithm 2 asks.

Where the printed formulas are not the derivative of F + G (all follow from the Lagrangian (13) of appendix A2.4):

- (2.24), (17), (19), at t = T: the first two terms need a minus sign, as the third has it. The multiplier of the output's
  equation is :math:`-\partial F / \partial \hat{y} - \ldots`, its sign was lost. With G = 0 the printed backward
  coadjoint is :math:`-\lambda_T`, and (2.25) then the negative of backpropagation's gradient (2.22).
- (2.24) prints the third of these terms in the row of t < T; (19) has it where it belongs.
- (2.25), second term: :math:`\sigma^{(1)} \lambda_{t+1} \gamma_t'`, printed as its transpose.
- (2.25), third term: the matrix of the Hessians stands in front of :math:`W \gamma_t x_t'`, printed behind it.
- (2.25): the last two terms are summed over t < T, as there is no :math:`\lambda_{T+1}`, and the minus sign is for all three.

The text prints the gradient for W alone; those for R, b_1, V and b_2 follow from the same Lagrangian.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

import torch
from torch import Tensor

from lib.probes.coadjoint.penalties import Penalty

MISPRINTS = ("signs of alpha_T", "second term of (2.25)", "third term of (2.25)")
"""Where the printed formulas can be tried in place of the derivative, in the order of the list above."""


class Activation(NamedTuple):
    """A function applied component by component, and its first two derivatives."""

    value: Callable[[Tensor], Tensor]
    first: Callable[[Tensor], Tensor]
    second: Callable[[Tensor], Tensor]


def _tanh_first(v: Tensor) -> Tensor:
    return 1 - torch.tanh(v) ** 2


TANH = Activation(torch.tanh, _tanh_first, lambda v: -2 * torch.tanh(v) * _tanh_first(v))
IDENTITY = Activation(lambda v: v, torch.ones_like, torch.zeros_like)


class Parameters(NamedTuple):
    """Weights of the basic RNN with its output layer (definition 2.1), or gradients with respect to them."""

    W: Tensor
    R: Tensor
    b_1: Tensor
    V: Tensor
    b_2: Tensor


class Trajectories(NamedTuple):
    """What Algorithm 2 computes on its way, each (T + 1, batch, d), and the mean of F and of G."""

    x: Tensor
    lambda_: Tensor
    gamma: Tensor
    alpha: Tensor
    loss: Tensor
    penalty: Tensor


def algorithm2(
    theta: Parameters,
    u: Tensor,
    loss: Callable[[Tensor], Tensor],
    penalty: Penalty,
    *,
    sigma: Activation = TANH,
    phi: Activation = IDENTITY,
    x_0: Tensor | None = None,
    printed: Collection[str] = (),
) -> tuple[Parameters, Trajectories]:
    r"""Return the gradient of the mean of F + G over a mini-batch: the body of Algorithm 2's loop.

    Parameters
    ----------
    theta
        The weights.
    u : (T, batch, p)
        The inputs.
    loss
        F as a function of the predictions, (batch, l) to (batch,); each sequence's depends on its own prediction.
        It must be twice differentiable.
    penalty
        G, from adjoints (T, batch, d) to (batch,), its weight kappa included.
    sigma, phi
        Activation and output function.
    x_0 : (batch, d), optional
        Initial state, zeros by default.
    printed
        Those of `MISPRINTS` to compute as they are printed, in order to show that they are not the gradient. The
        output layer's gradients, which the text does not print, stay right.

    Returns
    -------
    gradient : Parameters
    trajectories : Trajectories

    Raises
    ------
    ValueError
        `printed` holds something else than misprints.
    """
    if unknown := set(printed) - set(MISPRINTS):
        raise ValueError(f"unknown misprint {min(unknown)!r}; known: {', '.join(MISPRINTS)}")
    W, R, b_1, V, b_2 = theta
    T, batch, _ = u.shape
    x = [u.new_zeros(batch, len(W)) if x_0 is None else x_0]
    z = [None]
    for t in range(1, T + 1):
        z.append(x[t - 1] @ W.T + u[t - 1] @ R.T + b_1)
        x.append(sigma.value(z[t]))  # (2.1)
    a = x[T] @ V.T + b_2
    s, q = ([None, *(slope(z_t) for z_t in z[1:])] for slope in (sigma.first, sigma.second))
    p, r = phi.first(a), phi.second(a)
    F, F_1, F_2 = _derivatives(loss, phi.value(a))

    lambda_ = [None] * T + [-(p * F_1) @ V]  # (2.21), t = T
    for t in range(T - 1, 0, -1):
        lambda_[t] = (s[t + 1] * lambda_[t + 1]) @ W  # (2.21), t < T

    G, G_1 = _penalty_gradient(penalty, torch.stack(lambda_[1:]))
    gamma = [None, -G_1[0]]  # (2.23), t = 1
    for t in range(2, T + 1):
        gamma.append(s[t] * (gamma[t - 1] @ W.T) - G_1[t - 1])  # (2.23), t > 1

    V_gamma = gamma[T] @ V.T
    terms = p * F_1, p * _apply(F_2, p * V_gamma), r * F_1 * V_gamma
    signs = (1, 1, -1) if MISPRINTS[0] in printed else (-1, -1, -1)
    at_output = sum(sign * term for sign, term in zip(signs, terms, strict=True))
    alpha = [None] * T + [at_output @ V]  # (2.24), t = T
    for t in range(T - 1, 0, -1):
        curved = lambda_[t + 1] * q[t + 1] * (gamma[t] @ W.T)
        alpha[t] = (s[t + 1] * alpha[t + 1] + curved) @ W  # (2.24), t < T

    W_gradient = -sum((s[t] * alpha[t]).T @ x[t - 1] for t in range(1, T + 1))  # (2.25)
    drive = [None, *(-s[t] * alpha[t] for t in range(1, T + 1))]  # derivative by z_t
    for t in range(1, T):
        through_adjoint = (s[t + 1] * lambda_[t + 1]).T @ gamma[t]
        curvature, moved = lambda_[t + 1] * q[t + 1], gamma[t] @ W.T
        through_slope = (curvature * moved).T @ x[t]
        if MISPRINTS[1] in printed:
            through_adjoint = through_adjoint.T
        if MISPRINTS[2] in printed:  # the diagonal matrix scales columns instead of rows
            through_slope = moved.T @ (x[t] * curvature)
        W_gradient = W_gradient - through_adjoint - through_slope  # (2.25)
        drive[t + 1] = drive[t + 1] - curvature * moved
    # The gradients that the text does not print. The output layer enters by F and by lambda_T.
    correct = sum(terms)
    gradient = Parameters(
        W=W_gradient,
        R=sum(drive[t].T @ u[t - 1] for t in range(1, T + 1)),
        b_1=sum(drive[t].sum(0) for t in range(1, T + 1)),
        V=correct.T @ x[T] + terms[0].T @ gamma[T],
        b_2=correct.sum(0),
    )
    stacked = (_stack(part) for part in (lambda_, gamma, alpha))
    mean = Parameters(*(part / batch for part in gradient))
    return mean, Trajectories(torch.stack(x), *stacked, F.mean(), G.mean())


def _derivatives(loss, prediction: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return F (batch,), its gradient (batch, l) and its Hessian (batch, l, l) by the predictions."""
    prediction = prediction.detach().requires_grad_()
    with torch.enable_grad():
        F = loss(prediction)
        (F_1,) = torch.autograd.grad(F.sum(), prediction, create_graph=True)
        rows = [
            torch.autograd.grad(
                component.sum(), prediction, retain_graph=True, materialize_grads=True
            )[0]
            for component in F_1.unbind(1)
        ]
    return F.detach(), F_1.detach(), torch.stack(rows, dim=1)


def _penalty_gradient(penalty: Penalty, adjoints: Tensor) -> tuple[Tensor, Tensor]:
    adjoints = adjoints.detach().requires_grad_()
    with torch.enable_grad():
        G = penalty(adjoints)
        (G_1,) = torch.autograd.grad(G.sum(), adjoints)
    return G.detach(), G_1


def _apply(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Return the product of each sequence's matrix and vector, (batch, l)."""
    return torch.einsum("bij,bj->bi", matrices, vectors)


def _stack(entries: list[Tensor | None]) -> Tensor:
    """Stack entries 1..T behind an entry 0 that is not a number: the text has none."""
    known = torch.stack(entries[1:])
    return torch.cat([torch.full_like(known[:1], float("nan")), known])
