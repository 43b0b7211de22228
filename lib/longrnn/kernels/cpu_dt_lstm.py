r"""The dt-LSTM of Rusch et al. 2022, appendix D, and the LSTM on the CPU.

Arrays are (time, batch, hidden), with the blocks of several gates side by side in the last axis.
PyTorch's threads share the sequences (`longrnn.kernels._threads.run_networks`).

Forward pass, with the drive :math:`g_n = R u_n + b` computed beforehand for all times, its parts in
the order i f g o, and the factors :math:`\iota, \varphi` of the input and the forget gate, which
are 1 in the LSTM:

.. math::
    i_n, f_n, o_n &= \sigma(W_{i,f,o} h_{n-1} + g^{i,f,o}_n), \qquad
    c'_n = \tanh(W_g h_{n-1} + g^g_n) \\
    c_n &= \varphi f_n \odot c_{n-1} + \iota \, i_n \odot c'_n, \qquad h_n = o_n \odot \tanh(c_n)

Backward pass (symbols as in `longrnn.kernels._recurrence`, :math:`\lambda_n, \mu_n` of :math:`h_n,
c_n`). The gradient that arrives at the output is :math:`o^L_n` here, since :math:`o_n` is a gate:

.. math::
    \lambda_n &= o^L_n + W^\top \delta_{n+1} \\
    \mu_n &= \varphi f_{n+1} \odot \mu_{n+1} + \lambda_n \odot o_n \odot (1 - \tanh^2 c_n) \\
    \delta^i_n &= \iota \, \mu_n \odot c'_n \odot i_n (1 - i_n), \qquad
    \delta^f_n = \varphi \mu_n \odot c_{n-1} \odot f_n (1 - f_n) \\
    \delta^g_n &= \iota \, \mu_n \odot i_n \odot (1 - c'^2_n), \qquad
    \delta^o_n = \lambda_n \odot \tanh(c_n) \odot o_n (1 - o_n)

Then :math:`\partial L / \partial g_n = \delta_n` and :math:`\partial L / \partial W = \sum_n
\delta_n h_{n-1}^\top`, one product over the whole sequence.

Stored: the outputs, which exist anyway, the four gates, and c. Recomputed: tanh(c).
"""

import numpy as np
import torch

from longrnn.kernels._cpu import ONE, engine, kernel
from longrnn.kernels._cpu_activations import sigmoid, tanh
from longrnn.kernels._drive import Sources, drive
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._products import state_products, times_state
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import per_sequence, scalars_like, with_run_axis
from longrnn.kernels._threads import run_networks


@kernel
def _forward_kernel(iota, phi, W, g, h0, c0, outputs, cells, gates, start, stop):
    """Run the sequences start..stop-1.

    `gates` (time, batch, 4 hidden) receives i f g o.
    """
    d = h0.shape[1]
    h_before = h0[start:stop]
    c_before = c0
    for n in range(len(g)):
        np.dot(h_before, W.T, gates[n, start:stop])
        for k in range(start, stop):
            i = gates[n, k, :d]
            f = gates[n, k, d : 2 * d]
            new = gates[n, k, 2 * d : 3 * d]
            o = gates[n, k, 3 * d :]
            g_i = g[n, k, :d]
            g_f = g[n, k, d : 2 * d]
            g_new = g[n, k, 2 * d : 3 * d]
            g_o = g[n, k, 3 * d :]
            before = c_before[k]
            c = cells[n, k]
            h = outputs[n, k]
            for j in range(d):
                i[j] = sigmoid(i[j] + g_i[j])
                f[j] = sigmoid(f[j] + g_f[j])
                new[j] = tanh(new[j] + g_new[j])
                o[j] = sigmoid(o[j] + g_o[j])
                c[j] = phi * f[j] * before[j] + iota * i[j] * new[j]
                h[j] = o[j] * tanh(c[j])
        h_before = outputs[n, start:stop]
        c_before = cells[n]


@kernel
def _backward_kernel(
    iota, phi, W, c0, cells, gates, grad_outputs, h_carried, c_carried, delta, start, stop
):
    """Backpropagate through the sequences start..stop-1.

    The carried gradients are those of the final state and become those of the initial one.
    """
    d = c0.shape[1]
    for n in range(len(cells) - 1, -1, -1):
        c_before = c0
        if n > 0:
            c_before = cells[n - 1]
        for k in range(start, stop):
            i = gates[n, k, :d]
            f = gates[n, k, d : 2 * d]
            new = gates[n, k, 2 * d : 3 * d]
            o = gates[n, k, 3 * d :]
            d_i = delta[n, k, :d]
            d_f = delta[n, k, d : 2 * d]
            d_new = delta[n, k, 2 * d : 3 * d]
            d_o = delta[n, k, 3 * d :]
            before = c_before[k]
            c = cells[n, k]
            o_n = grad_outputs[n, k]
            back = h_carried[k]
            mu = c_carried[k]
            for j in range(d):
                lambda_ = o_n[j] + back[j]
                squashed = tanh(c[j])
                mu_n = mu[j] + lambda_ * o[j] * (ONE - squashed * squashed)
                d_i[j] = iota * mu_n * new[j] * i[j] * (ONE - i[j])
                d_f[j] = phi * mu_n * before[j] * f[j] * (ONE - f[j])
                d_new[j] = iota * mu_n * i[j] * (ONE - new[j] * new[j])
                d_o[j] = lambda_ * squashed * o[j] * (ONE - o[j])
                mu[j] = mu_n * (phi * f[j])
        np.dot(delta[n, start:stop], W, h_carried[start:stop])


