"""Removing the biases of a cell, for layer classes with ``bias=False``."""

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell


def _bias_modules(cell: Cell) -> list[tuple[nn.Module, str]]:
    """Return the module of each bias of a cell, and the bias's name in that module."""
    modules = []
    for name in cell.biases:
        value = getattr(cell, name)
        if isinstance(value, nn.ParameterList):
            modules += [(value, str(index)) for index in range(len(value))]
        else:
            modules.append((cell, name))
    return modules


def biases_of(cell: Cell) -> list[Tensor]:
    """Return the biases of a cell that `bias=False` removes.

    Parameters
    ----------
    cell
        The cell; it names its biases in `Cell.biases`.

    Returns
    -------
    list of Tensor
    """
    return [getattr(module, name) for module, name in _bias_modules(cell)]


def remove_biases(cell: Cell) -> None:
    """Replace the biases of a cell by zero buffers that are not saved.

    Parameters
    ----------
    cell
        The cell, which is changed in place.
    """
    for module, name in _bias_modules(cell):
        zeros = torch.zeros_like(getattr(module, name), requires_grad=False)
        del module._parameters[name]
        module.register_buffer(name, zeros, persistent=False)
