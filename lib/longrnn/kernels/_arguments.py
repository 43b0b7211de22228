"""What the loops of a `Recurrence` take and fill: NumPy arrays on the CPU, tensors on the GPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels._memory import NUMBERS, empty_array


def to_kernel_argument(value: Tensor | None, arrays: bool) -> Any:
    """Convert a tensor to what a loop takes.

    Parameters
    ----------
    value : Tensor or None
        The tensor.
    arrays : bool
        Whether the loop takes arrays.

    Returns
    -------
    array, Tensor or None
        A contiguous array, which does not belong to a graph, or a contiguous tensor.
    """
    if value is None:
        return None
    # The imaginary part of a conjugate is a view whose memory has the opposite sign.
    if value.is_neg():  # asking is cheaper than a call that changes nothing
        value = value.resolve_neg()
    if arrays:
        return value.detach().contiguous().numpy()
    if value.is_contiguous():
        return value
    return value.contiguous()


def empty_result(shape: Sequence[int], like: Tensor, arrays: bool) -> Any:
    """Return memory that a loop fills.

    Parameters
    ----------
    shape : sequence of int
        Its shape.
    like : Tensor
        A tensor of its type, on its device.
    arrays : bool
        Whether the loop takes arrays.

    Returns
    -------
    array or Tensor
    """
    if arrays:
        return empty_array(shape, NUMBERS[like.dtype])
    return like.new_empty(shape)


def zero_array(shape: Sequence[int], like: Tensor) -> np.ndarray:
    """Return an array of zeros; NumPy's come in huge pages, PyTorch's page by page.

    Parameters
    ----------
    shape : sequence of int
        Its shape.
    like : Tensor
        A tensor of its type.

    Returns
    -------
    array
    """
    return np.zeros(shape, NUMBERS[like.dtype])


def as_tensor(value: Any) -> Any:
    """Convert an array to a tensor that shares its memory.

    Parameters
    ----------
    value
        Any object.

    Returns
    -------
    object
        A tensor for an array; any other object unchanged.
    """
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    return value
