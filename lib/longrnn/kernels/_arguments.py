"""What the loops of a `Recurrence` take and fill: NumPy arrays on the CPU, tensors on the GPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels._memory import NUMBERS, empty_array

_SPELLED = {dtype: number.str for dtype, number in NUMBERS.items()}
_SPELLED[torch.bool] = np.dtype(bool).str
"""Types of the tensors that loops take, as arrays spell them."""


class _Memory:
    """The memory of a contiguous tensor, as NumPy takes it.

    After `Tensor.numpy` PyTorch refuses to resize the memory for good. A user's tensors must stay
    resizable: FSDP frees gathered weights that way, and functions with ``out=`` reuse inputs.
    """

    __slots__ = ("__array_interface__", "_tensor")

    def __init__(self, tensor: Tensor, address: int) -> None:
        self._tensor = tensor  # which must outlive the array
        self.__array_interface__ = {
            "shape": tuple(tensor.shape),
            "typestr": _SPELLED[tensor.dtype],
            "data": (address, False),
            "version": 3,
        }


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
    if not value.is_contiguous():
        value = value.contiguous()
    if not arrays:
        return value
    address = value.data_ptr()
    if address == 0:  # no elements, or a subclass without memory, which PyTorch refuses
        return value.detach().numpy()
    return np.asarray(_Memory(value, address))


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
