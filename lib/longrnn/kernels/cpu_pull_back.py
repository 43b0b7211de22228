r"""Adjoint states of the LSTM and the GRU on one CPU core, beyond the range of floats.

For `longrnn.probes.adjoint`. Forward stores the arguments of all activations. The adjoint states
are pulled back from there, as in `longrnn.kernels.cpu_dt_lstm` and `longrnn.kernels.cpu_gru`, with
slopes that are computed from the arguments and never round to zero:

.. math::
    \sigma'(a) = \sigma(a) \, \sigma(-a), \qquad \tanh'(a) = 4 \, \sigma(2 a) \, \sigma(-2 a)

What is pulled back is a unit vector per sequence. Every few steps it is normalized again, and the
log10 of its norm is added to that of the sequence.
"""

import math

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels._blas import single_thread
from longrnn.kernels._cpu import engine, kernel, scalar, sigmoid, tanh
from longrnn.kernels._drive import drive

LEAST = 1e-250
"""Norm below which a pulled-back unit vector may have lost digits: components may be denormal."""
TWO = np.float32(2)
FOUR = np.float32(4)


# One scalar function for each result: the compiler vectorizes loops with one result each.


@scalar
def lstm_cell(i, f, g, c):
    """Return the next c from the arguments of the gates and the c before."""
    return sigmoid(f) * c + sigmoid(i) * tanh(g)


@scalar
def lstm_output(o, c):
    """Return the next h from the next c."""
    return sigmoid(o) * tanh(c)


@scalar
def lstm_mu(o, c, lambda_, mu):
    """Return the adjoint of c with what comes through h; `lambda_` and `mu` are those after."""
    return mu + lambda_ * sigmoid(o) * (FOUR * sigmoid(TWO * c) * sigmoid(-TWO * c))


@scalar
def lstm_grad_i(i, g, mu):
    """Return the gradient of the input gate's argument."""
    return mu * tanh(g) * (sigmoid(i) * sigmoid(-i))


@scalar
def lstm_grad_f(f, before, mu):
    """Return the gradient of the forget gate's argument; `before` is the c before."""
    return mu * before * (sigmoid(f) * sigmoid(-f))


@scalar
def lstm_grad_g(i, g, mu):
    """Return the gradient of the candidate's argument."""
    return mu * sigmoid(i) * (FOUR * sigmoid(TWO * g) * sigmoid(-TWO * g))


@scalar
def lstm_grad_o(o, c, lambda_):
    """Return the gradient of the output gate's argument."""
    return lambda_ * tanh(c) * (sigmoid(o) * sigmoid(-o))


@scalar
def gru_n(r, product, g_n):
    """Return the argument of n; `r` is that of its gate, `product` the state's part of n."""
    return sigmoid(r) * product + g_n


@scalar
def gru_output(z, n, h):
    """Return the next h from the arguments of z and n and the h before."""
    return sigmoid(-z) * tanh(n) + sigmoid(z) * h


@scalar
def gru_grad_n(z, n, lambda_):
    """Return the gradient of n's argument; `lambda_` is the adjoint of h after the step."""
    return lambda_ * sigmoid(-z) * (FOUR * sigmoid(TWO * n) * sigmoid(-TWO * n))


@scalar
def gru_grad_r(r, product, d_n):
    """Return the gradient of r's argument from that of n's."""
    return d_n * product * (sigmoid(r) * sigmoid(-r))


@scalar
def gru_grad_z(z, n, before, lambda_):
    """Return the gradient of z's argument; `before` is the h before."""
    return lambda_ * (before - tanh(n)) * (sigmoid(z) * sigmoid(-z))


@scalar
def gated(gate, value):
    """Multiply a value by a gate.

    Parameters
    ----------
    gate : float
        The argument of the gate's logistic function.
    value : float
        The value.

    Returns
    -------
    float
        The product.
    """
    return value * sigmoid(gate)


