"""Where batches come from: a part of a task in epochs, or sequences drawn as they are needed.

A source has an attribute ``epoch``, its number of batches per epoch (0 without epochs). Its method
``next`` returns inputs and targets of the next batch, ``state`` its position as JSON values, and
``restore`` goes on from such a position.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from study.tasks import Part
from study.training.scores import tensors

Batch = tuple[Tensor, Tensor]
"""Inputs and targets."""


class Epochs:
    """The sequences of a part without replacement, in a new order each epoch."""

    def __init__(
        self,
        part: Part,
        size: int,
        rng: np.random.Generator,
        device: torch.device | str = "cpu",
        *,
        drop_last: bool = False,
    ) -> None:
        """Take the part.

        Parameters
        ----------
        part : Part
        size : int
            Sequences per batch.
        rng : numpy.random.Generator
            Draws the orders.
        device : torch.device or str
            Device of the batches.
        drop_last : bool
            Whether an epoch leaves out its last batch if that is smaller.

        Raises
        ------
        ValueError
            The part is smaller than the only batch that would be left.
        """
        self._part = part
        self._size = size
        self._rng = rng
        self._device = device
        whole_batches = len(part) // size
        self.epoch = whole_batches if drop_last else -(-len(part) // size)
        if not self.epoch:
            raise ValueError(
                f"a part of {len(part)} sequences has no whole batch of {size}; "
                "use a smaller batch_size"
            )
        self._position = self.epoch  # as after a whole epoch

    def next(self) -> Batch:
        """Return inputs and targets of the next batch."""
        if self._position == self.epoch:
            self._begin_epoch()
        first = self._position * self._size
        self._position += 1
        return tensors(self._part.take(self._order[first : first + self._size]), self._device)

    def _begin_epoch(self) -> None:
        self._start = self._rng.bit_generator.state
        self._order = self._rng.permutation(len(self._part))
        self._position = 0

    def state(self) -> dict:
        """Return the position: the generator at the start of the epoch, and batches since then."""
        return {"start": self._start, "position": self._position}

    def restore(self, state: dict) -> None:
        """Go on from a position that `state` returned."""
        self._rng.bit_generator.state = state["start"]
        self._begin_epoch()
        self._position = state["position"]


class Fresh:
    """Sequences that no batch has seen before."""

    epoch = 0

    def __init__(self, draw: Callable[[], Batch], *rngs: np.random.Generator) -> None:
        """Take the function that draws a batch, and the generators that it draws from."""
        self.next = draw
        self._rngs = rngs

    def state(self) -> dict:
        """Return the states of the generators."""
        return {"rngs": [rng.bit_generator.state for rng in self._rngs]}

    def restore(self, state: dict) -> None:
        """Go on from states that `state` returned."""
        for rng, rng_state in zip(self._rngs, state["rngs"], strict=True):
            rng.bit_generator.state = rng_state


Batches = Epochs | Fresh
