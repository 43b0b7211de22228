r"""The LU RNN and the inverse RNN on one CPU core: a matrix and its inverse take turns.

Forward, with the drive :math:`g_t = R u_t + b` of all times computed before:

.. math:: x_t = \tanh(M_t x_{t-1} + g_t), \qquad M_t \in \{W, W^{-1}\} \text{ as definition 2.4 says (2.28)}

Adjoint. Let :math:`\lambda_t` be the derivative of the loss by :math:`x_t` through everything that follows, and
:math:`o_t` the part that arrives at the output at t (the gradient of the final state belongs to :math:`o_T`):

.. math::
    \lambda_t = o_t + M_{t+1}^\top \delta_{t+1}, \qquad \delta_t = \lambda_t \odot (1 - x_t^2)

Then :math:`\partial L / \partial g_t = \delta_t`, and with :math:`1_t` telling where W is used

.. math::
    \frac{\partial L}{\partial W} = \sum_t 1_t \delta_t x_{t-1}^\top, \qquad
    \frac{\partial L}{\partial W^{-1}} = \sum_t (1 - 1_t) \delta_t x_{t-1}^\top

are the gradients of two matrices, as if they were independent; PyTorch carries them on to the parameters.

Both matrices are formed once per call, the LU RNN's inverse by two triangular solves of the identity: 2 d^3 operations
against the d^2 of every step and sequence. A step is then one matrix product, where two solves would take several
times as long for the same number of operations.

Stored: the outputs, which exist anyway, and one truth value a step. Recomputed: nothing, the slope of tanh is 1 - x_t^2.
"""

from functools import cache, partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from lib.kernels._cpu import engine, kernel, tanh
from lib.kernels._recurrence import Recurrence, drive, recurrent_gradient


@kernel
def _forward(W, inverse, by_matrix, g, x0, outputs):
    """`by_matrix` (time, 1) or (time, batch * hidden) tells where W is used."""
    previous = x0
    other = np.empty_like(x0)
    for t in range(len(g)):
        x, g_t, use = outputs[t].ravel(), g[t].ravel(), by_matrix[t]
        if use.all():
            np.dot(previous, W.T, outputs[t])
        elif not use.any():
            np.dot(previous, inverse.T, outputs[t])
        else:
            np.dot(previous, W.T, outputs[t])
            np.dot(previous, inverse.T, other)
            instead = other.ravel()
            for i in range(x.size):
                x[i] = x[i] if use[i] else instead[i]
        for i in range(x.size):
            x[i] = tanh(x[i] + g_t[i])
        previous = outputs[t]


@kernel
def _backward(W, inverse, by_matrix, outputs, from_outputs, carried, delta):
    """`carried` is the gradient of the final state and becomes that of the initial one."""
    zero, one = W.dtype.type(0), W.dtype.type(1)
    back = carried.ravel()
    part, other = np.empty_like(carried), np.empty_like(carried)
    for t in range(len(outputs) - 1, -1, -1):
        x, o_t, delta_t = outputs[t].ravel(), from_outputs[t].ravel(), delta[t].ravel()
        use = by_matrix[t]
        for i in range(x.size):
            delta_t[i] = (o_t[i] + back[i]) * (one - x[i] * x[i])
        if use.all():
            np.dot(delta[t], W, carried)
        elif not use.any():
            np.dot(delta[t], inverse, carried)
        else:
            through_W, through_inverse = part.ravel(), other.ravel()
            for i in range(x.size):
                through_W[i] = delta_t[i] if use[i] else zero
                through_inverse[i] = zero if use[i] else delta_t[i]
            np.dot(part, W, carried)
            for i in range(x.size):
                through_W[i] = through_inverse[i]
            np.dot(part, inverse, other)
            for i in range(x.size):
                back[i] += through_inverse[i]


def _turns(t: Tensor, tau: int, steps: int) -> np.ndarray:
    """Return where W is used, (time, 1) if all sequences and neurons stand at the same time t, else (time, all).

    The rule is that of `lib.cells._interchange.alternate`.
    """
    flat = t.detach().reshape(-1)
    if bool((flat == flat[0]).all()):
        flat = flat[:1]
    times = torch.arange(steps, dtype=t.dtype)[:, None] + flat
    return (times.remainder(2 * tau) < tau).numpy()


def _matrix_gradients(
    by_matrix: np.ndarray, delta: np.ndarray, x0: np.ndarray, outputs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of W and of its inverse."""
    if by_matrix.shape[1] > 1:  # they take turns within a step
        use = by_matrix.reshape(delta.shape)
        return tuple(recurrent_gradient(delta * part, x0, outputs) for part in (use, ~use))
    use = by_matrix[:, 0]
    gradients = np.zeros((2, delta.shape[2], delta.shape[2]), delta.dtype)
    borders = [0, *(np.flatnonzero(use[1:] != use[:-1]) + 1), len(use)]
    for start, stop in pairwise(borders):
        before = outputs[start - 1] if start else x0
        stretch = slice(start, stop)
        gradients[0 if use[start] else 1] += recurrent_gradient(
            delta[stretch], before, outputs[stretch]
        )
    return gradients[0], gradients[1]


def _states(W, inverse, by_matrix, g, x0):
    outputs = np.empty_like(g)
    _forward(W, inverse, by_matrix, g, x0, outputs)
    return outputs, [outputs[-1]], []


def _gradients(W, inverse, by_matrix, x0, outputs, arrived, carried):
    delta = np.empty_like(outputs)
    _backward(W, inverse, by_matrix, outputs, arrived, carried, delta)
    of_both = cache(partial(_matrix_gradients, by_matrix, delta, x0, outputs))
    return lambda: of_both()[0], lambda: of_both()[1], None, delta, carried


_INTERCHANGE = Recurrence(_states, _gradients, saved=(0, 1, 2, 4))


def _run(W: Tensor, inverse: Tensor, R: Tensor, b: Tensor, tau: int, state, u: Tensor):
    x, t = state
    by_matrix = _turns(t, tau, len(u))
    outputs, x = _INTERCHANGE(W, inverse, by_matrix, drive(u, R, b), x)
    return outputs, (x, t + len(u))


@engine("lu_rnn")
def lu_rnn(weights, state, u):
    """The LU RNN (2.28); shapes as in `lib.cells.Cell.forward`."""
    L, U, R, b, tau = weights
    identity = torch.eye(len(L), dtype=L.dtype)
    half = torch.linalg.solve_triangular(L, identity, upper=False, unitriangular=True)
    inverse = torch.linalg.solve_triangular(U, half, upper=True)
    return _run(L @ U, inverse, R, b, tau, state, u)


@engine("inverse_rnn")
def inverse_rnn(weights, state, u):
    """The inverse RNN, section 2.9; shapes as in `lib.cells.Cell.forward`."""
    W, inverse, R, b, tau = weights
    return _run(W, inverse, R, b, tau, state, u)
