"""The activations that a text leaves to its reader, by name."""

from collections.abc import Callable

import torch
from torch import Tensor

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def activation(name: str, *, cell: str) -> Activation:
    """Return the activation called `name`; raises `ValueError` naming the `cell` that asked and the choices."""
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"{cell}: expected an activation among {known}, got {name!r}")
    return ACTIVATIONS[name]