@scalar
def is_due(t, every, wanted):
    """Return whether the adjoint is normalized before a step.

    Parameters
    ----------
    t : int
        Index of the step.
    every : int
        Number of steps between normalizations.
    wanted : float
        Not zero if the norm before this step is wanted.

    Returns
    -------
    bool
    """
    return t % every == 0 or wanted != 0


@kernel
def _norm(parts, index):
    """Return the norm of a sequence's vectors; scaled so that no square underflows."""
    largest = 0.0
    for k in range(len(parts)):
        for value in parts[k, index]:
            if abs(value) > largest:
                largest = abs(value)
            elif value != value:
                return value
    if largest == 0.0 or largest == np.inf:
        return largest
    total = 0.0
    for k in range(len(parts)):
        for value in parts[k, index]:
            total += (value / largest) ** 2
    return largest * math.sqrt(total)


@kernel
def _normalize(adjoint, readout, log_norm, lost, least):
    """Make the adjoints of all sequences unit vectors; return the norms of the readout.

    `adjoint` is (states, batch, hidden). The log10 of a norm is added to `log_norm`. `lost` is set
    for a sequence whose norm fell below `least` or is not finite.
    """
    norms = np.empty(len(log_norm))
    for k in range(len(log_norm)):
        norm = _norm(adjoint, k)
        if log_norm[k] > -np.inf and not least <= norm < np.inf:
            lost[k] = 1
        log_norm[k] += np.log10(norm) if norm != 0.0 else -np.inf
        if norm > 0.0:
            for part in adjoint[:, k]:
                for j in range(len(part)):
                    part[j] /= norm
        norms[k] = _norm(adjoint[readout : readout + 1], k)
    return norms


@kernel
def _record(norms, log_norm, readout, full):
    """Write the norms at one time."""
    for k in range(len(norms)):
        readout[k] = log_norm[k] + (np.log10(norms[k]) if norms[k] != 0.0 else -np.inf)
        full[k] = log_norm[k]


@kernel
def _lstm_forward(W, arguments, h, c, cells):
    """`arguments` (time, batch, 4 hidden), order i f g o, holds the drive and becomes theirs.

    `h` and `c` are the state before the first step and become that after the last.
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
            i = arguments_t[:d]
            f = arguments_t[d : 2 * d]
            g = arguments_t[2 * d : 3 * d]
            o = arguments_t[3 * d :]
            h_k = h[k]
            c_k = c[k]
            kept = cells[t, k]
            for j in range(d):
                c_k[j] = lstm_cell(i[j], f[j], g[j], c_k[j])
            for j in range(d):
                kept[j] = c_k[j]
            for j in range(d):
                h_k[j] = lstm_output(o[j], c_k[j])


@kernel
def _lstm_backward(
    W, arguments, c0, cells, adjoint, log_norm, every, wanted, least, lost, readout, full
):  # fmt: skip
    """`adjoint` (2, batch, hidden) is that after the last step and becomes that before the first.

    Where `wanted`, `readout` and `full` (time, batch) receive the norms before a step.
    """
    _, batch, d = adjoint.shape
    delta = np.empty((batch, 4 * d), W.dtype)
    for t in range(len(arguments) - 1, -1, -1):
        before = c0 if t == 0 else cells[t - 1]
        for k in range(batch):
            arguments_t = arguments[t, k]
            c = cells[t, k]
            c_before = before[k]
            i = arguments_t[:d]
            f = arguments_t[d : 2 * d]
            g = arguments_t[2 * d : 3 * d]
            o = arguments_t[3 * d :]
            delta_t = delta[k]
            lambda_ = adjoint[0, k]
            mu = adjoint[1, k]
            d_i = delta_t[:d]
            d_f = delta_t[d : 2 * d]
            d_g = delta_t[2 * d : 3 * d]
            d_o = delta_t[3 * d :]
            for j in range(d):
                mu[j] = lstm_mu(o[j], c[j], lambda_[j], mu[j])
            for j in range(d):
                d_i[j] = lstm_grad_i(i[j], g[j], mu[j])
            for j in range(d):
                d_f[j] = lstm_grad_f(f[j], c_before[j], mu[j])
            for j in range(d):
                d_g[j] = lstm_grad_g(i[j], g[j], mu[j])
            for j in range(d):
                d_o[j] = lstm_grad_o(o[j], c[j], lambda_[j])
            for j in range(d):
                mu[j] = gated(f[j], mu[j])
        np.dot(delta, W, adjoint[0])
        if is_due(t, every, wanted[t]):
            norms = _normalize(adjoint, 0, log_norm, lost, least)
            if wanted[t]:
                _record(norms, log_norm, readout[t], full[t])


@kernel
def _gru_forward(W, arguments, h, products, states):
    """`arguments` (time, batch, 3 hidden), order r z n, holds the drive and becomes theirs.

    `products` and `states` (time, batch, hidden) receive the state's part of n and the h before.
    `h` is the state before the first step and becomes that after the last.
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
            r = arguments_t[:d]
            z = arguments_t[d : 2 * d]
            n = arguments_t[2 * d :]
            for j in range(2 * d):
                arguments_t[j] += added[j]
            for j in range(d):
                of_n[j] = added[2 * d + j]
                before[j] = h_k[j]
            for j in range(d):
                n[j] = gru_n(r[j], of_n[j], n[j])
            for j in range(d):
                h_k[j] = gru_output(z[j], n[j], h_k[j])


