"""The table of data sets (`table.toml`), the readers that its rows name, and what these share."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from study.tasks.permutations import torch_permutation
from study.tasks.prepared import Arrays

_TABLE = tomllib.loads(Path(__file__).with_name("table.toml").read_text("utf-8"))
SETS: dict[str, dict] = _TABLE["sets"]
ORIGINS: dict[str, dict] = _TABLE["origins"]
SEED = 123_456
"""The generator's seed in LEM's program, which splits at random."""
READERS: dict[str, Callable[..., dict[str, Any]]] = {}


def reader(read: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Register a function under its name: ``(**settings) -> what a set's row leaves open``.

    It returns keywords of `study.tasks.prepared.prepared_dataset`: the parts ``train``, ``test``
    and maybe ``validation``, and whatever follows from the data.

    Parameters
    ----------
    read
        The function that reads a data set.

    Returns
    -------
    callable
        The same function.
    """
    READERS[read.__name__] = read
    return read


def parted(inputs: np.ndarray, targets: np.ndarray, **parts: np.ndarray) -> dict[str, Arrays]:
    """Return inputs and targets of each part, by its indices or a mask.

    Parameters
    ----------
    inputs
        Inputs of all sequences.
    targets
        Their targets.
    **parts
        Indices or a mask for each part.

    Returns
    -------
    dict
        Inputs and targets by name of the part.
    """
    return {name: (inputs[part], targets[part]) for name, part in parts.items()}


def standardised(parts: dict[str, Arrays], axis: int | tuple[int, ...]) -> dict[str, Arrays]:
    """Return all parts with mean 0 and deviation 1 over the training part.

    Parameters
    ----------
    parts
        Inputs and targets of each part.
    axis
        Axes of the inputs over which mean and deviation are computed.

    Returns
    -------
    dict
        The parts. Inputs that never change in the training part are only centered.
    """
    train, _ = parts["train"]
    mean, deviation = train.mean(axis), train.std(axis)
    deviation[deviation < 1e-6] = 1
    return {
        name: ((inputs - mean) / deviation, targets) for name, (inputs, targets) in parts.items()
    }


def split_at_random(size: int) -> dict[str, np.ndarray]:
    """Return the indices of each part as LEM's program draws them: 70, 15 and 15 per cent.

    Parameters
    ----------
    size
        Number of sequences.

    Returns
    -------
    dict
        Indices by part.

    Examples
    --------
    >>> [len(part) for part in split_at_random(7949).values()]
    [5565, 1192, 1192]

    """
    order = torch_permutation(size, SEED)
    few = round(0.15 * size)
    train, rest = order[: size - 2 * few], order[size - 2 * few :]
    rest = rest[torch_permutation(len(rest), SEED)]
    return {"train": train, "validation": rest[few:], "test": rest[:few]}


def split_by(groups: np.ndarray) -> dict[str, np.ndarray]:
    """Return masks of parts that share no group, such as a patient or a speaker.

    Parameters
    ----------
    groups
        Group of each sequence, shape (n,).

    Returns
    -------
    dict
        A mask by part, with 70, 15 and 15 per cent of the groups.

    """
    names = np.unique(groups)
    parts = split_at_random(len(names))
    return {part: np.isin(groups, names[indices]) for part, indices in parts.items()}
