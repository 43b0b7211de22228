"""How weights start: what several cells share."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

Start = Callable[[nn.Module], None]


def named_starts(**starts: Start) -> Mapping[str, Start]:
    """Return the starts of a cell by name, see `Cell.starts`."""
    return MappingProxyType(starts)


def uniform_fan(*parameters: Tensor, fan: float) -> None:
    """Draw U(-1/sqrt(fan), 1/sqrt(fan)): with d for the fan PyTorch's own choice for recurrent layers."""
    for parameter in parameters:
        nn.init.uniform_(parameter, -1 / math.sqrt(fan), 1 / math.sqrt(fan))


def uniform_start(*names: str) -> Start:
    """Return a start that draws the weights of these names by `uniform_fan`, in this order."""

    def start(cell: nn.Module) -> None:
        uniform_fan(*(getattr(cell, name) for name in names), fan=cell.hidden_size)

    return start


def keras_start(cell: nn.Module) -> None:
    """Draw W, R and b as Keras does: W orthogonal, the gates as one matrix, R Glorot uniform, b zero."""
    nn.init.orthogonal_(cell.W)
    nn.init.xavier_uniform_(cell.R)
    nn.init.zeros_(cell.b)


def rotations(angles: Tensor, size: int) -> Tensor:
    """Return the orthogonal (size, size) matrix with a rotation by each of the (size // 2,) angles on its diagonal.

    The exponential of a skew matrix with 2x2 blocks, the start of the exponential RNN (Lezcano-Casado and
    Martinez-Rubio 2019, section 4).
    """
    matrix = torch.eye(size, dtype=angles.dtype)
    first = torch.arange(0, 2 * len(angles), 2)
    cos, sin = angles.double().cos().to(angles), angles.double().sin().to(angles)
    matrix[first, first] = matrix[first + 1, first + 1] = cos
    matrix[first + 1, first] = sin
    matrix[first, first + 1] = -sin
    return matrix
