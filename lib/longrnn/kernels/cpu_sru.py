r"""SRU on the CPU, one layer at a time: section 3 of Lei et al. 2018.

Arrays are (time, batch, hidden). Each neuron of each sequence is an independent chain. PyTorch's
threads share the chains (`longrnn.kernels._threads.run_chains`).

Forward pass of one layer, with :math:`g^f_t = W_f x_t + b_f`, :math:`\tilde x_t = W x_t`,
:math:`g^r_t = W_r x_t + b_r` and the highway :math:`k_t = \alpha x_t` computed beforehand for all
times:

.. math::
    f_t &= \sigma(g^f_t + v_f \odot c_{t-1}), \qquad r_t = \sigma(g^r_t + v_r \odot c_{t-1}) \\
    c_t &= f_t \odot c_{t-1} + (1 - f_t) \odot \tilde x_t \\
    h_t &= r_t \odot c_t + (1 - r_t) \odot k_t

Backward pass (symbols as in `longrnn.kernels._recurrence`, but :math:`\lambda_t` of :math:`c_t`).
No later step reads the output :math:`h_t`, so :math:`o_t` is all of its gradient:

.. math::
    \lambda_t &= o_t \odot r_t + f_{t+1} \odot \lambda_{t+1}
        + v_f \odot \delta^f_{t+1} + v_r \odot \delta^r_{t+1} \\
    \delta^f_t &= \lambda_t \odot (c_{t-1} - \tilde x_t) \odot f_t \odot (1 - f_t) \\
    \delta^r_t &= o_t \odot (c_t - k_t) \odot r_t \odot (1 - r_t)

Then the derivatives with respect to :math:`g^f_t, \tilde x_t, g^r_t, k_t` are :math:`\delta^f_t,
\lambda_t \odot (1 - f_t), \delta^r_t, o_t \odot (1 - r_t)`, and those with respect to v_f and v_r
are :math:`\sum_t \delta^f_t \odot c_{t-1}` and :math:`\sum_t \delta^r_t \odot c_{t-1}`.

Stored: c, both gates, and what they weigh, the candidate and the highway. Recomputed: nothing.
"""

import numpy as np
import torch

from longrnn.kernels._cpu import ONE, engine, kernel, scalar
from longrnn.kernels._cpu_activations import sigmoid
from longrnn.kernels._drive import Sources, drive
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import per_chain
from longrnn.kernels._threads import run_chains


@scalar
def step(v_f, v_r, g_f, candidate, g_r, c):
    """Compute the gates and the next state of one neuron.

    Parameters
    ----------
    v_f, v_r : float
        Recurrent weights of the gates.
    g_f, candidate, g_r : float
        The parts of the input.
    c : float
        State before the step.

    Returns
    -------
    f, r : float
        The gates.
    c : float
        State after the step.
    """
    f = sigmoid(g_f + v_f * c)
    r = sigmoid(g_r + v_r * c)
    return f, r, f * c + (ONE - f) * candidate


@scalar
def pull_back(gates, weighed, before, c, o, back):
    """Backpropagate through one step of one neuron.

    Parameters
    ----------
    gates : (f, r)
        The gates.
    weighed : (candidate, highway)
        What the gates weigh against the state.
    before, c : float
        State before and after the step.
    o : float
        Gradient of the output h.
    back : float
        Gradient of c from the step after.

    Returns
    -------
    d_f, d_candidate, d_r, d_highway : float
        Gradients of the parts of the input.
    through : float
        Part of the gradient of the state before that comes through the forget gate's product.
    """
    (f, r) = gates
    (candidate, highway) = weighed
    arrived = o * r + back
    d_f = arrived * (before - candidate) * f * (ONE - f)
    d_r = o * (c - highway) * r * (ONE - r)
    return d_f, arrived * (ONE - f), d_r, o * (ONE - r), arrived * f


@kernel
def _forward_kernel(v_f, v_r, g_f, candidate, g_r, highway, c0, h, c, f, r, start, stop):
    """Run the chains start..stop-1 of arrays (.., chains)."""
    v_f = v_f[start:stop]
    v_r = v_r[start:stop]
    before = c0[start:stop]
    for t in range(len(h)):
        gf_t = g_f[t, start:stop]
        gr_t = g_r[t, start:stop]
        x_t = candidate[t, start:stop]
        k_t = highway[t, start:stop]
        h_t = h[t, start:stop]
        c_t = c[t, start:stop]
        f_t = f[t, start:stop]
        r_t = r[t, start:stop]
        for i in range(h_t.size):
            f_t[i], r_t[i], c_t[i] = step(v_f[i], v_r[i], gf_t[i], x_t[i], gr_t[i], before[i])
            h_t[i] = r_t[i] * c_t[i] + (ONE - r_t[i]) * k_t[i]
        before = c_t


