"""The activations that a text leaves to its reader, by name."""

from collections.abc import Callable

import torch
from torch import Tensor

from lib.cells._keywords import Choice

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}

RECTIFIED = {"activation": "relu"}
"""Engine options of a cell whose engines know tanh alone: none of them has this one."""


def phi(default: str) -> Choice:
    """Return the hyper-parameter that chooses among `ACTIVATIONS`."""
    return Choice((default, *(name for name in ACTIVATIONS if name != default)))
