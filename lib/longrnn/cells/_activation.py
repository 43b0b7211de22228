"""The activations that a text leaves to its reader, by name."""

from collections.abc import Callable
from functools import cache

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
    return Choice((default, *(name for name in ACTIVATIONS if name != default)))


TANH_OR_RELU = Choice(("tanh", "relu"))


def rectify(cell: nn.Module) -> None:
    """Let a step whose engines know tanh alone have ReLU in its place, where the cell's `activation` says so; no engine has such an option."""
    if cell.activation == "relu":
        cell.step, cell.engine_options = _rectified(type(cell).step), {"activation": "relu"}


@cache  # networks of equal settings have the same step
def _rectified(step: Callable) -> Callable:
    return lambda weights, state, u: step(weights, state, u, torch.relu)
