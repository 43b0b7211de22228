r"""The basic RNN on one CPU core.

Forward, with the drive :math:`g_t = R u_t + b` of all times computed before:

.. math:: x_t = \tanh(W x_{t-1} + g_t)

Adjoint. Let :math:`\lambda_t` be the derivative of the loss by :math:`x_t` through everything that follows, and
:math:`o_t` the part that arrives at the output at t (the gradient of the final state belongs to :math:`o_T`). Backwards from
:math:`\lambda_{T+1} = 0, \delta_{T+1} = 0`:

.. math::
    \lambda_t = o_t + W^\top \delta_{t+1}, \qquad \delta_t = \lambda_t \odot (1 - x_t^2)

Then :math:`\partial L / \partial g_t = \delta_t`, :math:`\partial L / \partial x_0 = W^\top \delta_1` and
:math:`\partial L / \partial W = \sum_t \delta_t x_{t-1}^\top`, one product over the whole sequence.

Stored: the outputs, which exist anyway. Recomputed: nothing, the slope of tanh is 1 - x_t^2.
"""

import numpy as np

from lib.kernels._cpu import engine, kernel, tanh
from lib.kernels._recurrence import Recurrence, drive, product


@kernel
def _forward(W, g, x0, outputs):
    previous = x0
    for t in range(len(g)):
        np.dot(previous, W.T, outputs[t])
        x, g_t = outputs[t].ravel(), g[t].ravel()
        for i in range(x.size):
            x[i] = tanh(x[i] + g_t[i])
        previous = outputs[t]


@kernel
def _backward(W, outputs, from_outputs, carried, delta):
    """`carried` is the gradient of the final state and becomes that of the initial one."""
    one = W.dtype.type(1)
    back = carried.ravel()
    for t in range(len(outputs) - 1, -1, -1):
        x, o_t, delta_t = outputs[t].ravel(), from_outputs[t].ravel(), delta[t].ravel()
        for i in range(x.size):
            delta_t[i] = (o_t[i] + back[i]) * (one - x[i] * x[i])
        np.dot(delta[t], W, carried)


def _states(W, g, x0):
    outputs = np.empty_like(g)
    _forward(W, g, x0, outputs)
    return outputs, [outputs[-1]], []


def _gradients(W, x0, outputs, arrived, carried):
    delta = np.empty_like(outputs)
    _backward(W, outputs, arrived, carried, delta)
    return product(delta, x0, outputs), delta, carried


_RNN = Recurrence(_states, _gradients, saved=(0, 2))


@engine("rnn")
def rnn(weights, state, u):
    """The basic RNN (2.1); shapes as in `lib.cells.Cell.forward`."""
    W, R, b = weights
    outputs, x = _RNN(W, drive(u, R, b), state[0])
    return outputs, (x,)
