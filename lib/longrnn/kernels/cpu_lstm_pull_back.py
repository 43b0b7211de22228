r"""Adjoint states of the LSTM on one CPU core, beyond the range of floats.

Forward stores the arguments of all activations. The adjoint states are pulled back from there, by
the equations of `longrnn.kernels.cpu_dt_lstm` without a gradient that arrives at the outputs, and
with the slopes of `longrnn.kernels._cpu_pull_back`:

.. math::
    \lambda_{n-1} = W^\top \delta_n, \qquad
    \mu_{n-1} = f_n \odot (\mu_n + \lambda_n \odot o_n \odot \tanh'(c_n))

where :math:`\mu_n` is without the part that comes through :math:`h_n`, because h and c are two
parts of the state. Arrays are (time, batch, hidden), with the blocks of several gates side by side
in the last axis.

Stored: the arguments of i, f, g and o, and c after every step.
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
# are given by the arguments i, f, g and o of their activations.


@scalar
def next_c(i, f, g, c):
    """Return the cell after a step.

    Parameters
    ----------
    i, f, g : float
        The arguments of the input gate, the forget gate and the candidate.
    c : float
        The cell before the step.

    Returns
    -------
    float
    """
    return sigmoid(f) * c + sigmoid(i) * tanh(g)


@scalar
def next_h(o, c):
    """Return h after a step.

    Parameters
    ----------
    o : float
        The argument of the output gate.
    c : float
        The cell after the step.

    Returns
    -------
    float
    """
    return sigmoid(o) * tanh(c)


@scalar
def adjoint_c(o, c, lambda_, mu):
    """Return the adjoint of the cell after a step, with the part that comes through h.

    Parameters
    ----------
    o : float
        The argument of the output gate.
    c : float
        The cell after the step.
    lambda_ : float
        The adjoint of h after the step.
    mu : float
        The adjoint of the cell after the step, without the part that comes through h.

    Returns
    -------
    float
    """
    return mu + lambda_ * sigmoid(o) * tanh_slope(c)


@scalar
def grad_i(i, g, mu):
    """Return the gradient of the argument of the input gate.

    Parameters
    ----------
    i, g : float
        The arguments of the input gate and the candidate.
    mu : float
        The adjoint of the cell, from `adjoint_c`.

    Returns
    -------
    float
    """
    return mu * tanh(g) * sigmoid_slope(i)


@scalar
def grad_f(f, before, mu):
    """Return the gradient of the argument of the forget gate.

    Parameters
    ----------
    f : float
        The argument of the forget gate.
    before : float
        The cell before the step.
    mu : float
        The adjoint of the cell, from `adjoint_c`.

    Returns
    -------
    float
    """
    return mu * before * sigmoid_slope(f)


@scalar
def grad_g(i, g, mu):
    """Return the gradient of the argument of the candidate.

    Parameters
    ----------
    i, g : float
        The arguments of the input gate and the candidate.
    mu : float
        The adjoint of the cell, from `adjoint_c`.

    Returns
    -------
    float
    """
    return mu * sigmoid(i) * tanh_slope(g)


@scalar
def grad_o(o, c, lambda_):
    """Return the gradient of the argument of the output gate.

    Parameters
    ----------
    o : float
        The argument of the output gate.
    c : float
        The cell after the step.
    lambda_ : float
        The adjoint of h after the step.

    Returns
    -------
    float
    """
    return lambda_ * tanh(c) * sigmoid_slope(o)


@scalar
def _blocks(row, d):
    """Return the parts i f g o of a row of 4 d numbers."""
    return row[:d], row[d : 2 * d], row[2 * d : 3 * d], row[3 * d :]


@kernel
def _forward_kernel(W, arguments, h, c, cells):
    """Run some steps.

    `arguments` (time, batch, 4 hidden), in the order i f g o, holds the drive and receives the
    arguments of the activations. `cells` (time, batch, hidden) receives c after every step. `h` and
    `c` are the state before the first step and become that after the last.
    """
    batch, d = h.shape
    product = np.empty((batch, 4 * d), W.dtype)
    for t in range(len(arguments)):
        np.dot(h, W.T, product)
        for k in range(batch):
            arguments_t = arguments[t, k]
            added = product[k]
            for j in range(4 * d):
                arguments_t[j] += added[j]
            i, f, g, o = _blocks(arguments_t, d)
            h_k = h[k]
            c_k = c[k]
            kept = cells[t, k]
            for j in range(d):
                c_k[j] = next_c(i[j], f[j], g[j], c_k[j])
            for j in range(d):
                kept[j] = c_k[j]
            for j in range(d):
                h_k[j] = next_h(o[j], c_k[j])


@kernel
def _backward_kernel(W, arguments, c0, cells, adjoint, norms):
    """Pull the adjoints of h and c back over all steps.

    `adjoint` (2, batch, hidden) has those after the last step and becomes those before the first.
    `norms` is `longrnn.kernels._cpu_pull_back.Norms`.
    """
    _, batch, d = adjoint.shape
    delta = np.empty((batch, 4 * d), W.dtype)
    for t in range(len(arguments) - 1, -1, -1):
        before = c0
        if t > 0:
            before = cells[t - 1]
        for k in range(batch):
            i, f, g, o = _blocks(arguments[t, k], d)
            d_i, d_f, d_g, d_o = _blocks(delta[k], d)
            c = cells[t, k]
            c_before = before[k]
            lambda_ = adjoint[0, k]
            mu = adjoint[1, k]
            for j in range(d):
                mu[j] = adjoint_c(o[j], c[j], lambda_[j], mu[j])
            for j in range(d):
                d_i[j] = grad_i(i[j], g[j], mu[j])
            for j in range(d):
                d_f[j] = grad_f(f[j], c_before[j], mu[j])
            for j in range(d):
                d_g[j] = grad_g(i[j], g[j], mu[j])
            for j in range(d):
                d_o[j] = grad_o(o[j], c[j], lambda_[j])
            for j in range(d):
                mu[j] = gated(f[j], mu[j])
        np.dot(delta, W, adjoint[0])
        normalize_if_due(t, adjoint, norms)


@engine("lstm/pull_back", "chrono_lstm/pull_back")
class LSTM(PullBack):
    """The LSTM's steps and their adjoints."""

    vectors = 5
    stored_bytes = STORED_BYTES

    @staticmethod
    def forward(weights, state, u):
        """Run some steps, see `PullBack.forward`."""
        W, R, b = weights
        arguments = drive(u, R, b)
        h, c = (part.clone(memory_format=torch.contiguous_format) for part in state)
        cells = c.new_empty(len(u), *c.shape)
        with single_thread:
            _forward_kernel(*as_arrays(W, arguments, h, c, cells))
        return (h, c), (arguments, state[1].contiguous(), cells)

    @staticmethod
    def pull_back(weights, saved, carried, every, wanted):
        """Pull adjoints back over some steps, see `PullBack.pull_back`."""
        return run_pull_back(_backward_kernel, weights, saved, carried, every, wanted)
