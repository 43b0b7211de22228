r"""coRNN on the CPU: equation (3) of Rusch and Mishra 2021.

Arrays are (time, batch, hidden), with the blocks of several gates side by side in the last axis.
PyTorch's threads share the sequences (`longrnn.kernels._threads.run_networks`).

Forward pass, with the drive :math:`g_n = V u_n + b` computed beforehand for all times and M the
matrices W and script W side by side:

.. math::
    f_n &= \tanh(M (y_{n-1}, z_{n-1}) + g_n) \\
    z_n &= r z_{n-1} + \Delta t \, (f_n - \gamma y_{n-1}), \qquad r = 1 - \Delta t \, \epsilon \\
    y_n &= y_{n-1} + \Delta t \, z_n

Backward pass (symbols as in `longrnn.kernels._recurrence`). :math:`\lambda_n, \mu_n` are the
derivatives of the loss with respect to :math:`y_n, z_n`. That of :math:`z_n` includes its effect
through :math:`y_n`:

.. math::
    \lambda_n &= o_n + \lambda_{n+1} - \Delta t \, \gamma \mu_{n+1} + W^\top \delta_{n+1} \\
    \mu_n &= \Delta t \, \lambda_n + r \mu_{n+1} + \mathcal{W}^\top \delta_{n+1}, \qquad
    \delta_n = \Delta t \, \mu_n \odot (1 - f_n^2)

Then :math:`\partial L / \partial g_n = \delta_n` and
:math:`\partial L / \partial M = \sum_n \delta_n (y_{n-1}, z_{n-1})^\top`, a product over the whole
sequence for each half.

Stored: y (the output), z and f. Recomputed: nothing.
"""

import numpy as np
import torch

from longrnn.kernels._cpu import ONE, engine, kernel, scalar
from longrnn.kernels._cpu_activations import tanh
from longrnn.kernels._drive import Sources
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._products import state_products, times_state
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import with_run_axis
from longrnn.kernels._threads import run_networks


@scalar
def oscillate(dt, gamma, r, f, y, z):
    """Take one step of one unit, equation (3).

    Parameters
    ----------
    dt, gamma, r : float
        Time step, frequency, and r = 1 - dt epsilon.
    f : float
        The force, the value of tanh.
    y, z : float
        Position and velocity before the step.

    Returns
    -------
    y, z : float
        Position and velocity after the step.
    """
    z = r * z + dt * (f - gamma * y)
    return y + dt * z, z


@scalar
def pull_back(dt, gamma, r, f, lambda_, mu):
    """Backpropagate through one step of one unit.

    Parameters
    ----------
    dt, gamma, r, f
        As for `oscillate`.
    lambda_, mu : float
        Gradients of y and z after the step, mu without the part that comes through y.

    Returns
    -------
    lambda_, mu : float
        Gradients of y and z before the step, without the parts that come through tanh.
    delta : float
        Gradient of the argument of tanh.
    """
    mu = mu + dt * lambda_
    return lambda_ - dt * gamma * mu, r * mu, dt * mu * (ONE - f * f)


@kernel
def _forward_kernel(M, dt, gamma, r, g, y0, z0, y, z, f, start, stop):
    """Run the sequences start..stop-1; `f` receives the values of tanh.

    `both` has a row for each of them: the positions and, behind them, the velocities.
    """
    d = y0.shape[1]
    both = np.empty((stop - start, 2 * d), y0.dtype)  # one product instead of two
    for k in range(start, stop):
        for i in range(d):
            both[k - start, i] = y0[k, i]
            both[k - start, d + i] = z0[k, i]
    for n in range(len(g)):
        np.dot(both, M.T, f[n, start:stop])
        for k in range(start, stop):
            f_n = f[n, k]
            g_n = g[n, k]
            y_n = y[n, k]
            z_n = z[n, k]
            position = both[k - start, :d]
            velocity = both[k - start, d:]
            # Separate loops: tanh and the oscillator in one loop took 1.7 to 2 times as long.
            for i in range(d):
                f_n[i] = tanh(f_n[i] + g_n[i])
            for i in range(d):
                position[i], velocity[i] = oscillate(dt, gamma, r, f_n[i], position[i], velocity[i])
            for i in range(d):
                y_n[i] = position[i]
                z_n[i] = velocity[i]


