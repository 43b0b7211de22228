"""Helpers of loops that take several runs at once: batches, weights and numbers of each run.

The batches of all runs follow one another. What the sequences of a run share, such as its weights,
has the runs as its first axis.
"""

from typing import Any

import torch
from torch import Tensor


def batches_of_runs(runs: int, sequences: int) -> list[slice]:
    """Return where the batch of each run is among all sequences.

    Parameters
    ----------
    runs, sequences : int
        Number of runs, and of the sequences of all runs together.

    Returns
    -------
    list of slice
        One per run.
    """
    batch = sequences // runs
    return [slice(k * batch, (k + 1) * batch) for k in range(runs)]


def runs_of(W: Any) -> int:
    """Return the number of runs that weights belong to.

    Parameters
    ----------
    W : (rows, hidden) or (runs, rows, hidden)
        An array or a tensor.

    Returns
    -------
    int
    """
    if W.ndim == 2:
        return 1
    return len(W)


def with_run_axis(W: Any, value: Any) -> Any:
    """Return what the sequences of a run share, with an axis of runs in front.

    Parameters
    ----------
    W : (rows, hidden) or (runs, rows, hidden)
        Weights. Two axes mean that there is one run, and that `value` has no axis of runs.
    value : array or tensor
        What the sequences share.

    Returns
    -------
    array or tensor
        `value`, with an axis of length one if there is one run.
    """
    if W.ndim == 2:
        return value[None]
    return value


def sequences_by_run(sequences: Tensor, runs: int) -> Tensor:
    """Reorder the sequences of all runs, run by run.

    Parameters
    ----------
    sequences : (time, runs * batch, .., features)
        The sequences of all runs; there may be several vectors of features per time step.
    runs
        Number of runs.

    Returns
    -------
    (runs, time * batch * .., features)
    """
    return sequences.unflatten(1, (runs, -1)).movedim(1, 0).flatten(1, -2)


def sum_over_runs(W: Tensor, parts: Tensor) -> Tensor:
    """Return sums over the times and sequences of each run.

    Parameters
    ----------
    W : (rows, hidden) or (runs, rows, hidden)
        Weights. Two axes mean that there is one run.
    parts : (time, batch, features)
        The terms; the batches of several runs follow one another.

    Returns
    -------
    (features,) or (runs, features)
    """
    if W.dim() == 2:
        return parts.sum((0, 1))
    return parts.unflatten(1, (len(W), -1)).sum((0, 2))


def per_sequence(number: Tensor, x: Tensor) -> Tensor:
    """Return a number that multiplies the states of all runs.

    Parameters
    ----------
    number : () or (runs,)
        One number, or one for each run.
    x : (runs * batch, hidden)
        The states.

    Returns
    -------
    () or (runs * batch, 1)
        The number itself, or that of each sequence's run.
    """
    if number.dim() == 0:
        return number
    return number.repeat_interleave(len(x) // len(number))[:, None]


def broadcast_over_sequences(weights: Tensor, state: Tensor) -> Tensor:
    """Return weights per neuron in a shape that broadcasts over the sequences of all runs.

    Parameters
    ----------
    weights : (hidden,) or (runs, hidden)
        Weights of one run or of several.
    state : (batch, hidden)
        The state of all runs.

    Returns
    -------
    (hidden,) or (batch, hidden)
        The weights of one run, or of each sequence.
    """
    if weights.dim() == 1:
        return weights
    return weights.repeat_interleave(len(state) // len(weights), dim=0)


def per_chain(value: Tensor | float, like: Tensor) -> Tensor:
    """Return the number of every chain, from one number or from one per neuron.

    A kernel's inner loop then goes through all chains at once. Autograd sums the gradients over
    the sequences.

    Parameters
    ----------
    value : float, (), (hidden,) or (batch, hidden)
        The number, or the numbers of the neurons.
    like : (batch, hidden)
        Gives shape, type and device.

    Returns
    -------
    (batch, hidden)
        A contiguous tensor.
    """
    if not isinstance(value, Tensor):
        return torch.full_like(like, value)
    return value.expand_as(like).contiguous()


def scalars_like(like: Tensor, *values: float) -> Tensor:
    """Return numbers as one tensor, without a copy from the host, which a graph cannot capture.

    Parameters
    ----------
    like : Tensor
        Gives type and device.
    *values : float
        The numbers.

    Returns
    -------
    (numbers,)
    """
    return torch.stack([like.new_full((), value) for value in values])