@kernel
def _gru_backward(
    W, arguments, products, states, adjoint, log_norm, every, wanted, least, lost, readout, full
):  # fmt: skip
    """As `_lstm_backward`; `adjoint` is (1, batch, hidden)."""
    _, batch, d = adjoint.shape
    delta = np.empty((batch, 3 * d), W.dtype)
    direct = np.empty((batch, d), W.dtype)
    for t in range(len(arguments) - 1, -1, -1):
        for k in range(batch):
            arguments_t = arguments[t, k]
            delta_t = delta[k]
            product = products[t, k]
            before = states[t, k]
            r = arguments_t[:d]
            z = arguments_t[d : 2 * d]
            n = arguments_t[2 * d :]
            d_r = delta_t[:d]
            d_z = delta_t[d : 2 * d]
            d_n = delta_t[2 * d :]
            lambda_ = adjoint[0, k]
            through = direct[k]
            for j in range(d):
                d_n[j] = gru_grad_n(z[j], n[j], lambda_[j])
            for j in range(d):
                d_r[j] = gru_grad_r(r[j], product[j], d_n[j])
            for j in range(d):
                d_n[j] = gated(r[j], d_n[j])
            for j in range(d):
                d_z[j] = gru_grad_z(z[j], n[j], before[j], lambda_[j])
            for j in range(d):
                through[j] = gated(z[j], lambda_[j])
        np.dot(delta, W, adjoint[0])
        adjoint[0] += direct
        if is_due(t, every, wanted[t]):
            norms = _normalize(adjoint, 0, log_norm, lost, least)
            if wanted[t]:
                _record(norms, log_norm, readout[t], full[t])


class Carried:
    """The adjoints of a batch at one time: unit vectors, log10 norms, and what was lost.

    Attributes
    ----------
    adjoint : (states, batch, hidden)
        Adjoints divided by their norms.
    log_norm : (batch,)
        log10 of these norms.
    lost : (batch,)
        Not zero for a sequence whose adjoint left the range of floats between two normalizations.
    """

    def __init__(self, adjoint: tuple[Tensor, ...], log_norm: Tensor) -> None:
        self.adjoint = torch.stack(adjoint)
        self.log_norm = log_norm.clone()
        self.lost = torch.zeros_like(self.log_norm)


