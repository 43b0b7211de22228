"""Sources of training batches: epochs over a training set, or newly generated sequences.

Both sources have the same interface. ``steps_per_epoch`` is the number of batches per epoch, or 0
if sequences are generated. ``next`` returns the inputs and targets of the next batch. Checkpoints
use two more methods: ``state`` returns the position in the source as JSON values, and ``restore``
continues from such a position.
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
        self._position = self.steps_per_epoch  # so that the first `next` begins an epoch

    def next(self) -> Batch:
        """Return the next batch.

        Returns
        -------
        inputs : Tensor
            Shape (batch, time, feature), or (batch, time) of tokens.
        targets : Tensor
            As `study.tasks.Split.targets`.
        """
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
        """Return the position.

        Returns
        -------
        dict
            ``start``, the random generator's state at the start of this epoch; and ``position``,
            the number of batches since then.
        """
        return {"start": self._start, "position": self._position}

    def restore(self, state: dict) -> None:
        """Resume from a position.

        Parameters
        ----------
        state : dict
            A result of `state`.
        """
        self._rng.bit_generator.state = state["start"]
        self._begin_epoch()
        self._position = state["position"]


class GeneratedBatches:
    """Batches of sequences that are generated when they are needed."""

    steps_per_epoch = 0

    def __init__(self, draw: Callable[[], Batch], *rngs: np.random.Generator) -> None:
        """Store how batches are generated.

        Parameters
        ----------
        draw : callable
            Returns a new batch.
        *rngs : numpy.random.Generator
            The random generators that `draw` uses.
        """
        self._draw = draw
        self._rngs = rngs

    def next(self) -> Batch:
        """Return a new batch.

        Returns
        -------
        inputs, targets : Tensor
            As `draw` returns them.
        """
        return self._draw()

    def state(self) -> dict:
        """Return the position.

        Returns
        -------
        dict
            ``rngs``, the states of the random generators.
        """
        return {"rngs": [rng.bit_generator.state for rng in self._rngs]}

    def restore(self, state: dict) -> None:
        """Resume from a position.

        Parameters
        ----------
        state : dict
            A result of `state`.
        """
        for rng, rng_state in zip(self._rngs, state["rngs"], strict=True):
            rng.bit_generator.state = rng_state


Batches = EpochBatches | GeneratedBatches
