r"""Networks of one dense step on one CPU core: they share their kernels, which are compiled for each of them (`form`).

Forward, with the drive :math:`g_t = R u_t + b` of all times computed before, from :math:`y_t = \phi(M_t x_{t-1} + g_t)`:

.. math::
    x_t &= y_t & &\text{basic RNN, exponential RNN, and with } M_t \in \{W, W^{-1}\} \text{ LU and inverse RNN} \\
    x_t &= x_{t-1} + \epsilon (A x_{t-1} + y_t) & &\text{Lipschitz RNN, and without A the antisymmetric RNN} \\
    x_t &= \beta x_{t-1} + \alpha y_t & &\text{FastRNN}

where :math:`\phi` is tanh, FastRNN's own choice, or the exponential RNN's :math:`\operatorname{sign}(a) \max(|a| + b, 0)`, whose drive
has no b. :math:`M_t` is W but in the two that interchange it with its inverse, as definition 2.4 says (2.28).

Adjoint, with :math:`\alpha = \epsilon, \beta = 1` of the Euler steps, and :math:`\alpha = 1, \beta = 0` where the state is :math:`y_t`:

.. math::
    \lambda_t = o_t + \beta \lambda_{t+1} + \alpha A^\top \lambda_{t+1} + M_{t+1}^\top \delta_{t+1}, \qquad
    \delta_t = \alpha \lambda_t \odot \phi'_t

where :math:`\phi'` follows from y: :math:`1 - y^2` of tanh, and :math:`[y \ne 0]` of the exponential RNN, since the sign of its y is that
of what it was made of. Then :math:`\partial L / \partial g_t = \delta_t` and, one product each over the whole sequence,

.. math::
    \frac{\partial L}{\partial W} = \sum_t \delta_t x_{t-1}^\top, \qquad
    \frac{\partial L}{\partial A} = \epsilon \sum_t \lambda_t x_{t-1}^\top

The exponential RNN's b gets :math:`\sum_t \delta_t \odot \operatorname{sign}(y_t)`, and FastRNN's :math:`\alpha, \beta` the sums of
:math:`\lambda_t \odot y_t` and :math:`\lambda_t \odot x_{t-1}`, kept per neuron and sequence on the way. Of the matrices that take turns,
each sums over its own steps, as if they were independent; PyTorch carries both gradients on to the parameters. Both are formed once
per call, the LU RNN's inverse by two triangular solves of the identity: 2 d^3 operations against the d^2 of every step and
sequence. A step is then one matrix product, where two solves would take several times as long for the same number of operations.

Stored: the outputs, which exist anyway, and y where it is not the state: it cannot be had from the outputs without losing digits to a
difference. Recomputed: nothing.
"""

from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels._cpu import (
    ONE,
    PHI,
    TANH,
    ZERO,
    activate,
    engine,
    scalar,
    times_slope,
    variants,
)
from longrnn.kernels._recurrence import Recurrence, drive, per_chain, product

BASIC, INTERCHANGED, MODRELU, EULER, LIPSCHITZ, FAST = range(6)
"""The networks, those last whose state is not y. FastRNN's number grows by that of its activation."""
form = BASIC
"""In the text of a kernel: which of them it is compiled for."""
NONE = np.empty(0, bool)


_by_form = variants("form", FAST + len(PHI))


@scalar
def modrelu(a, b):
    """Return sign(a) max(|a| + b, 0)."""
    sign = ONE if a > ZERO else (-ONE if a < ZERO else ZERO)
    size = abs(a) + b
    size = ZERO if size <= ZERO else size  # not max or min: NaN must pass
    return sign * size


