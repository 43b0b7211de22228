"""A task in memory: the sequences and targets of its parts, its score, and its chance level."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class Part:
    """Sequences and their targets."""

    inputs: np.ndarray
    """Shape (n, T, p) float32 (pixels from 0 to 1, or a real series), or (n, T) int64 tokens."""
    targets: np.ndarray
    """Classes, (n,) int64; values, (n, k) float32; or one per time step, (n, T) int64 or
    (n, T, k) float32."""

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def time_steps(self) -> int:
        """Length T of a sequence."""
        return self.inputs.shape[1]

    def take(self, indices: np.ndarray | slice) -> "Part":
        """Return some of the sequences.

        Parameters
        ----------
        indices
            Indices, a mask or a slice.

        Returns
        -------
        Part
            These sequences and their targets.

        """
        return Part(self.inputs[indices], self.targets[indices])


class PartWithBlock(Part):
    """Sequences that all end in the same block, which is stored once.

    The block is appended when sequences are taken, and `inputs` are made anew on every access.

    Parameters
    ----------
    heads
        The steps in which sequences differ, (n, t, p) float32.
    block
        The steps that follow them, (T - t, p) float32.
    targets
        As in `Part`.

    """

    def __init__(self, heads: np.ndarray, block: np.ndarray, targets: np.ndarray) -> None:
        vars(self).update(heads=heads, block=block, targets=targets)

    @property
    def inputs(self) -> np.ndarray:
        """All sequences with the block behind them, (n, T, p) float32."""
        return self.take(slice(None)).inputs

    @property
    def time_steps(self) -> int:
        """Length T of a sequence."""
        return self.heads.shape[1] + len(self.block)

    def take(self, indices: np.ndarray | slice) -> Part:
        """Return some of the sequences, with the block behind them.

        Parameters
        ----------
        indices
            Indices, a mask or a slice.

        Returns
        -------
        Part
            The heads with the block behind each.
        """
        heads = self.heads[indices]
        tails = np.broadcast_to(self.block, (len(heads), *self.block.shape))
        return Part(np.concatenate([heads, tails], axis=1), self.targets[indices])


@dataclass(frozen=True, kw_only=True)
class Task:
    """Sequences in parts, or a way to draw fresh ones, and what is asked of them."""

    name: str
    """Of the data set, or of the problem."""
    kind: str
    """Kind of the inputs: ``pixels``, ``tokens`` or ``series``."""
    target: str
    """A ``class``, a ``value``, or ``steps``: a class or a value at every time step, which the type
    of the targets distinguishes."""
    outputs: int
    """Classes K, or numbers k in a target; 1 for two classes by their log odds (a sigmoid)."""
    train: Part | None = None
    """None, as the test part is, if the task draws its sequences."""
    test: Part | None = None
    validation: Part | None = None
    draw: Callable[[int, np.random.Generator], Part] | None = None
    """Draws fresh sequences, from their number and a generator."""
    vocabulary_size: int = 0
    noise_inputs: int = 0
    """Length of the noise that the variations `post` and `uniform` add."""
    substitute: str = ""
    """One sentence if something stands in for the publisher's data."""
    word_vectors: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Word vectors by name, (vocabulary, size) each."""
    vectors: np.ndarray | None = None
    """The word vectors that an embedding starts from."""
    memoryless: tuple[float, float] | None = None
    """Loss and metric of the best answer without memory, if theory gives them."""

    @property
    def features(self) -> int:
        """Numbers in one input, p; 0 for tokens."""
        return 0 if self.kind == "tokens" else self.example.inputs.shape[2]

    @property
    def classifies(self) -> bool:
        """Whether targets are classes, scored by cross entropy; others by the squared error."""
        return self.example.targets.dtype.kind == "i"

    @property
    def metric(self) -> str:
        """Name of the score: accuracy, or root mean squared error."""
        return "accuracy" if self.classifies else "root mean squared error"

    def check(self, kind: str, *targets: str) -> None:
        """Refuse inputs or targets that a maker cannot use.

        Parameters
        ----------
        kind
            The kind that inputs must have.
        *targets
            The targets that are possible.

        Raises
        ------
        ValueError
            The task has others.

        """
        if self.kind != kind or self.target not in targets:
            raise ValueError(
                f"{self.name}: expected {kind} with the target {' or '.join(targets)}, "
                f"got {self.kind} with {self.target}"
            )

    @property
    def example(self) -> Part:
        """One sequence of the task, to read shapes and types from."""
        if self.train is None:
            return self.draw(1, np.random.default_rng(0))
        return self.train.take(slice(1))

    def map(self, change: Callable[[Part], Part]) -> "Task":
        """Return the task with all its parts changed.

        Parameters
        ----------
        change
            Called with each part, in the order train, validation, test.

        Returns
        -------
        Task
            The changed task.

        """
        parts = {name: getattr(self, name) for name in ("train", "validation", "test")}
        return replace(
            self, **{name: change(part) for name, part in parts.items() if part is not None}
        )

    def map_inputs(self, change: Callable[[np.ndarray], np.ndarray]) -> "Task":
        """Return the task with the inputs of all its parts changed.

        Parameters
        ----------
        change
            Called with the inputs of each part, in the order train, validation, test.

        Returns
        -------
        Task
            The changed task.

        """
        return self.map(lambda part: replace(part, inputs=change(part.inputs)))

    def standardised(self) -> "Task":
        """Return the task with inputs of mean 0 and deviation 1 over the training part.

        Returns
        -------
        Task
            The changed task, whose inputs are a series.

        """
        mean = self.train.inputs.mean()
        deviation = self.train.inputs.std() or 1
        scaled = self.map_inputs(lambda inputs: (inputs - mean) / deviation)
        return replace(scaled, kind="series")

    def guess(self, part: Part) -> tuple[float, float]:
        """Return the chance level: loss and metric of the best answer that ignores the inputs.

        Parameters
        ----------
        part
            The part that is answered.

        Returns
        -------
        tuple of float
            `memoryless` if theory gives it. Otherwise classes are guessed by their frequencies in
            training, and values by their mean. If the task asks at every step for a value like its
            input, the last value counts too, and the better of the two is the guess. A task that
            draws its sequences is guessed from `part` itself.

        """
        if self.memoryless is not None:
            return self.memoryless
        known = (self.train or part).targets
        if self.classifies:
            return self._guess_classes(known, part.targets)
        guesses = [known.mean(axis=tuple(range(known.ndim - 1)), dtype=np.float64)]
        if self.target == "steps" and part.inputs.shape == part.targets.shape:
            guesses.append(part.inputs)
        loss = min(float(np.mean((part.targets - guess) ** 2)) for guess in guesses)
        return loss, loss**0.5

    def _guess_classes(self, known: np.ndarray, targets: np.ndarray) -> tuple[float, float]:
        """Return cross entropy and accuracy of guessing classes by their known frequencies."""
        classes = max(2, self.outputs)
        counts = np.bincount(known.ravel(), minlength=classes)
        shares = np.bincount(targets.ravel(), minlength=classes) / targets.size
        present = shares > 0
        # A class that training never shows would make the loss infinite: count all once more.
        if (counts[present] == 0).any():
            counts = counts + 1
        loss = -np.sum(shares[present] * np.log(counts[present] / counts.sum()))
        return float(loss), float(shares[counts.argmax()])


def image_shape(data: Task) -> tuple[int, int]:
    """Return the shape of square images.

    Parameters
    ----------
    data
        A task with pixels, (n, side * side, channels).

    Returns
    -------
    tuple of int
        Side and channels.

    Raises
    ------
    ValueError
        The inputs are not square images.

    """
    shape = data.train.inputs.shape
    side = math.isqrt(shape[1])
    if data.kind != "pixels" or len(shape) != 3 or side * side != shape[1]:
        raise ValueError(
            f"{data.name}: expected square images, (n, side * side, channels) pixels, got "
            f"{data.kind} of shape {shape}; choose a data set such as mnist"
        )
    return side, shape[2]
