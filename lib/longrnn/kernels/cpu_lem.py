r"""LEM on the CPU: equation (3) of Rusch et al. 2022.

Arrays are (time, batch, hidden), with the blocks of several gates side by side in the last axis.
PyTorch's threads share the sequences (`longrnn.kernels._threads.run_networks`).

Forward pass. The input terms :math:`g_n = V u_n + b` of all time steps are computed beforehand,
with blocks in the order 1 2 z y. :math:`q_n, \bar q_n` are the time steps of (3), and
:math:`\Delta_n, \bar\Delta_n` the same after clipping (equal without `clip`):

.. math::
    q_n &= \Delta t \, \hat\sigma(W_1 y_{n-1} + g^1_n), \qquad
    \bar q_n = \Delta t \, \hat\sigma(W_2 y_{n-1} + g^2_n) \\
    s_n &= \tanh(W_z y_{n-1} + g^z_n), \qquad
    z_n = z_{n-1} + \Delta_n \odot (s_n - z_{n-1}) \\
    r_n &= \tanh(W_y z_n + g^y_n), \qquad
    y_n = y_{n-1} + \bar\Delta_n \odot (r_n - y_{n-1})

Backward pass (symbols as in `longrnn.kernels._recurrence`, :math:`\lambda_n, \mu_n` of :math:`y_n,
z_n`):

.. math::
    \lambda_n &= o_n + (1 - \bar\Delta_{n+1}) \odot \lambda_{n+1} + W^\top \delta_{n+1} \\
    \delta^y_n &= \lambda_n \odot \bar\Delta_n \odot (1 - r_n^2) \\
    \mu_n &= (1 - \Delta_{n+1}) \odot \mu_{n+1} + W_y^\top \delta^y_n \\
    \delta^z_n &= \mu_n \odot \Delta_n \odot (1 - s_n^2) \\
    \delta^1_n &= \mu_n \odot (s_n - z_{n-1}) \odot q_n (1 - q_n / \Delta t) \\
    \delta^2_n &= \lambda_n \odot (r_n - y_{n-1}) \odot \bar q_n (1 - \bar q_n / \Delta t)

with :math:`\delta^1, \delta^2` zero where a step is clipped, and
:math:`\delta = (\delta^1, \delta^2, \delta^z)`. Then
:math:`\partial L / \partial g_n = (\delta_n, \delta^y_n)`,
:math:`\partial L / \partial W = \sum_n \delta_n y_{n-1}^\top` and
:math:`\partial L / \partial W_y = \sum_n \delta^y_n z_n^\top`, one product each over the whole
sequence. With a single scale (Table 9) both time steps are the constant :math:`\Delta t`, and the
blocks 1 and 2 are absent.

Stored for the backward pass: y (the output), z, q, q-bar, s, and r. Recomputed: the clipped steps.
"""

import math

import numpy as np
import torch

from longrnn.kernels._cpu import ONE, ZERO, engine, scalar, variants
from longrnn.kernels._cpu_activations import sigmoid, tanh
from longrnn.kernels._drive import Sources, drive
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._products import state_products, sums_of_products, times_state
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import per_sequence, scalars_like, with_run_axis
from longrnn.kernels._threads import run_networks


@scalar
def clip(step, least, most):
    """Clip a time step to an interval; NaN stays NaN.

    Parameters
    ----------
    step : float
        The time step.
    least, most : float
        Ends of the interval.

    Returns
    -------
    float
        The clipped time step.
    """
    if step < least:  # comparisons, because max and min would replace NaN
        step = least
    if step > most:
        step = most
    return step


@scalar
def relax(step, before, target):
    """Take an Euler step toward a target.

    Parameters
    ----------
    step : float
        Size of the step.
    before : float
        State before the step.
    target : float
        The target.

    Returns
    -------
    float
        State after the step.
    """
    return before + step * (target - before)


@scalar
def pull_back(p, q, step, before, target, arrived):
    """Backpropagate through `relax` and the activations before it.

    Parameters
    ----------
    p, q : float
        Value of the logistic function, and q = dt p.
    step : float
        q after clipping.
    before, target : float
        As for `relax`; the target is the value of tanh.
    arrived : float
        Gradient of the state after the step.

    Returns
    -------
    grad_target : float
        Gradient of the argument of tanh.
    grad_step : float
        Gradient of the argument of the logistic function.
    grad_before : float
        Gradient of the state before the step.
    """
    slope = ZERO  # where the step is clipped
    if step == q:
        slope = q * (ONE - p)
    grad_target = arrived * step * (ONE - target * target)
    return grad_target, arrived * (target - before) * slope, (ONE - step) * arrived


