"""A data set in memory: what every attempt starts from."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib.tasks.prepared import FIRST_WORD, load_file

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Sequences:
    """One split of a task.

    Attributes
    ----------
    inputs
        (n, T, p) float32 (pixels between 0 and 1), or (n, T) int64 tokens.
    labels : (n,)
        int64, 0..K-1.
    """

    inputs: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class TaskData:
    """A data set, or one of its task variations.

    Attributes
    ----------
    name
        The data set.
    kind
        ``pixels`` or ``tokens``.
    classes
        Number of labels K.
    vocabulary_size
        Number of tokens; 0 for pixels.
    noise_inputs
        Length of the noise that the variations ``post`` and ``uniform`` add.
    train, test
        Disjoint splits.
    """

    name: str
    kind: str
    classes: int
    vocabulary_size: int
    noise_inputs: int
    train: Sequences
    test: Sequences

    @property
    def features(self) -> int:
        """Numbers in one input, p; 0 for tokens."""
        return self.train.inputs.shape[2] if self.kind == "pixels" else 0

    @property
    def noise_range(self) -> tuple[float, float]:
        """Range of the inputs, from which noise is drawn: [0, 1) or the ids of words, [low, high).

        Filling, the start of a text and unknown words stand for no input of their own, so noise is none
        of them.
        """
        return (0.0, 1.0) if self.kind == "pixels" else (FIRST_WORD, self.vocabulary_size)


def load_prepared(path: str | Path, train_size: int = 0, test_size: int = 0) -> TaskData:
    """Read a data set prepared by stage 00, or a part of it with the labels in their proportions.

    Parameters
    ----------
    path
        The file ``<dataset>.nc``.
    train_size, test_size
        Sequences to keep; 0 keeps all. The choice and its order depend on the data set's name and its
        labels alone, so that all attempts see the same sequences; a prefix of them is again in
        proportion (files sorted by class would otherwise show a probe of the first few one class only).

    Raises
    ------
    PreparedError
        The file is missing, unreadable or of another schema.
    ValueError
        More sequences are asked for than there are.
    """
    ds = load_file(path)
    name, kind = ds.attrs["dataset"], ds.attrs["kind"]
    raw, labels, split = (ds[variable].values for variable in ("inputs", "label", "split"))

    def part(flag: int, size: int) -> Sequences:
        members = np.flatnonzero(split == flag)
        chosen = members[_in_proportion(f"{name} {SPLITS[flag]}", labels[members], size)]
        if kind == "tokens":
            inputs = raw[chosen].astype(np.int64)
        else:  # to [0, 1] by the range of the raw values
            inputs = raw[chosen].astype(np.float32) / np.float32(ds["inputs"].attrs["valid_max"])
        return Sequences(inputs, labels[chosen].astype(np.int64))

    return TaskData(
        name=name,
        kind=kind,
        classes=int(ds.attrs["classes"]),
        vocabulary_size=int(ds.attrs["vocabulary_size"]),
        noise_inputs=int(ds.attrs["noise_inputs"]),
        train=part(0, train_size),
        test=part(1, test_size),
    )


def _in_proportion(which: str, labels: np.ndarray, size: int) -> np.ndarray:
    """Return the indices of `size` sequences, labels in proportion; 0 stands for all."""
    if size < 0 or size > len(labels):
        raise ValueError(
            f"{which}: {size} sequences asked for, there are {len(labels)}; use 0 for all of them"
        )
    seed = int.from_bytes(hashlib.sha256(which.encode()).digest()[:8], "big")
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    # The k-th of n sequences with one label gets the place (k + 1/2) / n; small places come first.
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels[shuffled] == label)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return shuffled[np.argsort(place, kind="stable")[: size or len(labels)]]
