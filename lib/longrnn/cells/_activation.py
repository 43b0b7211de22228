"""Activation functions by name, for cells whose paper doesn't prescribe one."""

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


def activation_choice(default: str) -> Choice:
    """Declare a hyperparameter that selects one of `ACTIVATIONS`.

    Parameters
    ----------
    default
        Name of the default activation.

    Returns
    -------
    Choice
        The names of all activations, the default first.
    """
    others = [name for name in ACTIVATIONS if name != default]
    return Choice((default, *others))


TANH_OR_RELU = Choice(("tanh", "relu"))


@dataclass(frozen=True)
class StepWithRelu:
    """The step of a cell with ReLU as its last argument, the activation.

    This is a class, not a lambda: equal steps compare equal, which batched training relies on, and
    a module with a lambda can't be pickled.
    """

    step: Callable

    def __call__(self, weights: tuple, state: tuple[Tensor, ...], u: Tensor) -> tuple[Tensor, ...]:
        return self.step(weights, state, u, torch.relu)


def use_activation(cell: nn.Module) -> None:
    """Replace the tanh of a cell's step by ReLU if its `activation` is ``relu``.

    The engines of these cells compute only tanh, so the reference runs (see `Cell.engine_for`).

    Parameters
    ----------
    cell : Cell
        A cell with a hyperparameter `activation`.
    """
    if cell.activation == "relu":
        cell.step = StepWithRelu(type(cell).step)
