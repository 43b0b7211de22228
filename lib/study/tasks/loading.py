"""Read prepared data sets into memory, whole or some sequences in the classes' proportions."""

import hashlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from study.tasks.data import Split, Task
from study.tasks.prepared import SPLITS, load_file


def load_prepared(path: str | Path, train_size: int = 0, test_size: int = 0) -> Task:
    """Read a data set prepared by stage 00, or some of its sequences.

    Classes keep their proportions. The choice and its order depend on the data set's name and its
    targets alone, so that all runs see the same sequences. A prefix of them is again in proportion;
    files sorted by class would otherwise show a probe of the first few one class only. A validation
    part is kept whole, and the rows of a stream (``steps``) stay in their order.

    Parameters
    ----------
    path
        A file that `study.tasks.prepared.save_prepared` wrote.
    train_size, test_size
        Sequences to keep; 0 keeps all.

    Returns
    -------
    Task
        The data set.

    Raises
    ------
    ValueError
        The file is missing, unreadable or of another schema, or has fewer sequences.

    """
    path = Path(path)
    modified = path.stat().st_mtime_ns if path.exists() else 0
    return _load(path, modified, train_size, test_size)


def hold_out(data: Task, size: int) -> Task:
    """Return the task with its last training sequences as the validation split.

    A prepared data set's sequences come in an order that depends on its name alone, classes in
    their proportions, so the last ones are a sample like any other, and the same for all runs.

    Parameters
    ----------
    data
        A task.
    size
        Number of sequences; 0 changes nothing.

    Returns
    -------
    Task
        The task with a validation split.

    Raises
    ------
    ValueError
        The task has a validation split already, or too few sequences.

    """
    if not size:
        return data
    if data.validation is not None:
        raise ValueError(
            f"{data.name} has a validation split of its own; leave validation_size out"
        )
    kept = len(data.train) - size
    if not 0 < kept < len(data.train):
        raise ValueError(
            f"{data.name}: expected a validation split of 1 to {len(data.train) - 1} of the "
            f"{len(data.train)} training sequences, got {size}"
        )
    train = data.train.take(slice(kept))
    validation = data.train.take(slice(kept, None))
    return replace(data, train=train, validation=validation)


@lru_cache(maxsize=4)  # successive runs read the same data; nobody writes into it
def _load(path: Path, modified: int, train_size: int, test_size: int) -> Task:
    ds = load_file(path)
    name, kind, target = (ds.attrs[key] for key in ("dataset", "kind", "target"))
    raw, targets, split = (ds[variable].values for variable in ("inputs", "target", "split"))

    def part(flag: int, size: int) -> Split:
        members = np.flatnonzero(split == flag)
        if target == "steps":
            chosen = members[: size or None]
        else:
            strata = targets[members] if target == "class" else np.zeros(len(members), int)
            chosen = members[_in_proportion(f"{name} {SPLITS[flag]}", strata, size)]
        inputs = raw[chosen].astype(np.int64 if kind == "tokens" else np.float32, copy=False)
        if kind == "pixels":  # to [0, 1] by the range of the raw values
            inputs = inputs / np.float32(ds["inputs"].attrs["valid_max"])
        wide = np.int64 if targets.dtype.kind == "i" else np.float32
        return Split(inputs, targets[chosen].astype(wide))

    vectors = [key for key in map(str, ds) if key.startswith("vectors_")]
    return Task(
        name=name,
        kind=kind,
        target=target,
        substitute=ds.attrs["substitute"],
        train=part(0, train_size),
        test=part(1, test_size),
        validation=part(2, 0) if (split == 2).any() else None,
        word_vectors={key.removeprefix("vectors_"): ds[key].values for key in vectors},
        **{key: int(ds.attrs[key]) for key in ("outputs", "vocabulary_size", "noise_inputs")},
    )


def _in_proportion(which: str, strata: np.ndarray, size: int) -> np.ndarray:
    """Return the indices of `size` sequences, strata in proportion; 0 stands for all."""
    if size > len(strata):
        raise ValueError(
            f"{which}: expected at most {len(strata)} sequences, got {size}; use 0 for all of them"
        )
    seed = int.from_bytes(hashlib.sha256(which.encode()).digest()[:8], "big")
    shuffled = np.random.default_rng(seed).permutation(len(strata))
    # The k-th of n sequences of one stratum gets the position (k + 1/2) / n; small ones come first.
    position = np.empty(len(strata))
    for label in np.unique(strata):
        members = np.flatnonzero(strata[shuffled] == label)
        position[members] = (np.arange(len(members)) + 0.5) / len(members)
    return shuffled[np.argsort(position, kind="stable")[: size or len(strata)]]
