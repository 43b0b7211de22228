r"""IndRNN on the CPU, one layer at a time: section 3 of Li et al. 2018.

Arrays are (time, batch, hidden). Each neuron of each sequence is an independent chain. PyTorch's
threads share the chains (`longrnn.kernels._threads.run_chains`).

Forward pass of one layer, with the drive :math:`g_t = W h^{l-1}_t + b` computed beforehand for all
times:

.. math:: h_t = \phi(w \odot h_{t-1} + g_t)

Backward pass (symbols as in `longrnn.kernels._recurrence`):

.. math::
    \lambda_t = o_t + w \odot \delta_{t+1}, \qquad \delta_t = \lambda_t \odot \phi'_t

where :math:`\phi'` is :math:`[h > 0]`, :math:`1 - h^2` or :math:`h (1 - h)` for relu, tanh and the
logistic function. Then :math:`\partial L / \partial g_t = \delta_t` and :math:`\partial L /
\partial w = \sum_t \delta_t \odot h_{t-1}`.

Stored: the outputs, which exist anyway. Recomputed: nothing.
"""

import numpy as np
import torch

from longrnn.kernels._cpu import engine
from longrnn.kernels._cpu_activations import ACTIVATIONS, PHI, activate, by_phi, phi, times_slope
from longrnn.kernels._drive import Sources
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import per_chain
from longrnn.kernels._threads import run_chains


@by_phi
def _forward_kernel(w, g, h0, outputs, start, stop):
    """Run the chains start..stop-1 of arrays (.., chains)."""
    w_ = w[start:stop]
    before = h0[start:stop]
    for t in range(len(g)):
        g_t = g[t, start:stop]
        h = outputs[t, start:stop]
        for i in range(h.size):
            h[i] = activate(phi, w_[i] * before[i] + g_t[i])
        before = h


@by_phi
def _backward_kernel(w, h0, outputs, grad_outputs, carried, delta, w_gradient, start, stop):
    """Backpropagate through the chains start..stop-1; `w_gradient` starts at zero.

    `carried` is the gradient of the final state and becomes that of the initial one.
    """
    w_ = w[start:stop]
    back = carried[start:stop]
    w_sum = w_gradient[start:stop]
    for t in range(len(outputs) - 1, -1, -1):
        before = h0[start:stop]
        if t > 0:
            before = outputs[t - 1, start:stop]
        h = outputs[t, start:stop]
        o_t = grad_outputs[t, start:stop]
        delta_t = delta[t, start:stop]
        for i in range(h.size):
            delta_t[i] = times_slope(phi, o_t[i] + back[i], h[i])
        for i in range(h.size):
            w_sum[i] += delta_t[i] * before[i]
            back[i] = w_[i] * delta_t[i]


def _forward(phi, g, w, h0, outputs, h_end):
    run_chains(_forward_kernel[phi], len(g), w, g, h0, outputs)
    h_end[:] = outputs[-1]


def _backward(phi, w, h0, outputs, grad_outputs, carried):
    delta = empty_array_like(outputs)
    grad_w = np.zeros_like(w)
    run = _backward_kernel[phi]
    run_chains(run, len(delta), w, h0, outputs, grad_outputs, carried, delta, grad_w)
    return delta, grad_w, carried


def reference(phi, g, w, h):
    """Run one layer in plain PyTorch: the operator's reference.

    Parameters
    ----------
    phi : int
        Number of the activation.
    g : (time, batch, d)
        The drive.
    w : (d,) or (batch, d)
        Recurrent weights.
    h : (batch, d)
        The initial state.

    Returns
    -------
    outputs : (time, batch, d)
        The output after every input.
    final : tuple of (batch, d)
        (h,) after the last input.
    """
    outputs = []
    for g_t in g.unbind(0):
        h = ACTIVATIONS[phi](w * h + g_t)
        outputs.append(h)
    return torch.stack(outputs), (h,)


_INDRNN = Recurrence(
    "indrnn_cpu",
    settings="int phi",
    inputs="g:1 w:0 h0:0",
    results="outputs h_end",
    saved="w h0 outputs",
    shapes=lambda a: [a.g.shape, a.h0.shape],
    forward=_forward,
    backward=_backward,
    reference=reference,
)


@engine("indrnn", takes_networks=True)
def indrnn(weights, state, u):
    """Run IndRNN, section 3 of Li et al. 2018.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.indrnn.IndRNNCore.step`.
    state : tuple of (batch, d)
        (h^1, .., h^L) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        h^L after every input.
    state : tuple of (batch, d)
        (h^1, .., h^L) after the last input.
    """
    layers, phi = weights
    below = u
    final = []
    for (W, w, b), h0 in zip(layers, state, strict=True):
        sources = Sources(below, W, b)
        below, (h,) = _INDRNN(PHI[phi], sources.drive(), per_chain(w, h0), h0, sources=sources)
        final.append(h)
    return below, tuple(final)
