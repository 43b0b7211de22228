r"""LEM on the CPU: equation (3) of Rusch et al. 2022.

Arrays are (time, batch, hidden), with the blocks of several gates side by side in the last axis.
PyTorch's threads share the sequences (`longrnn.kernels._threads.run_networks`).

Forward pass. The drive :math:`g_n = V u_n + b` of all time steps is computed beforehand, with
blocks in the order 1 2 z y. :math:`\Delta t_n` and :math:`\overline{\Delta t}_n` are the time steps
of (3), and :math:`\Delta_n` and :math:`\bar\Delta_n` the same after clipping (equal without
`clip`):

.. math::
    \Delta t_n &= \Delta t \, \hat\sigma(W_1 y_{n-1} + g^1_n), \qquad
    \overline{\Delta t}_n = \Delta t \, \hat\sigma(W_2 y_{n-1} + g^2_n) \\
    \tilde z_n &= \tanh(W_z y_{n-1} + g^z_n), \qquad
    z_n = z_{n-1} + \Delta_n \odot (\tilde z_n - z_{n-1}) \\
    \tilde y_n &= \tanh(W_y z_n + g^y_n), \qquad
    y_n = y_{n-1} + \bar\Delta_n \odot (\tilde y_n - y_{n-1})

Names of these in the kernels for the CPU and the GPU:

``gate_z``, ``gate_y``
    The values of :math:`\hat\sigma`, which are :math:`\Delta t_n / \Delta t` and
    :math:`\overline{\Delta t}_n / \Delta t`.
``step_z``, ``step_y``
    :math:`\Delta t_n` and :math:`\overline{\Delta t}_n`, before clipping.
``clipped``
    :math:`\Delta_n` or :math:`\bar\Delta_n`, clipped to [``least``, ``most``].
``target_z``, ``target_y``
    :math:`\tilde z_n` and :math:`\tilde y_n`, toward which z and y relax.
``g_12z``, ``delta_12z``
    The blocks 1 2 z of the drive, and :math:`\delta` below.

Backward pass (symbols as in `longrnn.kernels._recurrence`, :math:`\lambda_n, \mu_n` of :math:`y_n,
z_n`):

.. math::
    \lambda_n &= o_n + (1 - \bar\Delta_{n+1}) \odot \lambda_{n+1} + W^\top \delta_{n+1} \\
    \delta^y_n &= \lambda_n \odot \bar\Delta_n \odot (1 - \tilde y_n^2) \\
    \mu_n &= (1 - \Delta_{n+1}) \odot \mu_{n+1} + W_y^\top \delta^y_n \\
    \delta^z_n &= \mu_n \odot \Delta_n \odot (1 - \tilde z_n^2) \\
    \delta^1_n &= \mu_n \odot (\tilde z_n - z_{n-1})
        \odot \Delta t_n (1 - \Delta t_n / \Delta t) \\
    \delta^2_n &= \lambda_n \odot (\tilde y_n - y_{n-1})
        \odot \overline{\Delta t}_n (1 - \overline{\Delta t}_n / \Delta t)

with :math:`\delta^1, \delta^2` zero where a step is clipped, and
:math:`\delta = (\delta^1, \delta^2, \delta^z)`. Then
:math:`\partial L / \partial g_n = (\delta_n, \delta^y_n)`,
:math:`\partial L / \partial W = \sum_n \delta_n y_{n-1}^\top` and
:math:`\partial L / \partial W_y = \sum_n \delta^y_n z_n^\top`, one product each over the whole
sequence. With a single scale (Table 9) both time steps are the constant :math:`\Delta t`, and the
blocks 1 and 2 are absent.

Stored for the backward pass: y (the output), z, both time steps and both targets. Recomputed: the
clipped steps.
"""

import math
from functools import partial

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
def clip_step(step, least, most):
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
def relax_adjoint(gate, step, clipped, before, target, arrived):
    """Backpropagate through `relax` and the activations before it.

    Parameters
    ----------
    gate, step, clipped : float
        Value of the logistic function, the time step dt * gate, and the same after clipping.
    before, target : float
        As for `relax`; the target is the value of tanh.
    arrived : float
        Gradient of the state after the step.

    Returns
    -------
    grad_target : float
        Gradient of the argument of tanh.
    grad_gate : float
        Gradient of the argument of the logistic function.
    grad_before : float
        Gradient of the state before the step.
    """
    slope = ZERO  # where the step is clipped
    if clipped == step:
        slope = step * (ONE - gate)
    grad_target = arrived * clipped * (ONE - target * target)
    return grad_target, arrived * (target - before) * slope, (ONE - clipped) * arrived


