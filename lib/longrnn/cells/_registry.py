"""The cells by name. A subclass of `longrnn.cells.Cell` with a name registers itself."""

import torch
from torch import nn

from longrnn.cells._modes import on_device

REGISTRY: dict[str, type[nn.Module]] = {}
"""The class of every cell by its name."""


def cell_class(name: str) -> type[nn.Module]:
    """Return the class of a cell.

    Parameters
    ----------
    name
        One of `cell_names`.

    Returns
    -------
    type of Cell

    Raises
    ------
    ValueError
        No cell has this name; the message lists the known names.
    """
    if name not in REGISTRY:
        raise ValueError(f"unknown architecture {name!r}; known: {', '.join(cell_names())}")
    return REGISTRY[name]


def make_cell(
    name: str,
    input_size: int,
    hidden_size: int,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    **hyper_parameters: object,
) -> nn.Module:
    """Return a new cell, initialized from torch's random generator.

    Parameters
    ----------
    name
        One of `cell_names`.
    input_size, hidden_size
        Features of one input, and the recurrent dimension.
    device, dtype
        Device and dtype of the weights; PyTorch's defaults if None.
    **hyper_parameters
        Hyperparameters of the cell, such as ``dt``.

    Returns
    -------
    Cell

    Raises
    ------
    ValueError
        No cell has this name, or a size or a hyperparameter has a wrong type or is out of range.

    Examples
    --------
    >>> import torch
    >>> cell = make_cell("lem", 2, 64, dt=0.5)
    >>> outputs, (y, z) = cell(torch.randn(100, 32, 2))
    >>> outputs.shape, y.shape
    (torch.Size([100, 32, 64]), torch.Size([32, 64]))
    """
    with on_device(device):
        return cell_class(name)(input_size, hidden_size, dtype=dtype, **hyper_parameters)


def cell_names() -> list[str]:
    """Return the names of all architectures.

    Returns
    -------
    list of str
        In alphabetical order.
    """
    return sorted(REGISTRY)
