r"""What the adjoint kernels of the LSTM and the GRU share on the CPU: slopes, norms, and the call.

The slopes of the activations are computed from the arguments and never round to zero:

.. math::
    \sigma'(a) = \sigma(a) \, \sigma(-a), \qquad \tanh'(a) = 4 \, \sigma(2 a) \, \sigma(-2 a)
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels._blas import single_thread
from longrnn.kernels._cpu import kernel, scalar
from longrnn.kernels._cpu_activations import sigmoid
from longrnn.kernels._pull_back import Carried

LEAST = 1e-250
"""Norm below which a unit vector may have lost digits since its last normalization, because
components may be denormal."""
STORED_BYTES = 2**27
"""Bytes that one stretch of steps may store."""
_TWO = np.float32(2)
_FOUR = np.float32(4)


@scalar
def sigmoid_slope(a):
    """Return the slope of the logistic function.

    Parameters
    ----------
    a : float
        The argument.

    Returns
    -------
    float
    """
    return sigmoid(a) * sigmoid(-a)


@scalar
def tanh_slope(a):
    """Return the slope of tanh.

    Parameters
    ----------
    a : float
        The argument.

    Returns
    -------
    float
    """
    return _FOUR * sigmoid(_TWO * a) * sigmoid(-_TWO * a)


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


class Norms(NamedTuple):
    """What a backward kernel needs to normalize adjoints and to write their norms."""

    log_norm: np.ndarray
    """log10 norms (batch,) of the adjoints."""
    every: int
    """Number of steps between two normalizations."""
    wanted: np.ndarray
    """Not zero at the steps (time,) before which norms are wanted."""
    lost: np.ndarray
    """Becomes 1 for a sequence whose norm fell below `LEAST` or is not finite."""
    readout: np.ndarray
    """Receives the log10 norms (time, batch) of the adjoint of h, before the wanted steps."""
    full: np.ndarray
    """The same for the full state."""


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
def _log10(norm):
    """Return log10 of a norm, minus infinity for a norm of zero."""
    if norm == 0.0:
        return -np.inf
    return np.log10(norm)


@kernel
def normalize_if_due(t, adjoint, norms):
    """Make the adjoints before a step unit vectors if `is_due`; write their norms if wanted.

    Parameters
    ----------
    t : int
        Index of the step.
    adjoint : (states, batch, hidden)
        The adjoints, that of h first.
    norms : Norms
        Its `log_norm` grows by the log10 of the norms.
    """
    if not is_due(t, norms.every, norms.wanted[t]):
        return
    log_norm = norms.log_norm
    for k in range(len(log_norm)):
        norm = _norm(adjoint, k)
        if log_norm[k] > -np.inf and not LEAST <= norm < np.inf:
            norms.lost[k] = 1
        log_norm[k] += _log10(norm)
        if norm > 0.0:
            for part in adjoint[:, k]:
                for j in range(len(part)):
                    part[j] /= norm
        if norms.wanted[t]:
            norms.readout[t, k] = log_norm[k] + _log10(_norm(adjoint[:1], k))
            norms.full[t, k] = log_norm[k]


def run_pull_back(
    run: Callable, weights: tuple, saved: tuple, carried: Carried, every: int, wanted: Tensor
) -> tuple[Tensor, Tensor]:
    """Run a backward kernel.

    Parameters
    ----------
    run : callable
        ``run(W, *saved, adjoint, norms)``, with `Norms`.
    weights, saved, carried, every, wanted
        As for `longrnn.kernels._pull_back.PullBack.pull_back`.

    Returns
    -------
    readout, full : (time, batch)
        log10 norms of the adjoints of h and of the full state, before the wanted steps.
    """
    shape = len(wanted), len(carried.log_norm)
    readout = carried.log_norm.new_zeros(shape)
    full = torch.zeros_like(readout)
    log_norm, is_wanted, lost = as_arrays(carried.log_norm, wanted, carried.lost)
    norms = Norms(log_norm, every, is_wanted, lost, readout.numpy(), full.numpy())
    with single_thread:
        run(*as_arrays(weights[0], *saved, carried.adjoint), norms)
    return readout, full


def as_arrays(*tensors: Tensor) -> list[np.ndarray]:
    """Return contiguous tensors as arrays of the same memory.

    Parameters
    ----------
    *tensors : Tensor
        Others than contiguous ones are copied.

    Returns
    -------
    list of array
    """
    return [part.detach().contiguous().numpy() for part in tensors]