@_by_form
def _forward(by_matrix, W, A, numbers, g, x0, outputs, y):
    """`y` may be the outputs; `by_matrix` (time) tells where W is used, and elsewhere A.

    `numbers` are the modReLU's b (batch, hidden), epsilon, or alpha and beta.
    """
    flat = numbers.ravel()
    phi = form - FAST if form >= FAST else TANH
    alpha, beta = flat[0] if form >= EULER else ONE, flat[1] if form >= FAST else ONE
    previous = x0
    for t in range(len(g)):
        M = A if form == INTERCHANGED and not by_matrix[t] else W
        np.dot(previous, M.T, y[t])
        if form == LIPSCHITZ:
            np.dot(previous, A.T, outputs[t])
        x, y_t, before, g_t = outputs[t].ravel(), y[t].ravel(), previous.ravel(), g[t].ravel()
        for i in range(g_t.size):
            if form == MODRELU:
                y_t[i] = modrelu(y_t[i] + g_t[i], flat[i])
            else:
                y_t[i] = activate(phi, y_t[i] + g_t[i])
            if EULER <= form < FAST:
                linear = x[i] if form == LIPSCHITZ else ZERO
                x[i] = before[i] + alpha * (linear + y_t[i])
        if form >= FAST:
            for i in range(g_t.size):
                x[i] = alpha * y_t[i] + beta * before[i]
        previous = outputs[t]


@_by_form
def _backward(
    by_matrix, W, A, numbers, x0, outputs, y, from_outputs, carried, lambdas, delta, sums
):
    """`carried` is the gradient of the final state and becomes that of the initial one; `sums` (numbers, batch, hidden) start at zero.

    The Lipschitz RNN keeps all `lambdas`, the others one.
    """
    flat, back, linear = numbers.ravel(), carried.ravel(), np.empty_like(carried)
    phi = form - FAST if form >= FAST else TANH
    alpha, beta = flat[0] if form >= EULER else ONE, flat[1] if form >= FAST else ONE
    of_first, of_last = sums[0].ravel(), sums[-1].ravel()
    for t in range(len(outputs) - 1, -1, -1):
        y_t, o_t, delta_t = y[t].ravel(), from_outputs[t].ravel(), delta[t].ravel()
        at = t if form == LIPSCHITZ else 0
        lambda_t, before = lambdas[at].ravel(), y_t
        if form >= FAST:
            before = x0.ravel() if t == 0 else outputs[t - 1].ravel()
        for i in range(y_t.size):
            arrived = o_t[i] + back[i]
            if form == MODRELU:
                arrived = ZERO if y_t[i] == ZERO else arrived
                delta_t[i] = arrived
                of_first[i] += -arrived if y_t[i] < ZERO else arrived
            elif form >= FAST:
                lambda_t[i] = arrived
                of_first[i] += arrived * y_t[i]
                of_last[i] += arrived * before[i]
            elif form >= EULER:
                lambda_t[i] = arrived
                delta_t[i] = times_slope(phi, alpha * arrived, y_t[i])
            else:
                delta_t[i] = times_slope(phi, arrived, y_t[i])
        if form >= FAST:  # apart: with many arrays in one loop the compiler does not vectorise it
            for i in range(y_t.size):
                delta_t[i] = times_slope(phi, alpha * lambda_t[i], y_t[i])
        M = A if form == INTERCHANGED and not by_matrix[t] else W
        np.dot(delta[t], M, carried)
        if form == LIPSCHITZ:
            np.dot(lambdas[t], A, linear)
            linear_t = linear.ravel()
            for i in range(y_t.size):
                back[i] += lambda_t[i] + alpha * linear_t[i]
        elif form >= EULER:
            for i in range(y_t.size):
                back[i] += beta * lambda_t[i] if form >= FAST else lambda_t[i]


def _states(form, by_matrix, W, A, numbers, g, x0):
    outputs = np.empty_like(g)
    y = np.empty_like(g) if form >= EULER else outputs
    _forward[form](by_matrix, W, A, numbers, g, x0, outputs, y)
    return outputs, [outputs[-1]], [outputs, y]


def _gradients(form, by_matrix, W, A, numbers, x0, outputs, y, arrived, carried):
    delta, sums = np.empty_like(outputs), np.zeros((2, *x0.shape), x0.dtype)
    lambdas = np.empty_like(outputs if form == LIPSCHITZ else outputs[:1])
    matrices = by_matrix, W, A, numbers
    _backward[form](*matrices, x0, outputs, y, arrived, carried, lambdas, delta, sums)
    of_W, of_A, of_numbers = product(delta, x0, outputs), None, None
    if form == INTERCHANGED:
        of_both = cache(lambda: _by_turns(by_matrix, delta, x0, outputs))
        of_W, of_A = lambda: of_both()[0], lambda: of_both()[1]
    elif form == MODRELU:
        of_numbers = sums[0]
    elif form == LIPSCHITZ:
        of_A = lambda: numbers[0] * product(lambdas, x0, outputs)()  # noqa: E731
    elif form >= FAST:
        of_numbers = sums.sum(axis=(1, 2))
    return of_W, of_A, of_numbers, delta, carried


