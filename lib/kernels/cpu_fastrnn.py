r"""FastRNN on one CPU core.

Forward, with the drive :math:`g_t = W u_t + b` of all times computed before:

.. math:: c_t = \phi(U h_{t-1} + g_t), \qquad h_t = \alpha c_t + \beta h_{t-1}

Adjoint. Let :math:`\lambda_t` be the derivative of the loss by :math:`h_t` through everything that follows, and
:math:`o_t` the part that arrives at the output at t (the gradient of the final state belongs to :math:`o_T`):

.. math:: \lambda_t = o_t + \beta \lambda_{t+1} + U^\top \delta_{t+1}, \qquad \delta_t = \alpha \lambda_t \odot \phi'_t

Then :math:`\partial L / \partial g_t = \delta_t`, :math:`\partial L / \partial U = \sum_t \delta_t h_{t-1}^\top`, and the scalars'
gradients are the sums of :math:`\lambda_t \odot c_t` and :math:`\lambda_t \odot h_{t-1}`, kept per neuron and sequence on the way.

Stored: the outputs, which exist anyway, and c_t. Recomputed: nothing.
"""

import numpy as np
import torch

from lib.kernels._cpu import PHI, activate, by_phi, engine, phi, times_slope
from lib.kernels._recurrence import Recurrence, drive, product


@by_phi
def _forward(alpha, beta, U, g, h0, outputs, candidates):
    previous = h0
    for t in range(len(g)):
        np.dot(previous, U.T, candidates[t])
        c, h, before = candidates[t].ravel(), outputs[t].ravel(), previous.ravel()
        g_t = g[t].ravel()
        for i in range(h.size):
            c[i] = activate(phi, c[i] + g_t[i])
        for i in range(h.size):
            h[i] = alpha * c[i] + beta * before[i]
        previous = outputs[t]


@by_phi
def _backward(alpha, beta, U, h0, outputs, candidates, from_outputs, carried, delta, sums):
    """`carried` is the gradient of the final state and becomes that of the initial one."""
    back = carried.ravel()
    lambdas = np.empty_like(back)
    of_alpha, of_beta = sums[0].ravel(), sums[1].ravel()
    for t in range(len(outputs) - 1, -1, -1):
        before = h0.ravel() if t == 0 else outputs[t - 1].ravel()
        c, o_t, delta_t = candidates[t].ravel(), from_outputs[t].ravel(), delta[t].ravel()
        for i in range(c.size):
            lambdas[i] = o_t[i] + back[i]
            of_alpha[i] += lambdas[i] * c[i]
            of_beta[i] += lambdas[i] * before[i]
        for i in range(c.size):
            delta_t[i] = times_slope(phi, alpha * lambdas[i], c[i])
        np.dot(delta[t], U, carried)
        for i in range(c.size):
            back[i] += beta * lambdas[i]


def _states(phi, alpha, beta, U, g, h0):
    outputs, candidates = np.empty_like(g), np.empty_like(g)
    _forward[phi](alpha[()], beta[()], U, g, h0, outputs, candidates)
    return outputs, [outputs[-1]], [candidates]


def _gradients(phi, alpha, beta, U, h0, outputs, candidates, arrived, carried):
    delta, sums = np.empty_like(outputs), np.zeros((2, *h0.shape), h0.dtype)
    states = U, h0, outputs, candidates, arrived, carried, delta, sums
    _backward[phi](alpha[()], beta[()], *states)
    of_alpha, of_beta = torch.from_numpy(sums.sum(axis=(1, 2)))
    return of_alpha, of_beta, product(delta, h0, outputs), delta, carried


_FASTRNN = Recurrence(_states, _gradients, saved=(0, 1, 2, 3, 5))


@engine("fastrnn")
def fastrnn(weights, state, u):
    """FastRNN, section 3.1 of Kusupati et al.; shapes as in `lib.cells.Cell.forward`."""
    U, W, b, alpha, beta, phi = weights
    outputs, h = _FASTRNN(PHI[phi], alpha, beta, U, drive(u, W, b), state[0])
    return outputs, (h,)
