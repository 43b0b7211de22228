"""Where batches come from: a part of a task in a fresh order every epoch, or sequences drawn as they are needed.

A source has the number of batches in an `epoch`, 0 where there are no epochs; `next` are inputs and targets of the next batch;
`state` is where it stands, as JSON values, from which `restore` goes on.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from study.tasks import Part
from study.training.scores import tensors

Batch = tuple[Tensor, Tensor]


class Epochs:
    """The sequences of a part without replacement, `size` in a batch, in an order of its own each epoch, drawn from `rng`.

    With `drop_last` an epoch leaves out its last batch where that is smaller.
    """

    def __init__(
        self,
        part: Part,
        size: int,
        rng: np.random.Generator,
        device: torch.device | str = "cpu",
        *,
        drop_last: bool = False,
    ) -> None:
        self._part, self._size, self._rng, self._device = part, size, rng, device
        self.epoch = len(part) // size if drop_last else -(-len(part) // size)
        if not self.epoch:
            raise ValueError(
                f"a part of {len(part)} sequences has no whole batch of {size}; use a smaller batch_size"
            )
        self._position = self.epoch  # as after a whole epoch

    def next(self) -> Batch:
        if self._position == self.epoch:
            self._begin()
        first = self._position * self._size
        self._position += 1
        return tensors(self._part.take(self._order[first : first + self._size]), self._device)

    def _begin(self) -> None:
        self._start = self._rng.bit_generator.state
        self._order = self._rng.permutation(len(self._part))
        self._position = 0

    def state(self) -> dict:
        return {"start": self._start, "position": self._position}

    def restore(self, state: dict) -> None:
        self._rng.bit_generator.state = state["start"]
        self._begin()
        self._position = state["position"]


class Fresh:
    """Sequences that no batch has seen before, as `draw` draws them from the generators `rngs`."""

    epoch = 0

    def __init__(self, draw: Callable[[], Batch], *rngs: np.random.Generator) -> None:
        self.next, self._rngs = draw, rngs

    def state(self) -> dict:
        return {"rngs": [rng.bit_generator.state for rng in self._rngs]}

    def restore(self, state: dict) -> None:
        for rng, at in zip(self._rngs, state["rngs"], strict=True):
            rng.bit_generator.state = at


Batches = Epochs | Fresh