single_scale = 0
"""Compile-time constant: whether there is a single scale, without the blocks 1 and 2."""
_by_scales = variants("single_scale", 2)


@_by_scales
def _forward_kernel(
    dt, least, most, W, W_y, g_12z, g_y, y0, z0, y, z, gates, target_y, start, stop
):  # fmt: skip
    """Forward pass; writes y, z, `gates` and `target_y`.

    `gates` is (time, batch, 3 hidden) with step_z, step_y and target_z; with a single scale it is
    (time, batch, hidden) with target_z.
    """
    d = y0.shape[1]
    y_before = y0
    z_before = z0
    for n in range(len(g_12z)):
        np.dot(y_before[start:stop], W.T, gates[n, start:stop])
        for k in range(start, stop):
            target_z = gates[n, k, -d:]
            g_z = g_12z[n, k, -d:]
            before = z_before[k]
            z_n = z[n, k]
            step_z = gates[n, k, :d]
            step_y = gates[n, k, d : 2 * d]
            g_1 = g_12z[n, k, :d]
            g_2 = g_12z[n, k, d : 2 * d]
            for i in range(d):
                clipped = dt
                if not single_scale:
                    step_z[i] = dt * sigmoid(step_z[i] + g_1[i])
                    step_y[i] = dt * sigmoid(step_y[i] + g_2[i])
                    clipped = clip_step(step_z[i], least, most)
                target_z[i] = tanh(target_z[i] + g_z[i])
                z_n[i] = relax(clipped, before[i], target_z[i])
        np.dot(z[n, start:stop], W_y.T, target_y[n, start:stop])
        for k in range(start, stop):
            target = target_y[n, k]
            g_n = g_y[n, k]
            before = y_before[k]
            y_n = y[n, k]
            step_y = gates[n, k, d : 2 * d]
            for i in range(d):
                target[i] = tanh(target[i] + g_n[i])
                clipped = dt
                if not single_scale:
                    clipped = clip_step(step_y[i], least, most)
                y_n[i] = relax(clipped, before[i], target[i])
        y_before = y[n]
        z_before = z[n]


@_by_scales
def _backward_kernel(
    dt, least, most, W, W_y, y0, z0, y, z, gates, target_y, grad_y, y_carried, z_carried,
    delta_12z, delta_y, start, stop,
):  # fmt: skip
    """Backward pass; `y_carried` and `z_carried` hold the gradients of the final state.

    They are overwritten by the gradients of the initial state.
    """
    d = y0.shape[1]
    product = np.empty_like(y0[start:stop])
    divisor = dt  # a time step / dt is the value of the logistic function
    if dt == ZERO:  # a cell that was converted to a shorter type: time steps are zero, too, not NaN
        divisor = ONE
    for n in range(len(y) - 1, -1, -1):
        for k in range(start, stop):
            lambda_ = y_carried[k]
            target = target_y[n, k]
            before = y0[k]
            if n > 0:
                before = y[n - 1, k]
            o_n = grad_y[n, k]
            d_y = delta_y[n, k]
            d_2 = delta_12z[n, k, d : 2 * d]
            step_y = gates[n, k, d : 2 * d]
            for i in range(d):
                step = dt
                clipped = dt
                if not single_scale:
                    step = step_y[i]
                    clipped = clip_step(step, least, most)
                gate = step / divisor
                arrived = o_n[i] + lambda_[i]
                d_y[i], grad_gate, lambda_[i] = relax_adjoint(
                    gate, step, clipped, before[i], target[i], arrived
                )
                if not single_scale:
                    d_2[i] = grad_gate
        np.dot(delta_y[n, start:stop], W_y, product)
        for k in range(start, stop):
            mu = z_carried[k]
            target_z = gates[n, k, -d:]
            d_z = delta_12z[n, k, -d:]
            through_y = product[k - start]
            step_z = gates[n, k, :d]
            d_1 = delta_12z[n, k, :d]
            before = z0[k]
            if n > 0:
                before = z[n - 1, k]
            for i in range(d):
                step = dt
                clipped = dt
                if not single_scale:
                    step = step_z[i]
                    clipped = clip_step(step, least, most)
                gate = step / divisor
                arrived = mu[i] + through_y[i]
                d_z[i], grad_gate, mu[i] = relax_adjoint(
                    gate, step, clipped, before[i], target_z[i], arrived
                )
                if not single_scale:
                    d_1[i] = grad_gate
        np.dot(delta_12z[n, start:stop], W, product)
        stretch = y_carried[start:stop]
        stretch += product


