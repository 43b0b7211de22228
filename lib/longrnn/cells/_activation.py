"""Activation functions by name, for cells whose paper leaves the choice to the reader."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from longrnn.cells._keywords import Choice

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def phi(default: str) -> Choice:
    """Return the hyper-parameter that chooses among `ACTIVATIONS`."""
    others = [name for name in ACTIVATIONS if name != default]
    return Choice((default, *others))


TANH_OR_RELU = Choice(("tanh", "relu"))


@dataclass(frozen=True)
class StepWithRelu:
    """A step that takes its activation as the last argument, with ReLU for it.

    A class, because cells with equal steps are trained in one batched pass, and because a
    module that holds a lambda cannot be pickled.
    """

    step: Callable

    def __call__(self, weights: tuple, state: tuple[Tensor, ...], u: Tensor) -> tuple[Tensor, ...]:
        return self.step(weights, state, u, torch.relu)


def use_activation(cell: nn.Module) -> None:
    """Replace the tanh of a cell's step by ReLU if its `activation` is ``relu``.

    The engines of these cells compute tanh only. They have no option called ``activation``, so
    a cell that asks for it runs its reference.
    """
    if cell.activation == "relu":
        cell.step = StepWithRelu(type(cell).step)
        cell.engine_options = {"activation": "relu"}