single_scale = 0
"""Compile-time constant: whether there is a single scale, without the blocks 1 and 2."""
_by_scales = variants("single_scale", 2)


@_by_scales
def _forward_kernel(dt, least, most, W, W_y, g, g_y, y0, z0, y, z, gates, r, start, stop):
    """Forward pass; writes y, z, r and `gates`.

    `gates` is (time, batch, 3 hidden) with q, q-bar and s; with a single scale it is (time, batch,
    hidden) with s.
    """
    d = y0.shape[1]
    y_before = y0
    z_before = z0
    for n in range(len(g)):
        np.dot(y_before[start:stop], W.T, gates[n, start:stop])
        for k in range(start, stop):
            s = gates[n, k, -d:]
            g_s = g[n, k, -d:]
            before = z_before[k]
            z_n = z[n, k]
            q = gates[n, k, :d]
            q_bar = gates[n, k, d : 2 * d]
            g_1 = g[n, k, :d]
            g_2 = g[n, k, d : 2 * d]
            for i in range(d):
                step = dt
                if not single_scale:
                    q[i] = dt * sigmoid(q[i] + g_1[i])
                    q_bar[i] = dt * sigmoid(q_bar[i] + g_2[i])
                    step = clip(q[i], least, most)
                s[i] = tanh(s[i] + g_s[i])
                z_n[i] = relax(step, before[i], s[i])
        np.dot(z[n, start:stop], W_y.T, r[n, start:stop])
        for k in range(start, stop):
            r_n = r[n, k]
            g_n = g_y[n, k]
            before = y_before[k]
            y_n = y[n, k]
            q_bar = gates[n, k, d : 2 * d]
            for i in range(d):
                r_n[i] = tanh(r_n[i] + g_n[i])
                step = dt
                if not single_scale:
                    step = clip(q_bar[i], least, most)
                y_n[i] = relax(step, before[i], r_n[i])
        y_before = y[n]
        z_before = z[n]


@_by_scales
def _backward_kernel(
    dt, least, most, W, W_y, y0, z0, y, z, gates, r, grad_y, y_carried, z_carried, delta, delta_y,
    start, stop,
):  # fmt: skip
    """Backward pass; `y_carried` and `z_carried` hold the gradients of the final state.

    They are overwritten by the gradients of the initial state.
    """
    d = y0.shape[1]
    product = np.empty_like(y0[start:stop])
    divisor = dt  # q / dt is the value of the logistic function
    if dt == ZERO:  # a cell that was converted to a shorter type: then q is zero, too, not NaN
        divisor = ONE
    for n in range(len(y) - 1, -1, -1):
        for k in range(start, stop):
            back = y_carried[k]
            r_n = r[n, k]
            before = y0[k]
            if n > 0:
                before = y[n - 1, k]
            o_n = grad_y[n, k]
            d_y = delta_y[n, k]
            d_2 = delta[n, k, d : 2 * d]
            q_bar = gates[n, k, d : 2 * d]
            for i in range(d):
                q = dt
                step = dt
                if not single_scale:
                    q = q_bar[i]
                    step = clip(q, least, most)
                arrived = o_n[i] + back[i]
                d_y[i], grad_q, back[i] = pull_back(
                    q / divisor, q, step, before[i], r_n[i], arrived
                )
                if not single_scale:
                    d_2[i] = grad_q
        np.dot(delta_y[n, start:stop], W_y, product)
        for k in range(start, stop):
            mu = z_carried[k]
            s = gates[n, k, -d:]
            d_s = delta[n, k, -d:]
            through_y = product[k - start]
            gate = gates[n, k, :d]
            d_1 = delta[n, k, :d]
            before = z0[k]
            if n > 0:
                before = z[n - 1, k]
            for i in range(d):
                q = dt
                step = dt
                if not single_scale:
                    q = gate[i]
                    step = clip(q, least, most)
                arrived = mu[i] + through_y[i]
                d_s[i], grad_q, mu[i] = pull_back(q / divisor, q, step, before[i], s[i], arrived)
                if not single_scale:
                    d_1[i] = grad_q
        np.dot(delta[n, start:stop], W, product)
        stretch = y_carried[start:stop]
        stretch += product


