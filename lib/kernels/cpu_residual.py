r"""The antisymmetric and the Lipschitz RNN on one CPU core: Euler steps of a dense recurrence.

Forward, with the drive :math:`g_t = R u_t + b` of all times computed before; the antisymmetric RNN has no A:

.. math:: x_t = x_{t-1} + \epsilon (A x_{t-1} + y_t), \qquad y_t = \tanh(W x_{t-1} + g_t)

Adjoint. Let :math:`\lambda_t` be the derivative of the loss by :math:`x_t` through everything that follows, and
:math:`o_t` the part that arrives at the output at t (the gradient of the final state belongs to :math:`o_T`):

.. math::
    \lambda_t &= o_t + \lambda_{t+1} + \epsilon A^\top \lambda_{t+1} + W^\top \delta_{t+1} \\
    \delta_t &= \epsilon \lambda_t \odot (1 - y_t^2)

Then :math:`\partial L / \partial g_t = \delta_t`, :math:`\partial L / \partial W = \sum_t \delta_t x_{t-1}^\top` and
:math:`\partial L / \partial A = \epsilon \sum_t \lambda_t x_{t-1}^\top`, one product each over the whole sequence.

Stored: the outputs and y_t, which cannot be had from the outputs without losing digits to a difference.
"""

import numpy as np

from lib.kernels._cpu import engine, kernel, tanh
from lib.kernels._recurrence import Recurrence, drive, product


@kernel
def _forward(A, W, epsilon, g, x0, outputs, y):
    zero = W.dtype.type(0)
    previous = x0
    for t in range(len(g)):
        np.dot(previous, W.T, y[t])
        if A is None:  # decided when compiling
            outputs[t].fill(zero)
        else:
            np.dot(previous, A.T, outputs[t])
        before, x, y_t, g_t = previous.ravel(), outputs[t].ravel(), y[t].ravel(), g[t].ravel()
        for i in range(x.size):
            y_t[i] = tanh(y_t[i] + g_t[i])
            x[i] = before[i] + epsilon * (x[i] + y_t[i])
        previous = outputs[t]


@kernel
def _backward(A, W, epsilon, y, from_outputs, carried, lambdas, delta):
    """`carried` is the gradient of the final state and becomes that of the initial one."""
    one = W.dtype.type(1)
    back = carried.ravel()
    linear = np.zeros_like(carried)
    for t in range(len(y) - 1, -1, -1):
        y_t, o_t = y[t].ravel(), from_outputs[t].ravel()
        lambda_t, delta_t, linear_t = lambdas[t].ravel(), delta[t].ravel(), linear.ravel()
        for i in range(y_t.size):
            lambda_t[i] = o_t[i] + back[i]
            delta_t[i] = epsilon * lambda_t[i] * (one - y_t[i] * y_t[i])
        np.dot(delta[t], W, carried)
        if A is not None:
            np.dot(lambdas[t], A, linear)
        for i in range(y_t.size):
            back[i] += lambda_t[i] + epsilon * linear_t[i]


def _states(A, W, epsilon, g, x0):
    outputs, y = np.empty_like(g), np.empty_like(g)
    _forward(A, W, W.dtype.type(epsilon), g, x0, outputs, y)
    return outputs, [outputs[-1]], [y]


def _gradients(A, W, epsilon, x0, outputs, y, arrived, carried):
    lambdas, delta, epsilon = np.empty_like(y), np.empty_like(y), W.dtype.type(epsilon)
    _backward(A, W, epsilon, y, arrived, carried, lambdas, delta)
    of_A, of_W = product(lambdas, x0, outputs), product(delta, x0, outputs)
    return lambda: epsilon * of_A(), of_W, None, delta, carried


_RESIDUAL = Recurrence(_states, _gradients, saved=(0, 1, 2, 4))


@engine("antisymmetric")
def antisymmetric(weights, state, u):
    """The antisymmetric RNN, (9) of Chang et al.; shapes as in `lib.cells.Cell.forward`."""
    W, R, b, epsilon = weights
    outputs, x = _RESIDUAL(None, W, epsilon, drive(u, R, b), state[0])
    return outputs, (x,)


@engine("lipschitz")
def lipschitz(weights, state, u):
    """The Lipschitz RNN, (7) of Erichson et al.; shapes as in `lib.cells.Cell.forward`."""
    A, W, R, b, epsilon = weights
    outputs, x = _RESIDUAL(A, W, epsilon, drive(u, R, b), state[0])
    return outputs, (x,)
