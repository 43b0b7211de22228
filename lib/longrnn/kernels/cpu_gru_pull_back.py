r"""Adjoint states of the GRU on one CPU core, beyond the range of floats.

Forward stores the arguments of all activations. The adjoint states are pulled back from there, by
the equations of `longrnn.kernels.cpu_gru` without a gradient that arrives at the outputs, and with
the slopes of `longrnn.kernels._cpu_pull_back`:

.. math::
    \lambda_{t-1} = z_t \odot \lambda_t + W^\top \delta^a_t

Arrays are (time, batch, hidden), with the blocks of several gates side by side in the last axis.

Stored: the arguments of r, z and n, the state's part of n, and h before every step.
"""

import numpy as np
import torch

from longrnn.kernels._blas import single_thread
from longrnn.kernels._cpu import engine, kernel, scalar
from longrnn.kernels._cpu_activations import sigmoid, tanh
from longrnn.kernels._cpu_pull_back import (
    STORED_BYTES,
    as_arrays,
    gated,
    normalize_if_due,
    run_pull_back,
    sigmoid_slope,
    tanh_slope,
)
from longrnn.kernels._drive import drive
from longrnn.kernels._pull_back import PullBack

# One scalar function for each result: the compiler vectorizes loops with one result each. The gates
# are given by the arguments r, z and n of their activations.


@scalar
def argument_n(r, product, g_n):
    """Return the argument of n.

    Parameters
    ----------
    r : float
        The argument of the reset gate.
    product : float
        The state's part of n, before the reset gate.
    g_n : float
        The drive of n.

    Returns
    -------
    float
    """
    return sigmoid(r) * product + g_n


@scalar
def next_h(z, n, h):
    """Return the state after a step.

    Parameters
    ----------
    z, n : float
        The arguments of z and n.
    h : float
        The state before the step.

    Returns
    -------
    float
    """
    return sigmoid(-z) * tanh(n) + sigmoid(z) * h


@scalar
def grad_n(z, n, lambda_):
    """Return the gradient of the argument of n.

    Parameters
    ----------
    z, n : float
        The arguments of z and n.
    lambda_ : float
        The adjoint of h after the step.

    Returns
    -------
    float
    """
    return lambda_ * sigmoid(-z) * tanh_slope(n)


@scalar
def grad_r(r, product, d_n):
    """Return the gradient of the argument of r.

    Parameters
    ----------
    r : float
        The argument of r.
    product : float
        The state's part of n, before the reset gate.
    d_n : float
        The gradient of the argument of n.

    Returns
    -------
    float
    """
    return d_n * product * sigmoid_slope(r)


@scalar
def grad_z(z, n, before, lambda_):
    """Return the gradient of the argument of z.

    Parameters
    ----------
    z, n : float
        The arguments of z and n.
    before : float
        The state before the step.
    lambda_ : float
        The adjoint of h after the step.

    Returns
    -------
    float
    """
    return lambda_ * (before - tanh(n)) * sigmoid_slope(z)


@scalar
def _blocks(row, d):
    """Return the parts r z n of a row of 3 d numbers."""
    return row[:d], row[d : 2 * d], row[2 * d :]


@kernel
def _forward_kernel(W, arguments, h, products, states):
    """Run some steps.

    `arguments` (time, batch, 3 hidden), in the order r z n, holds the drive and receives the
    arguments of the activations. `products` and `states` (time, batch, hidden) receive the state's
    part of n, and h before the step. `h` is the state before the first step and becomes that after
    the last.
    """
    batch, d = h.shape
    product = np.empty((batch, 3 * d), W.dtype)
    for t in range(len(arguments)):
        np.dot(h, W.T, product)
        for k in range(batch):
            arguments_t = arguments[t, k]
            added = product[k]
            h_k = h[k]
            of_n = products[t, k]
            before = states[t, k]
            r, z, n = _blocks(arguments_t, d)
            for j in range(2 * d):
                arguments_t[j] += added[j]
            for j in range(d):
                of_n[j] = added[2 * d + j]
                before[j] = h_k[j]
            for j in range(d):
                n[j] = argument_n(r[j], of_n[j], n[j])
            for j in range(d):
                h_k[j] = next_h(z[j], n[j], h_k[j])


@kernel
def _backward_kernel(W, arguments, products, states, adjoint, norms):
    """Pull the adjoint back over all steps.

    `adjoint` (1, batch, hidden) is that after the last step and becomes that before the first.
    `norms` is `longrnn.kernels._cpu_pull_back.Norms`.
    """
    _, batch, d = adjoint.shape
    delta = np.empty((batch, 3 * d), W.dtype)
    direct = np.empty((batch, d), W.dtype)
    for t in range(len(arguments) - 1, -1, -1):
        for k in range(batch):
            r, z, n = _blocks(arguments[t, k], d)
            d_r, d_z, d_n = _blocks(delta[k], d)
            product = products[t, k]
            before = states[t, k]
            lambda_ = adjoint[0, k]
            through = direct[k]
            for j in range(d):
                d_n[j] = grad_n(z[j], n[j], lambda_[j])
            for j in range(d):
                d_r[j] = grad_r(r[j], product[j], d_n[j])
            for j in range(d):
                d_n[j] = gated(r[j], d_n[j])
            for j in range(d):
                d_z[j] = grad_z(z[j], n[j], before[j], lambda_[j])
            for j in range(d):
                through[j] = gated(z[j], lambda_[j])
        np.dot(delta, W, adjoint[0])
        adjoint[0] += direct
        normalize_if_due(t, adjoint, norms)


@engine("gru/pull_back")
class GRU(PullBack):
    """The GRU's steps and their adjoints."""

    vectors = 5
    stored_bytes = STORED_BYTES

    @staticmethod
    def forward(weights, state, u):
        """Run some steps, see `PullBack.forward`."""
        W, R, b = weights
        arguments = drive(u, R, b)
        h = state[0].clone(memory_format=torch.contiguous_format)
        products = h.new_empty(len(u), *h.shape)
        states = torch.empty_like(products)
        with single_thread:
            _forward_kernel(*as_arrays(W, arguments, h, products, states))
        return (h,), (arguments, products, states)

    @staticmethod
    def pull_back(weights, saved, carried, every, wanted):
        """Pull adjoints back over some steps, see `PullBack.pull_back`."""
        return run_pull_back(_backward_kernel, weights, saved, carried, every, wanted)