def _forward(steps, W, W_y, g, g_y, y0, z0, y, y_end, z_end, z, gates, r):
    run = _forward_kernel[W.shape == W_y.shape]
    weights = _weights(steps, W, W_y)
    run_networks(run, weights, y0, len(g), g, g_y, y0, z0, y, z, gates, r)
    y_end[:] = y[-1]
    z_end[:] = z[-1]


def _backward(steps, W, W_y, y0, z0, y, z, gates, r, grad_y, y_carried, z_carried):
    delta = empty_array_like(gates)
    delta_y = empty_array_like(y)
    run = _backward_kernel[W.shape == W_y.shape]
    weights = _weights(steps, W, W_y)
    states = y0, z0, y, z, gates, r, grad_y, y_carried, z_carried
    run_networks(run, weights, y0, len(y), *states, delta, delta_y)
    grad_W = state_products(W, delta, y0, y)
    grad_W_y = lambda: sums_of_products(W_y, delta_y, z)  # noqa: E731
    return None, grad_W, grad_W_y, delta, delta_y, y_carried, z_carried


def _weights(steps, W, W_y):
    """Return what the sequences of a network share: three steps, W and W_y, of every network."""
    dt, least, most = with_run_axis(W, steps).T
    return [dt, least, most, with_run_axis(W, W), with_run_axis(W, W_y)]


def reference(steps, W, W_y, g, g_y, y, z):
    """Run LEM in plain PyTorch: the operator's reference.

    Parameters
    ----------
    steps : (3,) or (runs, 3)
        dt, and the smallest and largest time step.
    W : (3d, d) or (runs, 3d, d)
        Recurrent weights that multiply y; (d, d) with a single scale.
    W_y : (d, d) or (runs, d, d)
        Recurrent weights that multiply z.
    g : (time, batch, 3d)
        The drive of the products with W, in the order 1 2 z; d wide with a single scale.
    g_y : (time, batch, d)
        The drive of the product with W_y.
    y, z : (batch, d)
        The initial state.

    Returns
    -------
    outputs : (time, batch, d)
        The output after every input.
    final : tuple of (batch, d)
        (y, z) after the last input.
    """
    dt, least, most = (per_sequence(step, y) for step in steps.unbind(-1))
    is_single = W.shape == W_y.shape
    outputs = []
    for g_n, g_y_n in zip(g.unbind(0), g_y.unbind(0), strict=True):
        a = times_state(W, y) + g_n
        if is_single:
            dt_z = dt_y = dt
        else:
            a_1, a_2, a = a.chunk(3, dim=-1)
            dt_z = (dt * torch.sigmoid(a_1)).clamp(least, most)
            dt_y = (dt * torch.sigmoid(a_2)).clamp(least, most)
        z = z + dt_z * (torch.tanh(a) - z)
        y = y + dt_y * (torch.tanh(times_state(W_y, z) + g_y_n) - y)
        outputs.append(y)
    return torch.stack(outputs), (y, z)


def _split_drive(drive, arguments):
    rows = arguments.W.shape[-2]
    return drive[..., :rows], drive[..., rows:]


def _shapes(a):
    return [a.g_y.shape, a.y0.shape, a.z0.shape, a.g_y.shape, a.g.shape, a.g_y.shape]


_LEM = Recurrence(
    "lem_cpu",
    inputs="steps W W_y g:1 g_y:1 y0:0 z0:0",
    results="y y_end z_end z gates r",
    final=2,
    saved="steps W W_y y0 z0 y z gates r",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=reference,
    split=_split_drive,
    runs=True,
)


@engine("lem", runs=True)
def lem(weights, state, u):
    """Run LEM, equation (3) of Rusch et al. 2022.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.lem.LEMCore.step`.
    state : tuple of (batch, d)
        (y, z) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        y after every input.
    state : tuple of (batch, d)
        (y, z) after the last input.
    """
    W, W_y, V, b, dt, clip, _ = weights
    least = -math.inf
    most = math.inf
    if clip is not None:
        least = clip
        most = 1.0
    rows = len(W)  # the blocks that read y; with a single scale one
    g = drive(u, V[:rows], b[:rows])
    g_y = drive(u, V[rows:], b[rows:])
    steps = scalars_like(W, dt, least, most)
    return _LEM(steps, W, W_y, g, g_y, *state, sources=Sources(u, V, b))
