"""Modes of PyTorch that change how a cell is built or runs.

They are the device and the type of new weights, autocast, and replicas.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn


def on_device(device: torch.device | str | None) -> AbstractContextManager:
    """Return a context in which new tensors are on a device.

    Parameters
    ----------
    device
        The device; None for the current default.

    Returns
    -------
    context manager
    """
    if device is None:
        return nullcontext()
    return torch.device(device)


def any_weight(module: nn.Module) -> Tensor:
    """Return a weight of a module, whose type and device are those of all its weights.

    `torch.nn.DataParallel` runs replicas of a module. Their weights are ordinary attributes, and
    their ``parameters()`` are empty.

    Parameters
    ----------
    module
        A module with weights, or a replica of one.

    Returns
    -------
    Tensor
        The first parameter, or the first tensor among the attributes of a replica.
    """
    for part in module.modules():
        for weight in part._parameters.values():  # `parameters()` takes several times as long
            if weight is not None:
                return weight
    attributes = [value for part in module.modules() for value in vars(part).values()]
    return next(value for value in attributes if isinstance(value, Tensor))


def is_autocasting(u: object) -> bool:
    """Return whether `u` is a tensor on a device on which autocast is enabled.

    Rounding to 16 bits at each of a thousand steps would accumulate. Under autocast, recurrences
    therefore compute in the dtype of their weights.

    Parameters
    ----------
    u
        The input; may be anything.

    Returns
    -------
    bool
    """
    if not isinstance(u, Tensor) or not torch.amp.is_autocast_available(u.device.type):
        return False
    return torch.is_autocast_enabled(u.device.type)


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return a dtype in which torch can factorize and invert matrices, which needs 32 bits.

    Parameters
    ----------
    dtype
        A floating-point type.

    Returns
    -------
    torch.dtype
        float32 for a type of 16 bits, else the same type.
    """
    if dtype.itemsize < torch.float32.itemsize:
        return torch.float32
    return dtype


def at_least_float32(values: Tensor) -> Tensor:
    """Convert a tensor of 16 bits to float32; return others unchanged.

    Parameters
    ----------
    values
        Floating-point numbers.

    Returns
    -------
    Tensor
        The same numbers.
    """
    return values.to(wide_dtype(values.dtype))


def as_type(dtype: torch.dtype, *values: object) -> list:
    """Convert floating-point tensors, also inside tuples and lists, to a dtype.

    Parameters
    ----------
    dtype
        The new dtype.
    *values
        Tensors, tuples or lists of tensors, or other values, which are kept.

    Returns
    -------
    list
        The converted values, in order.
    """
    converted = []
    for value in values:
        if isinstance(value, Tensor) and value.dtype.is_floating_point:
            value = value.to(dtype)
        elif isinstance(value, tuple | list):
            value = tuple(as_type(dtype, *value))
        converted.append(value)
    return converted