def _forward(scales, W, g, h0, c0, outputs, h_end, c_end, cells, gates):
    states = g, h0, c0, outputs, cells, gates
    run_networks(_forward_kernel, _weights(scales, W), h0, len(g), *states)
    h_end[:] = outputs[-1]
    c_end[:] = cells[-1]


def _backward(scales, W, h0, c0, outputs, cells, gates, grad_outputs, h_carried, c_carried):
    delta = empty_array_like(gates)
    states = c0, cells, gates, grad_outputs, h_carried, c_carried
    run_networks(_backward_kernel, _weights(scales, W), c0, len(cells), *states, delta)
    return None, state_products(W, delta, h0, outputs), delta, h_carried, c_carried


def _weights(scales, W):
    """Return what the sequences of a network share: iota, phi and W, of every network."""
    iota, phi = with_run_axis(W, scales).T
    return [iota, phi, with_run_axis(W, W)]


def reference(scales, W, g, h, c):
    """Run the dt-LSTM in plain PyTorch: the operator's reference.

    Parameters
    ----------
    scales : (2,) or (runs, 2)
        The factors iota and phi.
    W : (4 d, d) or (runs, 4 d, d)
        Weights of i f g o.
    g : (time, batch, 4 d)
        The drive.
    h, c : (batch, d)
        The initial state.

    Returns
    -------
    outputs : (time, batch, d)
        h after every input.
    final : tuple of (batch, d)
        (h, c) after the last input.
    """
    iota, phi = (per_sequence(scale, h) for scale in scales.unbind(-1))
    outputs = []
    for g_n in g.unbind(0):
        i, f, new, o = (times_state(W, h) + g_n).chunk(4, dim=-1)
        c = phi * torch.sigmoid(f) * c + iota * torch.sigmoid(i) * torch.tanh(new)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs), (h, c)


def shapes(a):
    """Return the shapes of the outputs, h_end, c_end, the cells and the gates.

    Parameters
    ----------
    a : namedtuple
        Settings and inputs of the operator, for the CPU or the GPU.

    Returns
    -------
    list of tuple
    """
    sequence = (a.g.shape[0], *a.h0.shape)  # `len` would fix the length in a traced program
    return [sequence, a.h0.shape, a.c0.shape, sequence, a.g.shape]


_DT_LSTM = Recurrence(
    "dt_lstm_cpu",
    inputs="scales W g:1 h0:0 c0:0",
    results="outputs h_end c_end cells gates",
    final=2,
    saved="scales W h0 c0 outputs cells gates",
    shapes=shapes,
    forward=_forward,
    backward=_backward,
    reference=reference,
    takes_networks=True,
)


@engine("dt_lstm", takes_networks=True)
def dt_lstm(weights, state, u):
    """Run the dt-LSTM, appendix D of Rusch et al. 2022.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.dt_lstm.DtLSTMCore.step`.
    state : tuple of (batch, d)
        (h, c) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        h after every input.
    state : tuple of (batch, d)
        (h, c) after the last input.
    """
    W, R, b, iota, phi = weights
    scales = scalars_like(W, iota, phi)
    return _DT_LSTM(scales, W, drive(u, R, b), *state, sources=Sources(u, R, b))


@engine("lstm", "chrono_lstm", takes_networks=True, opt_in=True)
def lstm(weights, state, u):
    """Run the LSTM, one network or several in one call.

    For one network ``auto`` takes PyTorch's layer all the same: the stored results were computed
    with it, and their last digits depend on the engine. On one thread of an AMD EPYC this engine
    took 0.56 of the layer's time with 32 units, and 0.64 with 128 (32 sequences of 784 steps,
    float32).

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.lstm.LSTMCore.step`.
    state : tuple of (batch, d)
        (h, c) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        h after every input.
    state : tuple of (batch, d)
        (h, c) after the last input.
    """
    W, R, b = weights
    scales = scalars_like(W, 1, 1)
    return _DT_LSTM(scales, W, drive(u, R, b), *state, sources=Sources(u, R, b))