@kernel
def _backward_kernel(
    v_f, v_r, c0, x, k, c, f, r, grad_h, carried, df, dx, dr, dk, vf_sum, vr_sum, start, stop
):
    """Backpropagate through the chains start..stop-1; `vf_sum` and `vr_sum` start at zero.

    `x` is the candidate and `k` the highway. `carried` is the gradient of the final c and becomes
    that of the initial one.
    """
    v_f = v_f[start:stop]
    v_r = v_r[start:stop]
    back = carried[start:stop]
    vf_sum = vf_sum[start:stop]
    vr_sum = vr_sum[start:stop]
    for t in range(len(c) - 1, -1, -1):
        before = c0[start:stop]
        if t > 0:
            before = c[t - 1, start:stop]
        x_t = x[t, start:stop]
        k_t = k[t, start:stop]
        o_t = grad_h[t, start:stop]
        c_t = c[t, start:stop]
        f_t = f[t, start:stop]
        r_t = r[t, start:stop]
        df_t = df[t, start:stop]
        dx_t = dx[t, start:stop]
        dr_t = dr[t, start:stop]
        dk_t = dk[t, start:stop]
        for i in range(c_t.size):
            gates = (f_t[i], r_t[i])
            weighed = (x_t[i], k_t[i])
            d_f, dx_t[i], d_r, dk_t[i], through = pull_back(
                gates, weighed, before[i], c_t[i], o_t[i], back[i]
            )
            df_t[i] = d_f
            dr_t[i] = d_r
            vf_sum[i] += d_f * before[i]
            vr_sum[i] += d_r * before[i]
            back[i] = through + v_f[i] * d_f + v_r[i] * d_r


def _forward(g_f, candidate, g_r, highway, v_f, v_r, c0, h, c_end, c, f, r):
    run_chains(_forward_kernel, len(h), v_f, v_r, g_f, candidate, g_r, highway, c0, h, c, f, r)
    c_end[:] = c[-1]


def _backward(candidate, highway, v_f, v_r, c0, c, f, r, grad_h, carried):
    grad_f, grad_candidate, grad_r, grad_highway = (empty_array_like(c) for _ in range(4))
    grad_v_f = np.zeros_like(c0)
    grad_v_r = np.zeros_like(c0)
    states = v_f, v_r, c0, candidate, highway, c, f, r, grad_h, carried
    gradients = grad_f, grad_candidate, grad_r, grad_highway, grad_v_f, grad_v_r
    run_chains(_backward_kernel, len(c), *states, *gradients)
    return grad_f, grad_candidate, grad_r, grad_highway, grad_v_f, grad_v_r, carried


def reference(g_f, candidate, g_r, highway, v_f, v_r, c):
    """Run one layer in plain PyTorch: the operator's reference.

    Parameters
    ----------
    g_f, candidate, g_r, highway : (time, batch, d)
        What the gates f and r, the state and the output read of the input.
    v_f, v_r : (d,) or (batch, d)
        Recurrent weights of the gates.
    c : (batch, d)
        The initial state.

    Returns
    -------
    outputs : (time, batch, d)
        The output after every input.
    final : tuple of (batch, d)
        (c,) after the last input.
    """
    outputs = []
    drives = (part.unbind(0) for part in (g_f, candidate, g_r, highway))
    for g_f_t, candidate_t, g_r_t, highway_t in zip(*drives, strict=True):
        f = torch.sigmoid(g_f_t + v_f * c)
        r = torch.sigmoid(g_r_t + v_r * c)
        c = f * c + (1 - f) * candidate_t
        outputs.append(r * c + (1 - r) * highway_t)
    return torch.stack(outputs), (c,)


def _shapes(a):
    return [a.g_f.shape, a.c0.shape, a.g_f.shape, a.g_f.shape, a.g_f.shape]


_SRU = Recurrence(
    "sru_cpu",
    inputs="g_f:1 candidate:1 g_r:1 highway:1 v_f:0 v_r:0 c0:0",
    results="h c_end c f r",
    saved="candidate highway v_f v_r c0 c f r",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=reference,
    split=lambda drive, _: drive.chunk(2, dim=-1),
)


@engine("sru", takes_networks=True)
def sru(weights, state, u):
    """Run SRU, section 3 of Lei et al. 2018.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.sru.SRUCore.step`.
    state : tuple of (batch, d)
        (c^1, .., c^L, h^L) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        h^L after every input.
    state : tuple of (batch, d)
        (c^1, .., c^L, h^L) after the last input.
    """
    layers, alpha = weights
    x = u
    final = []
    for (W, v, b, skip), c0 in zip(layers, state[:-1], strict=True):
        v_f, v_r = (per_chain(part, c0) for part in v.chunk(2))
        W_f, W_x, W_r = W.chunk(3)
        b_f, b_r = b.chunk(2)
        bypass = x
        if skip is not None:
            bypass = drive(x, skip)
        highway = alpha * bypass
        drives = (drive(x, W_f, b_f), drive(x, W_x), drive(x, W_r, b_r), highway)
        sources = Sources(x, torch.cat([W_f, W_r]), b)
        x, (c,) = _SRU(*drives, v_f, v_r, c0, sources=sources)
        final.append(c)
    return x, (*final, x[-1].clone())
