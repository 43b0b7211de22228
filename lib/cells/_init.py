"""Initialisations that several cells share."""

import math

import torch
from torch import Tensor, nn


def uniform_fan(*parameters: nn.Parameter, hidden_size: int) -> None:
    """Draw U(-1/sqrt(d), 1/sqrt(d)), PyTorch's own choice for recurrent layers."""
    for parameter in parameters:
        nn.init.uniform_(parameter, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))


def rotations(size: int) -> Tensor:
    """Return a block diagonal orthogonal matrix of rotations by angles from U(-pi, pi).

    Henaff, Szlam, LeCun (2016), as used for the exponential RNN (Lezcano-Casado and
    Martinez-Rubio 2019, section 4): the exponential of a skew matrix with 2x2 blocks.
    """
    angles = torch.empty(size // 2).uniform_(-math.pi, math.pi)
    matrix = torch.eye(size)
    for block, angle in enumerate(angles.tolist()):
        i = 2 * block
        matrix[i : i + 2, i : i + 2] = torch.tensor(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        )
    return matrix
