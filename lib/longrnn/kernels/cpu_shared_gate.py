r"""FastGRNN and the gated antisymmetric RNN on the CPU: one product for gate and candidate.

Section 3.2 of Kusupati et al. 2018, and the form with a gating mechanism of Chang et al. 2019.
Arrays are (time, batch, hidden), with the blocks of several gates side by side in the last axis.
PyTorch's threads share the sequences (`longrnn.kernels._threads.run_networks`).

Forward pass, with the drives :math:`g_t` computed beforehand for all times, their blocks in the
order z c:

.. math::
    z_t &= \sigma(W h_{t-1} + g^z_t), \qquad c_t = \tanh(W h_{t-1} + g^c_t) \\
    h_t &= (\kappa + (1 - \kappa) z_t) \odot h_{t-1} + (p + q z_t) \odot c_t

FastGRNN is :math:`\kappa = 0, p = \zeta + \nu, q = -\zeta`, the antisymmetric RNN :math:`\kappa =
1, p = 0, q = \epsilon`.

Backward pass (symbols as in `longrnn.kernels._recurrence`):

.. math::
    \lambda_t &= o_t + (\kappa + (1 - \kappa) z_{t+1}) \odot \lambda_{t+1}
        + W^\top (\delta^z_{t+1} + \delta^c_{t+1}) \\
    \delta^z_t &= \lambda_t \odot ((1 - \kappa) h_{t-1} + q c_t) \odot z_t \odot (1 - z_t) \\
    \delta^c_t &= \lambda_t \odot (p + q z_t) \odot (1 - c_t^2)

Then :math:`\partial L / \partial g_t = (\delta^z_t, \delta^c_t)` and :math:`\partial L / \partial W
= \sum_t (\delta^z_t + \delta^c_t) h_{t-1}^\top`, one product over the whole sequence. The gradients
of p and q are the sums of :math:`\lambda_t \odot c_t` and :math:`\lambda_t \odot z_t \odot c_t`,
kept per neuron and sequence in the loop.

Stored: the outputs, which exist anyway, z and c. Recomputed: nothing.
"""

import numpy as np
import torch

from longrnn.kernels._cpu import ONE, engine, kernel
from longrnn.kernels._cpu_activations import sigmoid, tanh
from longrnn.kernels._drive import Sources
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._products import state_products, times_state
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import batches_of_runs, per_sequence, scalars_like, with_run_axis
from longrnn.kernels._threads import run_networks


@kernel
def _forward_kernel(kappa, p, q, W, g, h0, outputs, gates, start, stop):
    """Run the sequences start..stop-1.

    `gates` (time, batch, 2 hidden) receives z c.
    """
    rest = ONE - kappa
    d = h0.shape[1]
    previous = h0[start:stop]
    products = np.empty_like(previous)
    for t in range(len(g)):
        np.dot(previous, W.T, products)
        for k in range(start, stop):
            product = products[k - start]
            before = previous[k - start]
            h = outputs[t, k]
            z = gates[t, k, :d]
            c = gates[t, k, d:]
            g_z = g[t, k, :d]
            g_c = g[t, k, d:]
            for i in range(d):
                z[i] = sigmoid(product[i] + g_z[i])
                c[i] = tanh(product[i] + g_c[i])
                h[i] = (kappa + rest * z[i]) * before[i] + (p + q * z[i]) * c[i]
        previous = outputs[t, start:stop]


@kernel
def _backward_kernel(
    kappa, p, q, W, h0, outputs, gates, grad_outputs, carried, delta, delta_state, sums,
    start, stop,
):  # fmt: skip
    """Backpropagate through the sequences start..stop-1.

    `carried` is the gradient of the final state and becomes that of the initial one.
    """
    rest = ONE - kappa
    d = h0.shape[1]
    direct = np.empty_like(carried[start:stop])
    for t in range(len(outputs) - 1, -1, -1):
        previous = h0
        if t > 0:
            previous = outputs[t - 1]
        for k in range(start, stop):
            z = gates[t, k, :d]
            c = gates[t, k, d:]
            before = previous[k]
            d_z = delta[t, k, :d]
            d_c = delta[t, k, d:]
            d_state = delta_state[t, k]
            o_t = grad_outputs[t, k]
            back = carried[k]
            through = direct[k - start]
            grad_p = sums[0, k]
            grad_q = sums[1, k]
            for i in range(d):
                arrived = o_t[i] + back[i]
                share = arrived * c[i]
                grad_p[i] += share
                grad_q[i] += share * z[i]
                from_z = (arrived * rest * before[i] + q * share) * z[i] * (ONE - z[i])
                from_c = arrived * (p + q * z[i]) * (ONE - c[i] * c[i])
                d_z[i] = from_z
                d_c[i] = from_c
                d_state[i] = from_z + from_c
                through[i] = arrived * (kappa + rest * z[i])
        stretch = carried[start:stop]
        np.dot(delta_state[t, start:stop], W, stretch)
        stretch += direct


