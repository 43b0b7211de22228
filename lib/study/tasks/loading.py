"""Load a prepared data set as a `Task`, either all of its sequences or a subset.

This is the step from the file that stage 00 wrote (`study.tasks.prepared`) to the data in memory
that the tasks change and the runs train on.
"""

import hashlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import xarray as xr

from study.tasks.data import Split, Task
from study.tasks.prepared import SPLITS, load_file


def load_prepared(path: str | Path, train_size: int = 0, test_size: int = 0) -> Task:
    """Load a prepared data set, or some of its sequences.

    A subset has the classes in the proportions of the whole data set, even if the file is sorted by
    class. The same is true of the first n sequences of the subset, for every n. The subset and its
    order depend only on the data set's name and its targets, so all runs see the same sequences. A
    validation split is always whole. The rows of a stream (``steps``) keep their order.

    Parameters
    ----------
    path : str or Path
        A file that `study.tasks.prepared.save_prepared` wrote.
    train_size, test_size : int
        Number of sequences to keep; 0 for all.

    Returns
    -------
    Task
        Pixels are scaled to [0, 1].

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

    The training sequences are in a random order that depends only on the data set and keeps the
    proportions of the classes (`load_prepared`). So the last ones are a random sample, which is the
    same for all runs.

    Parameters
    ----------
    data : Task
    size : int
        Number of sequences; 0 changes nothing.

    Returns
    -------
    Task

    Raises
    ------
    ValueError
        The task already has a validation split, or too few sequences.
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


@lru_cache(maxsize=4)  # successive runs read the same data, and nothing changes the arrays
def _load(path: Path, modified: int, train_size: int, test_size: int) -> Task:
    """Load a data set. `modified` is part of the key of the cache, so that a new file is read."""
    ds = load_file(path)
    validation = None
    if (ds["split"] == SPLITS.index("validation")).any():
        validation = _load_split(ds, "validation", 0)
    word_vectors = {}
    for variable in map(str, ds):
        if variable.startswith("vectors_"):
            word_vectors[variable.removeprefix("vectors_")] = ds[variable].values
    return Task(
        name=ds.attrs["dataset"],
        kind=ds.attrs["kind"],
        target=ds.attrs["target"],
        outputs=int(ds.attrs["outputs"]),
        train=_load_split(ds, "train", train_size),
        test=_load_split(ds, "test", test_size),
        validation=validation,
        vocabulary_size=int(ds.attrs["vocabulary_size"]),
        noise_inputs=int(ds.attrs["noise_inputs"]),
        substitute=ds.attrs["substitute"],
        word_vectors=word_vectors,
    )


def _load_split(ds: xr.Dataset, split: str, size: int) -> Split:
    """Return some sequences of a split; 0 stands for all of them."""
    kind = ds.attrs["kind"]
    target = ds.attrs["target"]
    all_targets = ds["target"].values
    members = np.flatnonzero(ds["split"].values == SPLITS.index(split))
    if target == "steps":
        chosen = members[: size or None]
    else:
        strata = np.zeros(len(members), int)
        if target == "class":
            strata = all_targets[members]
        chosen = members[_in_proportion(f"{ds.attrs['dataset']} {split}", strata, size)]
    input_type = np.int64 if kind == "tokens" else np.float32
    inputs = ds["inputs"].values[chosen].astype(input_type, copy=False)
    if kind == "pixels":
        inputs = inputs / np.float32(ds["inputs"].attrs["valid_max"])
    target_type = np.int64 if all_targets.dtype.kind == "i" else np.float32
    return Split(inputs, all_targets[chosen].astype(target_type))


def _in_proportion(which: str, strata: np.ndarray, size: int) -> np.ndarray:
    """Return the indices of `size` sequences, with the strata in proportion; 0 stands for all."""
    if size > len(strata):
        raise ValueError(
            f"{which}: expected at most {len(strata)} sequences, got {size}; use 0 for all of them"
        )
    seed = int.from_bytes(hashlib.sha256(which.encode()).digest()[:8], "big")
    shuffled = np.random.default_rng(seed).permutation(len(strata))
    # Sequence k of a stratum of n gets the position (k + 1/2) / n. The smallest positions are kept.
    position = np.empty(len(strata))
    for label in np.unique(strata):
        members = np.flatnonzero(strata[shuffled] == label)
        position[members] = (np.arange(len(members)) + 0.5) / len(members)
    return shuffled[np.argsort(position, kind="stable")[: size or len(strata)]]