@kernel
def _backward_kernel(M, dt, gamma, r, f, grad_y, y_carried, z_carried, delta, start, stop):
    """Backpropagate through the sequences start..stop-1.

    The carried gradients are those of the final state and become those of the initial one.
    """
    d = y_carried.shape[1]
    products = np.empty((stop - start, 2 * d), M.dtype)
    for n in range(len(f) - 1, -1, -1):
        for k in range(start, stop):
            lambda_ = y_carried[k]
            mu = z_carried[k]
            o_n = grad_y[n, k]
            f_n = f[n, k]
            d_n = delta[n, k]
            for i in range(d):
                lambda_[i], mu[i], d_n[i] = pull_back(
                    dt, gamma, r, f_n[i], lambda_[i] + o_n[i], mu[i]
                )
        np.dot(delta[n, start:stop], M, products)
        for k in range(start, stop):
            lambda_ = y_carried[k]
            mu = z_carried[k]
            through_y = products[k - start, :d]
            through_z = products[k - start, d:]
            for i in range(d):
                lambda_[i] += through_y[i]
                mu[i] += through_z[i]


def _forward(dt, gamma, r, W, W_z, g, y0, z0, y, y_end, z_end, z, f):
    M = np.concatenate([W, W_z], axis=-1)
    scalars = [M.dtype.type(value) for value in (dt, gamma, r)]
    run_networks(_forward_kernel, [with_run_axis(M, M)], y0, len(g), *scalars, g, y0, z0, y, z, f)
    y_end[:] = y[-1]
    z_end[:] = z[-1]


def _backward(dt, gamma, r, W, W_z, y0, z0, y, z, f, grad_y, y_carried, z_carried):
    M = np.concatenate([W, W_z], axis=-1)
    delta = empty_array_like(y)
    scalars = [M.dtype.type(value) for value in (dt, gamma, r)]
    states = f, grad_y, y_carried, z_carried, delta
    run_networks(_backward_kernel, [with_run_axis(M, M)], y0, len(f), *scalars, *states)
    grad_W = state_products(W, delta, y0, y)
    grad_W_z = state_products(W_z, delta, z0, z)
    return grad_W, grad_W_z, delta, y_carried, z_carried


def reference(dt, gamma, r, W, W_z, g, y, z):
    """Run coRNN in plain PyTorch: the operator's reference.

    Parameters
    ----------
    dt, gamma, r : float
        Time step, frequency, and r = 1 - dt epsilon.
    W, W_z : (d, d) or (runs, d, d)
        The matrices that multiply positions and velocities, W and script W.
    g : (time, batch, d)
        The drive.
    y, z : (batch, d)
        The initial state.

    Returns
    -------
    outputs : (time, batch, d)
        The output after every input.
    final : tuple of (batch, d)
        (y, z) after the last input.
    """
    M = torch.cat([W, W_z], dim=-1)
    outputs = []
    for g_n in g.unbind(0):
        f = torch.tanh(times_state(M, torch.cat([y, z], dim=1)) + g_n)
        z = r * z + dt * (f - gamma * y)
        y = y + dt * z
        outputs.append(y)
    return torch.stack(outputs), (y, z)


def _shapes(a):
    return [a.g.shape, a.y0.shape, a.z0.shape, a.g.shape, a.g.shape]


CORNN_DESCRIPTION = {
    "settings": "float dt, float gamma, float r",
    "inputs": "W W_z g:1 y0:0 z0:0",
    "results": "y y_end z_end z f",
    "final": 2,
    "saved": "W W_z y0 z0 y z f",
    "shapes": _shapes,
    "reference": reference,
    "takes_networks": True,
}
"""Arguments of `Recurrence` that coRNN's operators share."""

_CORNN = Recurrence("cornn_cpu", forward=_forward, backward=_backward, **CORNN_DESCRIPTION)


@engine("cornn", takes_networks=True)
def cornn(weights, state, u):
    """Run coRNN, equation (3) of Rusch and Mishra 2021.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.cornn.CoRNNCore.step`.
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
    return run_by(_CORNN, weights, state, u)


def run_by(recurrence: Recurrence, weights, state, u):
    """Run coRNN by the operator of a device.

    Parameters
    ----------
    recurrence : Recurrence
        The operator for the CPU or the GPU.
    weights, state, u
        As for `cornn`.

    Returns
    -------
    outputs : (time, batch, d)
        y after every input.
    state : tuple of (batch, d)
        (y, z) after the last input.
    """
    W, W_z, V, b, dt, gamma, epsilon = weights
    scalars = float(dt), float(gamma), float(1 - dt * epsilon)
    sources = Sources(u, V, b)
    return recurrence(*scalars, W, W_z, sources.drive(), *state, sources=sources)