def _forward(scalars, W, g, h0, outputs, h_end, gates):
    weights = _weights(scalars, W)
    run_networks(_forward_kernel, weights, h0, len(g), g, h0, outputs, gates)
    h_end[:] = outputs[-1]


def _backward(scalars, W, h0, outputs, gates, grad_outputs, carried):
    delta = empty_array_like(gates)
    delta_state = empty_array_like(outputs)
    sums = np.zeros((2, *h0.shape), h0.dtype)
    weights = _weights(scalars, W)
    states = h0, outputs, gates, grad_outputs, carried
    gradients = delta, delta_state, sums
    run_networks(_backward_kernel, weights, h0, len(outputs), *states, *gradients)
    of_runs = []
    for batch in batches_of_runs(len(weights[-1]), len(h0)):
        # In float64: FastGRNN's zeta gets the difference of both sums, which may be small.
        grad_p_and_q = sums[:, batch].sum(axis=(1, 2), dtype=float)
        of_runs.append(np.append(0, grad_p_and_q).astype(h0.dtype))
    grad_scalars = of_runs[0]
    if W.ndim == 3:
        grad_scalars = np.stack(of_runs)
    return grad_scalars, state_products(W, delta_state, h0, outputs), delta, carried


def _weights(scalars, W):
    """Return what the sequences of a network share: kappa, p, q and W, of every network."""
    kappa, p, q = with_run_axis(W, scalars).T
    return [kappa, p, q, with_run_axis(W, W)]


def _reference(scalars, W, g, h):
    """Run the recurrence in plain PyTorch; arguments and results as for the operator."""
    kappa, p, q = (per_sequence(scalar, h) for scalar in scalars.unbind(-1))
    outputs = []
    for g_t in g.unbind(0):
        a = times_state(W, h)
        g_z, g_c = g_t.chunk(2, dim=-1)
        z = torch.sigmoid(a + g_z)
        c = torch.tanh(a + g_c)
        h = (kappa + (1 - kappa) * z) * h + (p + q * z) * c
        outputs.append(h)
    return torch.stack(outputs), (h,)


def _shapes(a):
    # `len` would fix the length in a traced program.
    return [(a.g.shape[0], *a.h0.shape), a.h0.shape, a.g.shape]


_SHARED_GATE = Recurrence(
    "shared_gate_cpu",
    inputs="scalars W g:1 h0:0",
    results="outputs h_end gates",
    saved="scalars W h0 outputs gates",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=_reference,
    takes_networks=True,
)


@engine("fastgrnn", takes_networks=True)
def fastgrnn(weights, state, u):
    """Run FastGRNN, section 3.2 of Kusupati et al. 2018.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.fastgrnn.FastGRNNCore.step`.
    state : tuple of (batch, d)
        (h,) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        h after every input.
    state : tuple of (batch, d)
        (h,) after the last input.
    """
    U, W, b_z, b_h, zeta, nu = weights
    scalars = torch.stack([torch.zeros_like(zeta), zeta + nu, -zeta])
    sources = Sources(u, torch.cat([W, W]), torch.cat([b_z, b_h]))
    return _SHARED_GATE(scalars, U, sources.drive(), state[0], sources=sources)


@engine("gated_antisymmetric", takes_networks=True)
def gated_antisymmetric(weights, state, u):
    """Run the gated antisymmetric RNN of Chang et al. 2019.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.gated_antisymmetric.GatedAntisymmetricRNNCore.step`.
    state : tuple of (batch, d)
        (x,) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        x after every input.
    state : tuple of (batch, d)
        (x,) after the last input.
    """
    W, R, b, epsilon = weights
    scalars = scalars_like(W, 1, 0, epsilon)
    sources = Sources(u, R, b)
    return _SHARED_GATE(scalars, W, sources.drive(), state[0], sources=sources)
