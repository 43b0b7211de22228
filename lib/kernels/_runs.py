"""Many networks of one shape as one: their weights stacked along a leading axis, `run`."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def stack_runs(networks: Sequence[tuple]) -> tuple:
    """Return the weights of several networks as one, for an engine that takes a leading `run` axis.

    Parameters
    ----------
    networks
        What `Cell.weights` returns, for cells of one architecture and one shape.

    Returns
    -------
    tuple
        The same structure: tensors stacked to (run, ...), numbers that differ as a tensor (run,) like the first weights, all else once.

    Raises
    ------
    ValueError
        There is no network, their tensors differ in shape, or something differs that is no number.
    """
    if not networks:
        raise ValueError("expected at least one network to stack, got none")
    return _merge(networks, like=tensors_of(networks[0])[0])


def map_tensors(change: Callable[[Tensor], Tensor], structure):
    """Return nested tuples with every tensor changed and everything else as it is."""
    if isinstance(structure, Tensor):
        return change(structure)
    if isinstance(structure, tuple):
        return _like(structure, (map_tensors(change, part) for part in structure))
    return structure


def tensors_of(structure) -> list[Tensor]:
    """Return every tensor in nested tuples."""
    found = []
    map_tensors(lambda tensor: found.append(tensor) or tensor, structure)
    return found


def _merge(parts: Sequence, like: Tensor):
    first = parts[0]
    if isinstance(first, Tensor):
        if len({part.shape for part in parts}) > 1:
            shapes = ", ".join(str(tuple(part.shape)) for part in parts)
            raise ValueError(f"expected networks of one shape, got weights of {shapes}")
        return torch.stack(tuple(parts))
    if isinstance(first, tuple):
        if len({len(part) for part in parts}) > 1:
            raise ValueError("expected networks with equally many layers")
        return _like(first, (_merge(column, like) for column in zip(*parts, strict=True)))
    if all(part == first for part in parts):
        return first
    if all(isinstance(part, int | float) for part in parts):
        return torch.tensor(parts, dtype=like.dtype, device=like.device)
    raise ValueError(f"expected networks that differ in numbers alone, got {list(parts)}")


def _like(structure: tuple, parts) -> tuple:
    make = getattr(structure, "_make", tuple)  # named tuples keep their names
    return make(parts)
