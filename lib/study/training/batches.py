"""Sources of training batches: epochs over a fixed training set, or newly generated sequences.

Both sources have the same interface. ``steps_per_epoch`` is the number of batches per epoch (0 if
there are no epochs). ``next`` returns the inputs and targets of the next batch. ``state`` returns
the position as JSON values, and ``restore`` resumes from such a position.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from study.tasks import Split
from study.training.scores import tensors

Batch = tuple[Tensor, Tensor]
"""Inputs and targets."""


class EpochBatches:
    """Batches of a fixed set of sequences, reshuffled every epoch."""

    def __init__(
        self,
        split: Split,
        size: int,
        rng: np.random.Generator,
        device: torch.device | str = "cpu",
        *,
        drop_last: bool = False,
    ) -> None:
        """Start before the first epoch.

        Parameters
        ----------
        split : Split
            The sequences, usually the training split of a task.
        size : int
            Sequences per batch.
        rng : numpy.random.Generator
            Shuffles the sequences.
        device : torch.device or str
            Device of the batches.
        drop_last : bool
            Whether to skip the last batch of an epoch if it is smaller than `size`.

        Raises
        ------
        ValueError
            `drop_last` is set and there are fewer than `size` sequences.
        """
        self._split = split
        self._size = size
        self._rng = rng
        self._device = device
        full_batches = len(split) // size
        self.steps_per_epoch = full_batches if drop_last else math.ceil(len(split) / size)
        if self.steps_per_epoch == 0:
            raise ValueError(
                f"{len(split)} sequences do not fill a batch of {size}; use a smaller batch_size"
            )
        self._position = self.steps_per_epoch  # `next` then begins the first epoch

    def next(self) -> Batch:
        """Return inputs and targets of the next batch."""
        if self._position == self.steps_per_epoch:
            self._begin_epoch()
        first = self._position * self._size
        self._position += 1
        indices = self._order[first : first + self._size]
        return tensors(self._split.take(indices), self._device)

    def _begin_epoch(self) -> None:
        self._start = self._rng.bit_generator.state
        self._order = self._rng.permutation(len(self._split))
        self._position = 0

    def state(self) -> dict:
        """Return the generator's state at the start of this epoch, and the batches since then."""
        return {"start": self._start, "position": self._position}

    def restore(self, state: dict) -> None:
        """Resume from a position that `state` returned."""
        self._rng.bit_generator.state = state["start"]
        self._begin_epoch()
        self._position = state["position"]


class GeneratedBatches:
    """Batches of sequences that are generated when they are needed."""

    steps_per_epoch = 0

    def __init__(self, draw: Callable[[], Batch], *rngs: np.random.Generator) -> None:
        """Name the function that generates a batch, and the random generators that it uses."""
        self.next = draw
        self._rngs = rngs

    def state(self) -> dict:
        """Return the states of the generators."""
        return {"rngs": [rng.bit_generator.state for rng in self._rngs]}

    def restore(self, state: dict) -> None:
        """Resume from states that `state` returned."""
        for rng, rng_state in zip(self._rngs, state["rngs"], strict=True):
            rng.bit_generator.state = rng_state


Batches = EpochBatches | GeneratedBatches
