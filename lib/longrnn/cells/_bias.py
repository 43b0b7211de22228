"""Removing the biases of a cell, for layer classes with ``bias=False``."""

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell
from longrnn.cells._modes import any_weight


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


def remove_biases(cell: Cell, label: str) -> None:
    """Replace the biases of a cell by zero buffers that are not saved.

    Parameters
    ----------
    cell
        The cell, which is changed in place.
    label
        First word of the error message.

    Raises
    ------
    ValueError
        The cell cannot be without biases.
    """
    conflict = cell.bias_conflict()
    if conflict:
        raise ValueError(f"{label}: expected bias=True {conflict}, got bias=False")
    for module, name in _bias_modules(cell):
        zeros = torch.zeros_like(getattr(module, name), requires_grad=False)
        del module._parameters[name]
        module.register_buffer(name, zeros, persistent=False)
    cell.register_load_state_dict_post_hook(_make_zeros)


def _make_zeros(cell: Cell, _incompatible_keys: object) -> None:
    """Make the missing biases of a cell again, after its weights were loaded.

    A module that was built on the meta device has memory without values, or none at all, and a
    state dict has no values for these buffers.
    """
    weight = any_weight(cell)
    for module, name in _bias_modules(cell):
        zeros = weight.new_zeros(getattr(module, name).shape)
        module.register_buffer(name, zeros, persistent=False)
