r"""The GRU on the CPU: (5)-(8) of Cho et al. 2014, but with the reset gate after the product.

Arrays are (time, batch, hidden), with the blocks of several gates side by side in the last axis.
PyTorch's threads share the sequences (`longrnn.kernels._threads.run_networks`).

Forward pass, with the drive :math:`g_t = R u_t + b` computed beforehand for all times, its parts
and those of :math:`a_t = W h_{t-1}` in the order r z n:

.. math::
    r_t, z_t &= \sigma(a^{r,z}_t + g^{r,z}_t) \\
    n_t &= \tanh(r_t \odot a^n_t + g^n_t) \\
    h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1}

Backward pass (symbols as in `longrnn.kernels._recurrence`):

.. math::
    \lambda_t &= o_t + z_{t+1} \odot \lambda_{t+1} + W^\top \delta^a_{t+1} \\
    \delta^n_t &= \lambda_t \odot (1 - z_t) \odot (1 - n_t^2) \\
    \delta^r_t &= \delta^n_t \odot a^n_t \odot r_t \odot (1 - r_t) \\
    \delta^z_t &= \lambda_t \odot (h_{t-1} - n_t) \odot z_t \odot (1 - z_t)

where :math:`\delta^a_t = (\delta^r_t, \delta^z_t, r_t \odot \delta^n_t)` belongs to the product
with the state. Then :math:`\partial L / \partial g_t = (\delta^r_t, \delta^z_t, \delta^n_t)` and
:math:`\partial L / \partial W = \sum_t \delta^a_t h_{t-1}^\top`, one product over the whole
sequence.

Stored: the outputs, which exist anyway, the three gates, and :math:`a^n_t`. Recomputed: nothing.
"""

import numpy as np
import torch

from longrnn.kernels._cpu import ONE, engine, kernel
from longrnn.kernels._cpu_activations import sigmoid, tanh
from longrnn.kernels._drive import Sources, drive
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._products import state_products, times_state
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import with_run_axis
from longrnn.kernels._threads import run_networks


@kernel
def _forward_kernel(W, g, h0, outputs, gates, products, start, stop):
    """Run the sequences start..stop-1.

    `gates` (time, batch, 3 hidden) receives r z n, `products` (time, batch, hidden) a^n.
    """
    d = W.shape[1]
    previous = h0[start:stop]
    for t in range(len(g)):
        np.dot(previous, W.T, gates[t, start:stop])
        for k in range(start, stop):
            r = gates[t, k, :d]
            z = gates[t, k, d : 2 * d]
            n = gates[t, k, 2 * d :]
            g_r = g[t, k, :d]
            g_z = g[t, k, d : 2 * d]
            g_n = g[t, k, 2 * d :]
            before = previous[k - start]
            h = outputs[t, k]
            product = products[t, k]
            for i in range(d):
                product[i] = n[i]
                r[i] = sigmoid(r[i] + g_r[i])
                z[i] = sigmoid(z[i] + g_z[i])
                n[i] = tanh(r[i] * product[i] + g_n[i])
                h[i] = (ONE - z[i]) * n[i] + z[i] * before[i]
        previous = outputs[t, start:stop]


@kernel
def _backward_kernel(
    W, h0, outputs, gates, products, grad_outputs, carried, delta, delta_state, start, stop
):
    """Backpropagate through the sequences start..stop-1.

    `carried` is the gradient of the final state and becomes that of the initial one.
    """
    d = W.shape[1]
    direct = np.empty_like(carried[start:stop])
    for t in range(len(outputs) - 1, -1, -1):
        previous = h0
        if t > 0:
            previous = outputs[t - 1]
        for k in range(start, stop):
            r = gates[t, k, :d]
            z = gates[t, k, d : 2 * d]
            n = gates[t, k, 2 * d :]
            d_r = delta[t, k, :d]
            d_z = delta[t, k, d : 2 * d]
            d_n = delta[t, k, 2 * d :]
            a_r = delta_state[t, k, :d]
            a_z = delta_state[t, k, d : 2 * d]
            a_n = delta_state[t, k, 2 * d :]
            product = products[t, k]
            before = previous[k]
            o_t = grad_outputs[t, k]
            back = carried[k]
            through = direct[k - start]
            for i in range(d):
                arrived = o_t[i] + back[i]
                from_n = arrived * (ONE - z[i]) * (ONE - n[i] * n[i])
                from_r = from_n * product[i] * r[i] * (ONE - r[i])
                from_z = arrived * (before[i] - n[i]) * z[i] * (ONE - z[i])
                d_r[i] = from_r
                d_z[i] = from_z
                d_n[i] = from_n
                a_r[i] = from_r
                a_z[i] = from_z
                a_n[i] = from_n * r[i]
                through[i] = arrived * z[i]
        stretch = carried[start:stop]
        np.dot(delta_state[t, start:stop], W, stretch)
        stretch += direct


def _forward(W, g, h0, outputs, h_end, gates, products):
    weights = [with_run_axis(W, W)]
    run_networks(_forward_kernel, weights, h0, len(g), g, h0, outputs, gates, products)
    h_end[:] = outputs[-1]


def _backward(W, h0, outputs, gates, products, grad_outputs, carried):
    delta = empty_array_like(gates)
    delta_state = empty_array_like(gates)
    weights = [with_run_axis(W, W)]
    states = h0, outputs, gates, products, grad_outputs, carried
    run_networks(_backward_kernel, weights, h0, len(outputs), *states, delta, delta_state)
    return state_products(W, delta_state, h0, outputs), delta, carried


def reference(W, g, h):
    """Run the GRU in plain PyTorch: the operator's reference.

    Parameters
    ----------
    W : (3 d, d) or (runs, 3 d, d)
        Weights of r z n.
    g : (time, batch, 3 d)
        The drive.
    h : (batch, d)
        The initial state.

    Returns
    -------
    outputs : (time, batch, d)
        h after every input.
    final : tuple of (batch, d)
        (h,) after the last input.
    """
    outputs = []
    for g_t in g.unbind(0):
        a_r, a_z, a_n = times_state(W, h).chunk(3, dim=-1)
        g_r, g_z, g_n = g_t.chunk(3, dim=-1)
        r = torch.sigmoid(a_r + g_r)
        z = torch.sigmoid(a_z + g_z)
        n = torch.tanh(r * a_n + g_n)
        h = (1 - z) * n + z * h
        outputs.append(h)
    return torch.stack(outputs), (h,)


def _shapes(a):
    sequence = (a.g.shape[0], *a.h0.shape)  # `len` would fix the length in a traced program
    return [sequence, a.h0.shape, a.g.shape, sequence]


GRU_DESCRIPTION = {
    "inputs": "W g:1 h0:0",
    "results": "outputs h_end gates products",
    "saved": "W h0 outputs gates products",
    "shapes": _shapes,
    "reference": reference,
    "takes_networks": True,
}
"""Arguments of `Recurrence` that the GRU's operators share."""

_GRU = Recurrence("gru_cpu", forward=_forward, backward=_backward, **GRU_DESCRIPTION)


@engine("gru", slower_from=512, takes_networks=True)  # than `library`, on two threads
def gru(weights, state, u):
    """Run the GRU of Cho et al. 2014.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.gru.GRUCore.step`.
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
    W, R, b = weights
    return _GRU(W, drive(u, R, b), state[0], sources=Sources(u, R, b))
