"""A task in memory: what every training starts from, what it is scored by, and what guessing
costs.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from study.tasks.prepared import SPLITS, load_file


@dataclass(frozen=True)
class Part:
    """Sequences and what is asked of them.

    Inputs are (n, T, p) float32 (pixels between 0 and 1, or a real series), or (n, T) int64 tokens.
    Targets are a class, (n,) int64; a value, (n, k) float32; or one a time step, (n, T) int64 or
    (n, T, k) float32.
    """

    inputs: np.ndarray
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def time_steps(self) -> int:
        """Length T of a sequence."""
        return self.inputs.shape[1]

    def take(self, indices: np.ndarray | slice) -> "Part":
        return Part(self.inputs[indices], self.targets[indices])


class Followed(Part):
    """Sequences that all end in one block, which is held once and put behind them as they are
    taken.

    `heads`, (n, t, p) float32, is where they differ, `block`, (T - t, p) float32, how they go on;
    `inputs` are made anew.
    """

    def __init__(self, heads: np.ndarray, block: np.ndarray, targets: np.ndarray) -> None:
        vars(self).update(heads=heads, block=block, targets=targets)

    @property
    def inputs(self) -> np.ndarray:
        return self.take(slice(None)).inputs

    @property
    def time_steps(self) -> int:
        return self.heads.shape[1] + len(self.block)

    def take(self, indices: np.ndarray | slice) -> Part:
        heads = self.heads[indices]
        tails = np.broadcast_to(self.block, (len(heads), *self.block.shape))
        return Part(np.concatenate([heads, tails], axis=1), self.targets[indices])


@dataclass(frozen=True, kw_only=True)
class Task:
    """Inputs of one kind, targets of one kind, and the parts they come in; or how fresh
    sequences are drawn.

    Inputs are ``pixels``, ``tokens`` or ``series``. The target is a ``class``, a ``value``, or
    ``steps``: a class or a value at every time step, as the type of the targets tells.
    """

    name: str  # of the data set, or the problem
    kind: str
    target: str
    # Classes K, or numbers k in a target; 1 for two classes by their log odds (a sigmoid).
    outputs: int
    train: Part | None = None  # absent, as the test part, where the task draws its sequences
    test: Part | None = None
    validation: Part | None = None
    # Fresh sequences of a task without an end, from their number and a generator.
    draw: Callable[[int, np.random.Generator], Part] | None = None
    vocabulary_size: int = 0
    noise_inputs: int = 0  # length of the noise that the variations `post` and `uniform` add
    substitute: str = ""  # one sentence where something stands in for the publisher's data
    word_vectors: Mapping[str, np.ndarray] = field(default_factory=dict)  # (vocabulary, size) each
    vectors: np.ndarray | None = None  # those that an embedding starts from
    memoryless: tuple[float, float] | None = None  # the best guess, where theory has it

    @property
    def features(self) -> int:
        """Numbers in one input, p; 0 for tokens."""
        return 0 if self.kind == "tokens" else self._example.inputs.shape[2]

    @property
    def classifies(self) -> bool:
        """Whether targets are classes, scored by cross entropy; otherwise values, by the squared
        error.
        """
        return self._example.targets.dtype.kind == "i"

    @property
    def metric(self) -> str:
        return "accuracy" if self.classifies else "root mean squared error"

    def check(self, kind: str, *targets: str) -> None:
        """Refuse, with a `ValueError`, inputs and targets that a task cannot be made of."""
        if self.kind != kind or self.target not in targets:
            raise ValueError(
                f"{self.name}: expected {kind} with the target {' or '.join(targets)}, got "
                f"{self.kind} with {self.target}"
            )

    @property
    def _example(self) -> Part:
        if self.train is None:
            return self.draw(1, np.random.default_rng(0))
        return self.train.take(slice(1))

    def map(self, change: Callable[[Part], Part]) -> "Task":
        """Return the task with its parts changed, in the order train, validation, test."""
        parts = {name: getattr(self, name) for name in ("train", "validation", "test")}
        return replace(
            self, **{name: change(part) for name, part in parts.items() if part is not None}
        )

    def map_inputs(self, change: Callable[[np.ndarray], np.ndarray]) -> "Task":
        """Return the task with the inputs of its parts changed, in the same order."""
        return self.map(lambda part: replace(part, inputs=change(part.inputs)))

    def standardised(self) -> "Task":
        """Return the task with the mean 0 and the deviation 1 of the training part for all
        inputs.
        """
        mean, deviation = self.train.inputs.mean(), self.train.inputs.std()
        return replace(
            self.map_inputs(lambda inputs: (inputs - mean) / (deviation or 1)), kind="series"
        )

    def guess(self, part: Part) -> tuple[float, float]:
        """Return loss and metric on `part` of the best answer that ignores the inputs:
        `memoryless`, or learned from training.

        Classes are guessed by their frequencies (counted once more each where a class is asked for
        that training never shows, or nobody could be worse than the guess), values by their mean;
        where a task asks at every step for a value like its input, the last value counts too, and
        the better of the two is the guess. A task that draws its sequences is guessed from `part`
        itself.
        """
        if self.memoryless is not None:
            return self.memoryless
        known = (self.train or part).targets
        if self.classifies:
            classes = max(2, self.outputs)
            counts = np.bincount(known.ravel(), minlength=classes)
            asked = np.bincount(part.targets.ravel(), minlength=classes) / part.targets.size
            shown = asked > 0
            if (counts[shown] == 0).any():
                counts = counts + 1
            loss = -np.sum(asked[shown] * np.log(counts[shown] / counts.sum()))
            return float(loss), float(asked[counts.argmax()])
        guesses = [known.mean(axis=tuple(range(known.ndim - 1)), dtype=np.float64)]
        if self.target == "steps" and part.inputs.shape == part.targets.shape:
            guesses.append(part.inputs)
        loss = min(float(np.mean((part.targets - guess) ** 2)) for guess in guesses)
        return loss, loss**0.5


def image_shape(data: Task) -> tuple[int, int]:
    """Return side and channels of the square images in `data`; raises `ValueError` where there
    are none.
    """
    shape = data.train.inputs.shape
    side = math.isqrt(shape[1])
    if data.kind != "pixels" or len(shape) != 3 or side * side != shape[1]:
        raise ValueError(
            f"{data.name}: expected square images, (n, side * side, channels) pixels, got "
            f"{data.kind} of "
            f"shape {shape}; choose a data set such as mnist"
        )
    return side, shape[2]


def hold_out(data: Task, size: int) -> Task:
    """Return the task with the last `size` training sequences as its validation part; 0 changes
    nothing.

    A prepared data set's sequences come in an order that depends on its name alone, classes in
    their proportions, so the last ones are a sample like any other, and the same for all attempts.
    Raises `ValueError` where the task has a validation part already, or too few sequences.
    """
    if not size:
        return data
    if data.validation is not None:
        raise ValueError(f"{data.name} has a validation part of its own; leave validation_size out")
    kept = len(data.train) - size
    if not 0 < kept < len(data.train):
        raise ValueError(
            f"{data.name}: expected a validation part of 1 to {len(data.train) - 1} of the "
            f"{len(data.train)} training sequences, got {size}"
        )
    train, validation = (data.train.take(part) for part in (slice(kept), slice(kept, None)))
    return replace(data, train=train, validation=validation)


def load_prepared(path: str | Path, train_size: int = 0, test_size: int = 0) -> Task:
    """Read a data set prepared by stage 00, or `train_size` and `test_size` of its sequences; 0
    keeps all.

    Classes keep their proportions. The choice and its order depend on the data set's name and its
    targets alone, so that all attempts see the same sequences; a prefix of them is again in
    proportion (files sorted by class would otherwise show a probe of the first few one class only).
    A validation part is kept whole, and the rows of a stream (``steps``) stay in their order.

    Raises `ValueError` where the file is missing, unreadable or of another schema, or has fewer
    sequences.
    """
    path = Path(path)
    changed = path.stat().st_mtime_ns if path.exists() else 0
    return _load(path, changed, train_size, test_size)


@lru_cache(maxsize=4)  # the trainings that follow each other read the same; nobody writes into it
def _load(path: Path, changed: int, train_size: int, test_size: int) -> Task:
    ds = load_file(path)
    name, kind, target = (ds.attrs[key] for key in ("dataset", "kind", "target"))
    raw, targets, split = (ds[variable].values for variable in ("inputs", "target", "split"))

    def part(flag: int, size: int) -> Part:
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
        return Part(inputs, targets[chosen].astype(wide))

    vectors = (name for name in map(str, ds) if name.startswith("vectors_"))
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
            f"{which}: {size} sequences asked for, there are {len(strata)}; use 0 for all of them"
        )
    seed = int.from_bytes(hashlib.sha256(which.encode()).digest()[:8], "big")
    shuffled = np.random.default_rng(seed).permutation(len(strata))
    # The k-th of n sequences of one stratum gets the place (k + 1/2) / n; small places come first.
    place = np.empty(len(strata))
    for label in np.unique(strata):
        members = np.flatnonzero(strata[shuffled] == label)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return shuffled[np.argsort(place, kind="stable")[: size or len(strata)]]
