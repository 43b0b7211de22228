r"""The exponential RNN on one CPU core.

Forward, with the drive :math:`g_t = R u_t` of all times computed before:

.. math:: a_t = B x_{t-1} + g_t, \qquad x_t = \operatorname{sign}(a_t) \odot \max(|a_t| + b, 0)

Adjoint. Let :math:`\lambda_t` be the derivative of the loss by :math:`x_t` through everything that follows, and
:math:`o_t` the part that arrives at the output at t (the gradient of the final state belongs to :math:`o_T`). Where a unit is
on, the sign of x_t is that of a_t; where it is off, x_t is zero:

.. math::
    \lambda_t = o_t + B^\top \delta_{t+1}, \qquad \delta_t = \lambda_t \odot [x_t \ne 0]

Then :math:`\partial L / \partial g_t = \delta_t`, :math:`\partial L / \partial b = \sum_t \delta_t \odot \operatorname{sign}(x_t)` and
:math:`\partial L / \partial B = \sum_t \delta_t x_{t-1}^\top`, one product over the whole sequence.

Stored: the outputs, which exist anyway. Recomputed: nothing.
"""

import numpy as np

from lib.kernels._cpu import ONE, ZERO, engine, kernel, scalar
from lib.kernels._recurrence import Recurrence, drive, product


@scalar
def modrelu(a, b):
    """Return sign(a) max(|a| + b, 0)."""
    sign = ONE if a > ZERO else (-ONE if a < ZERO else ZERO)
    size = abs(a) + b
    size = ZERO if size <= ZERO else size  # not max or min: NaN must pass
    return sign * size


@kernel
def _forward(B, b, g, x0, outputs):
    bias = b.ravel()
    previous = x0
    for t in range(len(g)):
        np.dot(previous, B.T, outputs[t])
        x, g_t = outputs[t].ravel(), g[t].ravel()
        for i in range(x.size):
            x[i] = modrelu(x[i] + g_t[i], bias[i])
        previous = outputs[t]


@kernel
def _backward(B, outputs, from_outputs, carried, delta, b_gradient):
    """`carried` is the gradient of the final state and becomes that of the initial one."""
    zero = B.dtype.type(0)
    back, sums = carried.ravel(), b_gradient.ravel()
    for t in range(len(outputs) - 1, -1, -1):
        x, o_t, delta_t = outputs[t].ravel(), from_outputs[t].ravel(), delta[t].ravel()
        for i in range(x.size):
            arrived = o_t[i] + back[i]
            d = zero if x[i] == zero else arrived
            delta_t[i] = d
            sums[i] += -d if x[i] < zero else d
        np.dot(delta[t], B, carried)


def _states(B, b, g, x0):
    outputs = np.empty_like(g)
    _forward(B, b, g, x0, outputs)
    return outputs, [outputs[-1]], []


def _gradients(B, x0, outputs, arrived, carried):
    delta, of_b = np.empty_like(outputs), np.zeros_like(x0)
    _backward(B, outputs, arrived, carried, delta, of_b)
    return product(delta, x0, outputs), of_b, delta, carried


_EXPONENTIAL = Recurrence(_states, _gradients, saved=(0, 3))


@engine("exponential")
def exponential(weights, state, u):
    """The exponential RNN of Lezcano-Casado et al.; shapes as in `lib.cells.Cell.forward`."""
    B, R, b = weights
    # One bias per sequence makes the kernel's inner loop one stretch; autograd sums over them.
    b = b.expand(u.shape[1], -1)
    outputs, x = _EXPONENTIAL(B, b, drive(u, R), state[0])
    return outputs, (x,)
