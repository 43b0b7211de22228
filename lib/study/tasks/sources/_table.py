"""The table of data sets (`table.toml`), and what the readers that its rows name have in common."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from study.tasks.permutations import torch_permutation
from study.tasks.prepared import RawSplit

_TABLE = tomllib.loads(Path(__file__).with_name("table.toml").read_text("utf-8"))
SETS: dict[str, dict] = _TABLE["sets"]
"""The row of each data set, by its name."""
ORIGINS: dict[str, dict] = _TABLE["origins"]
"""The publishers' addresses, file names and checksums, by the name of the origin."""
SEED = 123_456
"""The random generator's seed in LEM's program, which splits at random."""
Reader = Callable[..., dict[str, Any]]
"""Returns keywords of `study.tasks.prepared.prepared_dataset`."""
READERS: dict[str, Reader] = {}
"""The registered readers by name."""


def reader(read: Reader) -> Reader:
    """Register a function that reads a data set, under its own name.

    Parameters
    ----------
    read : callable
        Called with the settings in the data set's row. It returns the keywords of
        `study.tasks.prepared.prepared_dataset` that the row doesn't give: the splits ``train``,
        ``test`` and maybe ``validation``, and whatever depends on the data.

    Returns
    -------
    callable
        The same function.
    """
    READERS[read.__name__] = read
    return read


def select_splits(
    inputs: np.ndarray, targets: np.ndarray, **indices: np.ndarray
) -> dict[str, RawSplit]:
    """Divide sequences into splits.

    Parameters
    ----------
    inputs : numpy.ndarray
        Inputs of all sequences, (n, ...).
    targets : numpy.ndarray
        Their targets, (n, ...).
    **indices : numpy.ndarray
        Indices or a mask by name of the split.

    Returns
    -------
    dict of str to RawSplit
    """
    return {name: RawSplit(inputs[chosen], targets[chosen]) for name, chosen in indices.items()}


def standardize_splits(
    splits: dict[str, RawSplit], axis: int | tuple[int, ...]
) -> dict[str, RawSplit]:
    """Standardize all splits to mean 0 and standard deviation 1 over the training split.

    Parameters
    ----------
    splits : dict of str to RawSplit
    axis : int or tuple of int
        Axes of the inputs over which mean and standard deviation are computed.

    Returns
    -------
    dict of str to RawSplit
        Inputs that are constant in the training split are only centered.
    """
    train_inputs, _ = splits["train"]
    mean = train_inputs.mean(axis)
    deviation = train_inputs.std(axis)
    deviation[deviation < 1e-6] = 1
    standardized = {}
    for name, (inputs, targets) in splits.items():
        standardized[name] = RawSplit((inputs - mean) / deviation, targets)
    return standardized


def split_at_random(size: int) -> dict[str, np.ndarray]:
    """Draw the indices of 70, 15 and 15 percent of the sequences, as LEM's program does.

    Parameters
    ----------
    size : int
        Number of sequences.

    Returns
    -------
    dict of str to numpy.ndarray
        Indices of ``train``, ``validation`` and ``test``.

    Examples
    --------
    >>> [len(indices) for indices in split_at_random(7949).values()]
    [5565, 1192, 1192]
    """
    order = torch_permutation(size, SEED)
    test_size = round(0.15 * size)
    train = order[: size - 2 * test_size]
    rest = order[size - 2 * test_size :]
    rest = rest[torch_permutation(len(rest), SEED)]
    return {"train": train, "validation": rest[test_size:], "test": rest[:test_size]}


def split_by_group(groups: np.ndarray) -> dict[str, np.ndarray]:
    """Divide sequences so that no group, such as a patient or a speaker, is in two splits.

    Parameters
    ----------
    groups : numpy.ndarray
        Group of each sequence, (n,).

    Returns
    -------
    dict of str to numpy.ndarray
        Masks (n,) of ``train``, ``validation`` and ``test``, with 70, 15 and 15 percent of the
        groups.
    """
    names = np.unique(groups)
    masks = {}
    for split, indices in split_at_random(len(names)).items():
        masks[split] = np.isin(groups, names[indices])
    return masks
