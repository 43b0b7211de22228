"""Batching rules: `torch.func.vmap` over data makes a larger batch, over weights several runs."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from longrnn.kernels._drive import Sources

RUNS = -1
"""Stands for the axis of the runs, the first one of tensors that the sequences of a run share."""
SOURCE_AXES = Sources(below=1, skipped=1)
"""The axis of the batch in each of `Sources`, if all sequences share the weights."""
SOURCE_AXES_OF_RUNS = Sources(below=1, V=RUNS, b=RUNS, skipped=1, skip=RUNS)
"""The same if each run has its own weights."""


def _is_mapped(value: Any, dim: Any) -> bool:
    return isinstance(value, Tensor) and dim is not None


def is_foldable(arguments: Sequence, in_dims: Sequence, axes: Sequence[int | None]) -> bool:
    """Return whether the mapped axis of all arguments can become part of another axis.

    Parameters
    ----------
    arguments
        Arguments of an operator.
    in_dims
        The mapped axis of each argument; None if it is not mapped.
    axes
        The axis of each argument that the mapped axis can join; None if there is none.

    Returns
    -------
    bool
    """
    triples = zip(arguments, in_dims, axes, strict=True)
    return not any(_is_mapped(value, dim) and axis is None for value, dim, axis in triples)


def fold(arguments: Sequence, in_dims: Sequence, axes: Sequence[int | None], size: int) -> list:
    """Make the mapped axis of each argument part of another axis.

    Parameters
    ----------
    arguments, in_dims, axes
        As for `is_foldable`.
    size
        Length of the mapped axis.

    Returns
    -------
    list
        The arguments without a mapped axis. Tensors that are not mapped are repeated, if they have
        an axis to join.
    """
    folded = []
    for value, dim, axis in zip(arguments, in_dims, axes, strict=True):
        if isinstance(value, Tensor) and axis is not None:
            if dim is None:
                value = value.expand(size, *value.shape)
                dim = 0
            if axis == RUNS:
                value = value.movedim(dim, 0)
            else:
                value = value.movedim(dim, axis).flatten(axis, axis + 1)
        folded.append(value)
    return folded


def unfold(values: Sequence[Tensor], axes: Sequence[int | None], size: int) -> tuple[Tensor, ...]:
    """Split the mapped axis from the axes that it joined, the inverse of `fold`.

    Parameters
    ----------
    values
        Results of an operator.
    axes
        The axis of each result that contains the mapped axis; None if there is none.
    size
        Length of the mapped axis.

    Returns
    -------
    tuple of Tensor
        The mapped axis is in front of the axis that it had joined.
    """
    results = []
    for value, axis in zip(values, axes, strict=True):
        if axis is not None and axis != RUNS:
            value = value.unflatten(axis, (size, value.shape[axis] // size))
        results.append(value)
    return tuple(results)


def run_one_by_one(
    operator: Callable, size: int, in_dims: Sequence, arguments: Sequence
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Call an operator for each index along the mapped axis.

    Parameters
    ----------
    operator
        The operator.
    size
        Length of the mapped axis.
    in_dims, arguments
        As for `is_foldable`.

    Returns
    -------
    results : tuple of Tensor
        The results, with the mapped axis in front.
    out_dims : tuple of int
        The mapped axis of each result, 0.
    """
    calls = []
    for k in range(size):
        selected = []
        for value, dim in zip(arguments, in_dims, strict=True):
            if _is_mapped(value, dim):
                value = value.select(dim, k)
            selected.append(value)
        calls.append(operator(*selected))
    stacked = tuple(torch.stack(parts) for parts in zip(*calls, strict=True))
    return stacked, (0,) * len(stacked)