def is_single_scale(W, W_y):
    """Return whether both time steps are the constant dt, so that W has only the rows of W_z.

    Parameters
    ----------
    W, W_y : (rows, d) and (d, d), or (runs, rows, d) and (runs, d, d)
        Arrays or tensors.

    Returns
    -------
    bool
    """
    return W.shape == W_y.shape


def step_bounds(clip):
    """Return the smallest and the largest time step.

    Parameters
    ----------
    clip : float or None
        The cell's hyperparameter.

    Returns
    -------
    least, most : float
        Infinite if time steps are not clipped.
    """
    if clip is None:
        return -math.inf, math.inf
    return clip, 1.0


def _forward(numbers, W, W_y, g_12z, g_y, y0, z0, y, y_end, z_end, z, gates, target_y):
    run = _forward_kernel[is_single_scale(W, W_y)]
    weights = _weights(numbers, W, W_y)
    run_networks(run, weights, y0, len(g_12z), g_12z, g_y, y0, z0, y, z, gates, target_y)
    y_end[:] = y[-1]
    z_end[:] = z[-1]


def _backward(numbers, W, W_y, y0, z0, y, z, gates, target_y, grad_y, y_carried, z_carried):
    delta_12z = empty_array_like(gates)
    delta_y = empty_array_like(y)
    run = _backward_kernel[is_single_scale(W, W_y)]
    weights = _weights(numbers, W, W_y)
    states = y0, z0, y, z, gates, target_y, grad_y, y_carried, z_carried
    run_networks(run, weights, y0, len(y), *states, delta_12z, delta_y)
    grad_W = state_products(W, delta_12z, y0, y)
    grad_W_y = partial(sums_of_products, W_y, delta_y, z)
    return None, grad_W, grad_W_y, delta_12z, delta_y, y_carried, z_carried


def _weights(numbers, W, W_y):
    """Return what the sequences of a network share, of every network: `numbers`, W and W_y."""
    dt, least, most = with_run_axis(W, numbers).T
    return [dt, least, most, with_run_axis(W, W), with_run_axis(W, W_y)]


def reference(numbers, W, W_y, g_12z, g_y, y, z):
    """Run LEM in plain PyTorch: the operator's reference.

    Parameters
    ----------
    numbers : (3,) or (runs, 3)
        dt, and the smallest and largest time step.
    W : (3d, d) or (runs, 3d, d)
        Recurrent weights that multiply y; (d, d) with a single scale.
    W_y : (d, d) or (runs, d, d)
        Recurrent weights that multiply z.
    g_12z : (time, batch, 3d)
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
    dt, least, most = (per_sequence(number, y) for number in numbers.unbind(-1))
    outputs = []
    for g_n, g_y_n in zip(g_12z.unbind(0), g_y.unbind(0), strict=True):
        a = times_state(W, y) + g_n
        if is_single_scale(W, W_y):
            a_z = a
            clipped_z = clipped_y = dt
        else:
            a_1, a_2, a_z = a.chunk(3, dim=-1)
            clipped_z = (dt * torch.sigmoid(a_1)).clamp(least, most)
            clipped_y = (dt * torch.sigmoid(a_2)).clamp(least, most)
        z = z + clipped_z * (torch.tanh(a_z) - z)
        y = y + clipped_y * (torch.tanh(times_state(W_y, z) + g_y_n) - y)
        outputs.append(y)
    return torch.stack(outputs), (y, z)


def _split_drive(drive, arguments):
    rows = arguments.W.shape[-2]
    return drive[..., :rows], drive[..., rows:]


def _shapes(a):
    return [a.g_y.shape, a.y0.shape, a.z0.shape, a.g_y.shape, a.g_12z.shape, a.g_y.shape]


_LEM = Recurrence(
    "lem_cpu",
    inputs="numbers W W_y g_12z:1 g_y:1 y0:0 z0:0",
    results="y y_end z_end z gates target_y",
    final=2,
    saved="numbers W W_y y0 z0 y z gates target_y",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=reference,
    split=_split_drive,
    takes_networks=True,
)


@engine("lem", takes_networks=True)
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
    least, most = step_bounds(clip)
    rows = len(W)  # the blocks that read y; with a single scale one
    g_12z = drive(u, V[:rows], b[:rows])
    g_y = drive(u, V[rows:], b[rows:])
    numbers = scalars_like(W, dt, least, most)
    return _LEM(numbers, W, W_y, g_12z, g_y, *state, sources=Sources(u, V, b))