def _by_turns(by_matrix, delta, x0, outputs):
    """Return the gradients of W and of its inverse."""
    gradients = np.zeros((2, delta.shape[2], delta.shape[2]), delta.dtype)
    borders = [0, *(np.flatnonzero(by_matrix[1:] != by_matrix[:-1]) + 1), len(by_matrix)]
    for start, stop in pairwise(borders):
        before = outputs[start - 1] if start else x0
        stretch = slice(start, stop)
        gradient = product(delta[stretch], before, outputs[stretch])
        gradients[0 if by_matrix[start] else 1] += gradient()
    return gradients


_DENSE = Recurrence(_states, _gradients, saved=(0, 1, 2, 3, 4, 6))


NETWORKS = {
    "rnn": lambda W, R, b: (BASIC, W, None, [], R, b),
    "exponential": lambda B, R, b: (MODRELU, B, None, b, R, None),
    "antisymmetric": lambda W, R, b, epsilon: (EULER, W, None, [epsilon], R, b),
    "lipschitz": lambda A, W, R, b, epsilon: (LIPSCHITZ, W, A, [epsilon], R, b),
    "fastrnn": lambda U, W, b, alpha, beta, phi: (FAST + PHI[phi], U, None, [alpha, beta], W, b),
}
"""What the dissertation's (2.1), Lezcano-Casado's, Chang's (9), Erichson's (7) and section 3.1 of Kusupati et al. are by their weights:
form, W, A, numbers (the modReLU's b, epsilon, or alpha and beta), and R and b of the drive."""


def _register(cell: str) -> None:
    @engine(cell)
    def run(weights, state, u):
        form, W, A, numbers, R, b = NETWORKS[cell](*weights)
        if form == MODRELU:
            numbers = per_chain(numbers, state[0])
        elif form >= FAST:
            numbers = torch.stack(numbers)
        return _run(form, W, A, numbers, drive(u, R, b), state)


for _cell in NETWORKS:
    _register(_cell)


def _run(form: int, W, A, numbers, g, state, by_matrix=NONE) -> tuple[Tensor, tuple[Tensor]]:
    numbers = W.new_tensor(numbers) if isinstance(numbers, list) else numbers
    return _DENSE(form, by_matrix, W, W if A is None else A, numbers, g, state[0])


@engine("lu_rnn")
def lu_rnn(weights, state, u):
    """The LU RNN (2.28); shapes as in `longrnn.cells.Cell.forward`."""
    L, U, R, b, tau = weights
    identity = torch.eye(len(L), dtype=L.dtype)
    half = torch.linalg.solve_triangular(L, identity, upper=False, unitriangular=True)
    inverse = torch.linalg.solve_triangular(U, half, upper=True)
    return _take_turns(L @ U, inverse, tau, drive(u, R, b), state)


@engine("inverse_rnn")
def inverse_rnn(weights, state, u):
    """The inverse RNN, section 2.9; shapes as in `longrnn.cells.Cell.forward`."""
    W, inverse, R, b, tau = weights
    return _take_turns(W, inverse, tau, drive(u, R, b), state)


def _take_turns(W: Tensor, inverse: Tensor, tau: int, g: Tensor, state):
    """Run (2.28) by the rule of `longrnn.cells._interchange.alternate`, sequences that stand at different times one group after another."""
    x, t = state
    times, which = t[:, 0].detach().unique(return_inverse=True)
    if len(times) > 1:
        groups = [(which == k).nonzero()[:, 0] for k in range(len(times))]
        found = [_take_turns(W, inverse, tau, g[:, rows], (x[rows], t[rows])) for rows in groups]
        order = torch.cat(groups).argsort()
        outputs = torch.cat([outputs for outputs, _ in found], dim=1)[:, order]
        x = torch.cat([final for _, (final, _) in found])[order]
    else:
        turns = (torch.arange(len(g), dtype=t.dtype) + times).remainder(2 * tau) < tau
        outputs, (x,) = _run(INTERCHANGED, W, inverse, [], g, (x,), turns.numpy())
    return outputs, (x, t + len(g))
