"""Batching rules of a `Recurrence`: how its loop and its adjoint run under `torch.func.vmap`.

Mapped data become a larger batch. Each index along the mapped axis is a run if something that the
sequences share is mapped, such as the weights, or if its gradient is wanted for each index. The
sequences of a run follow one another, so no outer map can join their axis as well: if an inner map
has made runs, an outer one goes through its indices one by one.
"""

from collections.abc import Sequence
from typing import Any

from longrnn.kernels._folding import (
    RUNS,
    SOURCE_AXES,
    SOURCE_AXES_OF_RUNS,
    fold,
    is_foldable,
    run_one_by_one,
    unfold,
)
from longrnn.kernels._schema import SOURCES

_SOURCE_DIMENSIONS = {"source_V": 2, "source_b": 1, "source_skip": 2}
"""Number of axes of the shared tensors of `longrnn.kernels._drive.Sources`, for one run."""


def run_mapped(recurrence: Any, info: Any, in_dims: tuple, *arguments: Any) -> tuple:
    """Run the loop of a recurrence under `torch.vmap`.

    Parameters
    ----------
    recurrence : Recurrence
        The recurrence.
    info
        PyTorch's description of the map, with its `batch_size`.
    in_dims
        The mapped axis of each argument; None if it is not mapped.
    *arguments
        Arguments of `Recurrence.run`.

    Returns
    -------
    results : tuple of Tensor
        As from `Recurrence.run`, each with a mapped axis.
    out_dims : tuple
        These axes.
    """
    of_inputs = [part.axis for part in recurrence.inputs]
    names = [part.name for part in recurrence.inputs]
    axes = _fold_axes(recurrence, arguments, in_dims, of_inputs, shared_gradients=False)
    if axes is None or _has_runs(recurrence, arguments, in_dims, names):
        return run_one_by_one(recurrence.call, info.batch_size, in_dims, arguments)
    results = recurrence.call(*fold(arguments, in_dims, axes, info.batch_size))
    others = len(results) - 1 - recurrence.final
    result_axes = [1, *[0] * recurrence.final, *[1] * others]
    return unfold(results, result_axes, info.batch_size), tuple(result_axes)


def run_adjoint_mapped(recurrence: Any, info: Any, in_dims: tuple, *arguments: Any) -> tuple:
    """Run the adjoint of a recurrence under `torch.vmap`.

    Parameters
    ----------
    recurrence, info, in_dims
        As for `run_mapped`.
    *arguments
        Arguments of `longrnn.kernels._adjoint.run_adjoint`.

    Returns
    -------
    gradients : tuple of Tensor
        As from `longrnn.kernels._adjoint.run_adjoint`, each with a mapped axis.
    out_dims : tuple
        These axes; None for a gradient that is not wanted.
    """
    wanted = arguments[-1]
    pairs = list(zip(recurrence.inputs, wanted, strict=True))
    # A gradient of what all sequences share is a sum over the sequences of a run.
    shared = any(is_wanted and part.axis is None for part, is_wanted in pairs)
    of_tensors = _axes_of_adjoint(recurrence)
    tensors = arguments[:-2], in_dims[:-2]
    axes = _fold_axes(recurrence, *tensors, of_tensors, shared_gradients=shared)
    if axes is None or _has_runs(recurrence, *tensors, recurrence.saved):
        return run_one_by_one(recurrence.call_adjoint, info.batch_size, in_dims, arguments)
    axes += [None, None]  # the number of steps, and what is wanted
    gradients = recurrence.call_adjoint(*fold(arguments, in_dims, axes, info.batch_size))
    gradient_axes = []
    out_dims = []
    for part, is_wanted in pairs:
        axis = part.axis
        out_dim = part.axis
        if not is_wanted:
            axis = None
            out_dim = None
        elif part.axis is None:
            axis = RUNS
            out_dim = 0
        gradient_axes.append(axis)
        out_dims.append(out_dim)
    return unfold(gradients, gradient_axes, info.batch_size), tuple(out_dims)


def _axes_of_adjoint(recurrence: Any) -> list[int | None]:
    """Return the axis of the batch in saved tensors and in gradients that arrive."""
    final = recurrence.final
    axes_by_name = {part.name: part.axis for part in recurrence.inputs}
    axes_by_name |= dict.fromkeys(recurrence.results, 1)
    axes_by_name |= dict.fromkeys(recurrence.results[1 : 1 + final], 0)
    return [*(axes_by_name[name] for name in recurrence.saved), 1, *[0] * final]


def _has_runs(
    recurrence: Any, arguments: Sequence, in_dims: Sequence, names: Sequence[str]
) -> bool:
    """Return whether what the sequences share has an axis of runs, which an inner map has made.

    `names` are those of the first tensors after the sources.
    """
    dimensions = {part.name: part.dimensions for part in recurrence.inputs if part.axis is None}
    dimensions |= _SOURCE_DIMENSIONS
    names = [*recurrence.settings, *SOURCES, *names]
    for name, value, dim in zip(names, arguments, in_dims, strict=False):
        if name in dimensions and value is not None:
            mapped = int(dim is not None)
            if value.dim() - mapped > dimensions[name]:
                return True
    return False


def _fold_axes(
    recurrence: Any,
    arguments: Sequence,
    in_dims: Sequence,
    of_tensors: Sequence[int | None],
    *,
    shared_gradients: bool,
) -> list[int | None] | None:
    """Return the axis of each argument that the mapped axis joins.

    The result is None if the loop must run once per index. `shared_gradients` says whether
    gradients of what the sequences share are wanted.
    """
    settings = [None] * len(recurrence.settings)
    axes = [*settings, *SOURCE_AXES, *of_tensors]
    if not shared_gradients and is_foldable(arguments, in_dims, axes):
        return axes
    if not recurrence.takes_networks:
        # PyTorch computes the drive, so its sources may differ between runs for any loop.
        axes = [*settings, *SOURCE_AXES_OF_RUNS, *of_tensors]
        if not shared_gradients and is_foldable(arguments, in_dims, axes):
            return axes
        return None
    axes_of_runs = []
    for axis in of_tensors:
        if axis is None:
            axis = RUNS
        axes_of_runs.append(axis)
    return [*settings, *SOURCE_AXES_OF_RUNS, *axes_of_runs]