@engine("lstm/pull_back", "chrono_lstm/pull_back")
class LSTM:
    """The LSTM's steps and their adjoints, see `longrnn.probes.adjoint`."""

    vectors = 5
    """Vectors of the hidden size that are stored per step and sequence."""
    stored_bytes = 2**27
    """Bytes that one stretch of steps may store."""

    @staticmethod
    def forward(weights, state, u):
        """Run some steps.

        Parameters
        ----------
        weights : tuple
            W, R and b; see `longrnn.cells.lstm.LSTMCore.step`.
        state : tuple of (batch, d)
            The state before the first step.
        u : (time, batch, p)
            The inputs of the steps.

        Returns
        -------
        state : tuple of (batch, d)
            The state after the last step.
        saved : tuple of Tensor
            What `pull_back` needs.
        """
        W, R, b = weights
        arguments = drive(u, R, b)
        h, c = (part.clone(memory_format=torch.contiguous_format) for part in state)
        cells = torch.empty(len(u), *c.shape, dtype=c.dtype)
        with single_thread:
            _lstm_forward(*_arrays(W, arguments, h, c, cells))
        return (h, c), (arguments, state[1].contiguous(), cells)

    @staticmethod
    def pull_back(weights, saved, carried, every, wanted):
        """Pull adjoints back over some steps.

        Parameters
        ----------
        weights : tuple
            As for `forward`.
        saved : tuple of Tensor
            From `forward`.
        carried : Carried
            The adjoints after the last step; they become those before the first.
        every : int
            Number of steps between two normalizations.
        wanted : (time,)
            Not zero at the steps before which norms are wanted.

        Returns
        -------
        readout, full : (time, batch)
            log10 norms of the adjoints of h and of the full state, before the wanted steps.
        """
        return _pull_back(_lstm_backward, weights, saved, carried, every, wanted)


@engine("gru/pull_back")
class GRU:
    """The GRU's steps and their adjoints, as `LSTM`."""

    vectors = 5
    stored_bytes = LSTM.stored_bytes

    @staticmethod
    def forward(weights, state, u):
        """Run some steps.

        Parameters
        ----------
        weights : tuple
            W, R and b; see `longrnn.cells.gru.GRUCore.step`.
        state : tuple of (batch, d)
            The state before the first step.
        u : (time, batch, p)
            The inputs of the steps.

        Returns
        -------
        state : tuple of (batch, d)
            The state after the last step.
        saved : tuple of Tensor
            What `pull_back` needs.
        """
        W, R, b = weights
        arguments = drive(u, R, b)
        h = state[0].clone(memory_format=torch.contiguous_format)
        products = torch.empty(len(u), *h.shape, dtype=h.dtype)
        states = torch.empty_like(products)
        with single_thread:
            _gru_forward(*_arrays(W, arguments, h, products, states))
        return (h,), (arguments, products, states)

    @staticmethod
    def pull_back(weights, saved, carried, every, wanted):
        """Pull adjoints back over some steps.

        Parameters
        ----------
        weights : tuple
            As for `forward`.
        saved : tuple of Tensor
            From `forward`.
        carried : Carried
            The adjoints after the last step; they become those before the first.
        every : int
            Number of steps between two normalizations.
        wanted : (time,)
            Not zero at the steps before which norms are wanted.

        Returns
        -------
        readout, full : (time, batch)
            log10 norms of the adjoints of h and of the full state, before the wanted steps.
        """
        return _pull_back(_gru_backward, weights, saved, carried, every, wanted)


def _pull_back(run, weights, saved, carried, every, wanted):
    """Run a backward kernel."""
    shape = len(wanted), len(carried.log_norm)
    readout = torch.zeros(shape, dtype=torch.float64)
    full = torch.zeros(shape, dtype=torch.float64)
    adjoint, log_norm, lost = _arrays(carried.adjoint, carried.log_norm, carried.lost)
    stored = _arrays(weights[0], *saved)
    norms = _arrays(wanted, readout, full)
    with single_thread:
        run(*stored, adjoint, log_norm, every, norms[0], LEAST, lost, *norms[1:])
    return readout, full


def _arrays(*tensors: Tensor) -> list[np.ndarray]:
    """Return tensors as arrays of the same memory."""
    return [part.detach().contiguous().numpy() for part in tensors]
