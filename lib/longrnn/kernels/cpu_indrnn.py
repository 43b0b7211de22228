r"""IndRNN on the CPU, a layer at a time: its neurons are independent of each other.

Forward of one layer, with the drive :math:`g_t = W h^{l-1}_t + b` of all times computed before:

.. math:: h_t = \phi(w \odot h_{t-1} + g_t)

Adjoint (symbols as in `longrnn.kernels._recurrence`):

.. math::
    \lambda_t = o_t + w \odot \delta_{t+1}, \qquad \delta_t = \lambda_t \odot \phi'_t

where :math:`\phi'` is :math:`[h > 0]`, :math:`1 - h^2` or :math:`h (1 - h)` for relu, tanh and the logistic function. Then
:math:`\partial L / \partial g_t = \delta_t` and :math:`\partial L / \partial w = \sum_t \delta_t \odot h_{t-1}`.

Stored: the outputs, which exist anyway. Recomputed: nothing.
"""

import numpy as np

from longrnn.kernels._cpu import PHI, activate, by_phi, engine, phi, run_chains, times_slope
from longrnn.kernels._recurrence import Recurrence, drive, per_chain


@by_phi
def _forward(w, g, h0, outputs, start, stop):
    w_, before = w[start:stop], h0[start:stop]
    for t in range(len(g)):
        g_t, h = g[t, start:stop], outputs[t, start:stop]
        for i in range(h.size):
            h[i] = activate(phi, w_[i] * before[i] + g_t[i])
        before = h


@by_phi
def _backward(w, h0, outputs, from_outputs, carried, delta, w_gradient, start, stop):
    """`carried` is the gradient of the final state and becomes that of the initial one."""
    w_, back, w_sum = w[start:stop], carried[start:stop], w_gradient[start:stop]
    for t in range(len(outputs) - 1, -1, -1):
        before = h0[start:stop] if t == 0 else outputs[t - 1, start:stop]
        h, o_t, d = outputs[t, start:stop], from_outputs[t, start:stop], delta[t, start:stop]
        for i in range(h.size):
            d[i] = times_slope(phi, o_t[i] + back[i], h[i])
        for i in range(h.size):
            w_sum[i] += d[i] * before[i]
            back[i] = w_[i] * d[i]


def _states(phi, w, g, h0):
    outputs = np.empty_like(g)
    run_chains(_forward[phi], len(g), w, g, h0, outputs)
    return outputs, [outputs[-1]], [outputs]


def _gradients(phi, w, h0, outputs, arrived, carried):
    delta, of_w = np.empty_like(outputs), np.zeros_like(w)
    run_chains(_backward[phi], len(delta), w, h0, outputs, arrived, carried, delta, of_w)
    return of_w, delta, carried


_INDRNN = Recurrence(_states, _gradients, saved=(0, 1, 3))


@engine("indrnn")
def indrnn(weights, state, u):
    """IndRNN, section 3 of Li et al.; shapes as in `longrnn.cells.Cell.forward`."""
    return run_layers(_INDRNN, weights, state, u)


def run_layers(layer: Recurrence, weights, state, u):
    """Run all layers, each as `layer` does on its device."""
    layers, phi = weights
    below, final = u, []
    for (W, w, b), h0 in zip(layers, state, strict=True):
        below, h = layer(PHI[phi], per_chain(w, h0), drive(below, W, b), h0)
        final += h
    return below, tuple(final)
