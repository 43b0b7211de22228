"""A task in memory: the sequences and targets of each split, the metric, and the chance level."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class Split:
    """The sequences and targets of one split of a data set: training, validation or test."""

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

    def take(self, indices: np.ndarray | slice) -> "Split":
        """Return some of the sequences.

        Parameters
        ----------
        indices : numpy.ndarray or slice
            Indices, a mask or a slice.

        Returns
        -------
        Split
            These sequences and their targets.
        """
        return Split(self.inputs[indices], self.targets[indices])


@dataclass(frozen=True)
class SplitWithSharedTail:
    """Sequences that end with the same time steps. These are stored only once.

    It is used like a `Split`. `take` joins heads and tails for the selected sequences. `inputs`
    joins all of them at every access, so it is slow.
    """

    heads: np.ndarray
    """The steps in which the sequences differ, (n, t, p) float32."""
    tail: np.ndarray
    """The steps that follow in every sequence, (T - t, p) float32."""
    targets: np.ndarray
    """As in `Split`."""

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def inputs(self) -> np.ndarray:
        """All sequences with their tails, (n, T, p) float32."""
        return self.take(slice(None)).inputs

    @property
    def time_steps(self) -> int:
        """Length T of a sequence."""
        return self.heads.shape[1] + len(self.tail)

    def take(self, indices: np.ndarray | slice) -> Split:
        """Return some of the sequences, with their tails.

        Parameters
        ----------
        indices : numpy.ndarray or slice
            Indices, a mask or a slice.

        Returns
        -------
        Split
            Whole sequences, (k, T, p), and their targets.
        """
        heads = self.heads[indices]
        tails = np.broadcast_to(self.tail, (len(heads), *self.tail.shape))
        return Split(np.concatenate([heads, tails], axis=1), self.targets[indices])


@dataclass(frozen=True, kw_only=True)
class Task:
    """The data, as splits of a data set or as a function that draws sequences; and their targets.

    Attributes
    ----------
    name : str
        Name of the data set, or of the task.
    kind : str
        Kind of the inputs: ``pixels``, ``tokens`` or ``series``.
    target : str
        What is predicted: a ``class`` or a ``value`` per sequence, or with ``steps`` one class or
        value per time step. Targets of integer type are classes.
    outputs : int
        Number of classes K, or of values k per target. It is 1 if there are two classes and the
        model predicts the log odds of class 1.
    train, test : Split or SplitWithSharedTail, optional
        None if the task draws its sequences.
    validation : Split or SplitWithSharedTail, optional
    draw : callable, optional
        ``draw(n, rng)`` returns a `Split` of n new sequences; None if the task has splits.
    vocabulary_size : int
        Number of token ids; 0 for other kinds of inputs.
    noise_inputs : int
        Length of the noise that the variations ``post`` and ``uniform`` add.
    substitute : str
        One sentence if the data are not exactly the publisher's; else empty.
    word_vectors : mapping of str to numpy.ndarray
        Sets of word vectors by name, each (vocabulary, size).
    vectors : numpy.ndarray, optional
        The word vectors that an embedding starts from, (vocabulary, size).
    memoryless : tuple of float, optional
        Loss and metric of the best prediction without memory, if theory gives them.
    """

    name: str
    kind: str
    target: str
    outputs: int
    train: Split | SplitWithSharedTail | None = None
    test: Split | SplitWithSharedTail | None = None
    validation: Split | SplitWithSharedTail | None = None
    draw: Callable[[int, np.random.Generator], Split] | None = None
    vocabulary_size: int = 0
    noise_inputs: int = 0
    substitute: str = ""
    word_vectors: Mapping[str, np.ndarray] = field(default_factory=dict)
    vectors: np.ndarray | None = None
    memoryless: tuple[float, float] | None = None

    @property
    def features(self) -> int:
        """Number p of features per input; 0 for tokens."""
        if self.kind == "tokens":
            return 0
        return self.example.inputs.shape[2]

    @property
    def classifies(self) -> bool:
        """Whether targets are classes (the loss is the cross entropy); else they are values."""
        return self.example.targets.dtype.kind == "i"

    @property
    def metric(self) -> str:
        """Name of the metric: accuracy, or root mean squared error."""
        if self.classifies:
            return "accuracy"
        return "root mean squared error"

    def check(self, kind: str, *targets: str) -> None:
        """Refuse a task whose inputs or targets a function can't use.

        Parameters
        ----------
        kind : str
            The required kind of inputs.
        *targets : str
            The supported values of `target`.

        Raises
        ------
        ValueError
            The task has other inputs or targets.
        """
        if self.kind != kind or self.target not in targets:
            raise ValueError(
                f"{self.name}: expected {kind} with the target {' or '.join(targets)}, "
                f"got {self.kind} with {self.target}"
            )

    @property
    def example(self) -> Split:
        """One sequence of the task, to read shapes and types from."""
        if self.train is None:
            return self.draw(1, np.random.default_rng(0))
        return self.train.take(slice(1))

    def map(self, change: Callable[[Split], Split | SplitWithSharedTail]) -> "Task":
        """Return the task with all its splits changed.

        Parameters
        ----------
        change : callable
            Maps a split to the changed one. It is called in the order train, validation, test.

        Returns
        -------
        Task
        """
        changed = {}
        for name in ("train", "validation", "test"):
            split = getattr(self, name)
            if split is not None:
                changed[name] = change(split)
        return replace(self, **changed)

    def map_inputs(self, change: Callable[[np.ndarray], np.ndarray]) -> "Task":
        """Return the task with the inputs of all its splits changed.

        Parameters
        ----------
        change : callable
            Maps the inputs of a split to the changed ones. It is called in the order train,
            validation, test.

        Returns
        -------
        Task
        """
        return self.map(lambda split: replace(split, inputs=change(split.inputs)))

    def standardized(self) -> "Task":
        """Return the task with inputs of mean 0 and standard deviation 1 over the training split.

        Returns
        -------
        Task
            All splits are shifted and scaled by the same numbers. The kind becomes ``series``.
        """
        mean = self.train.inputs.mean()
        deviation = self.train.inputs.std() or 1
        scaled = self.map_inputs(lambda inputs: (inputs - mean) / deviation)
        return replace(scaled, kind="series")

    def guess(self, split: Split) -> tuple[float, float]:
        """Return the scores at chance: those of the best prediction that ignores the inputs.

        If theory gives the scores (`memoryless`), these are returned. Otherwise classes are
        predicted by their frequencies in the training split, and values by their mean in the
        training split. If targets have the shape of the inputs and are values at every step, the
        current input is another prediction, and the better of the two counts. A task that draws its
        sequences has no training split, so frequencies and mean are those of `split`.

        Parameters
        ----------
        split : Split
            The sequences to score.

        Returns
        -------
        loss, metric : float
            Cross entropy in nats and accuracy, or mean squared error and its root.
        """
        if self.memoryless is not None:
            return self.memoryless
        known = (self.train or split).targets
        if self.classifies:
            return self._guess_classes(known, split.targets)
        predictions = [known.mean(axis=tuple(range(known.ndim - 1)), dtype=np.float64)]
        if self.target == "steps" and split.inputs.shape == split.targets.shape:
            predictions.append(split.inputs)
        losses = [float(np.mean((split.targets - predicted) ** 2)) for predicted in predictions]
        loss = min(losses)
        return loss, loss**0.5

    def _guess_classes(self, known: np.ndarray, targets: np.ndarray) -> tuple[float, float]:
        """Return cross entropy and accuracy of predicting classes by their known frequencies."""
        classes = max(2, self.outputs)
        counts = np.bincount(known.ravel(), minlength=classes)
        frequencies = np.bincount(targets.ravel(), minlength=classes) / targets.size
        present = frequencies > 0
        # A class that is missing in the training split would make the loss infinite.
        if (counts[present] == 0).any():
            counts = counts + 1
        loss = -np.sum(frequencies[present] * np.log(counts[present] / counts.sum()))
        return float(loss), float(frequencies[counts.argmax()])


def image_shape(data: Task) -> tuple[int, int]:
    """Return the shape of square images.

    Parameters
    ----------
    data : Task
        A task with pixels, (n, side * side, channels).

    Returns
    -------
    side, channels : int

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
