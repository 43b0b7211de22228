"""Memory for the large arrays of the CPU engines, kept for the next pass.

The C library returns a large freed block to the system, and the next pass gets fresh pages, one
page fault for each. For long sequences that takes as long as the recurrence itself. So a block
that is freed stays in a pool, and the next array of about its size gets it: batches may differ in
length.
"""

import math
import threading
from collections import deque
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

SMALLEST = 2**20
"""Bytes below which an array gets ordinary memory."""
MOST_KEPT = 2**31
"""Bytes of free blocks that the pool keeps; beyond it the oldest are returned to the system."""


class _Lease:
    """A block in use, which returns to the pool when the last array or tensor is gone."""

    def __init__(self, block: np.ndarray, shape: Sequence[int], dtype: np.dtype) -> None:
        self._block = block
        self.__array_interface__ = {
            "shape": tuple(shape),
            "typestr": dtype.str,
            "data": (block.ctypes.data, False),
            "version": 3,
        }

    def __del__(self) -> None:
        _pool.give(self._block)


class _Pool:
    """Free blocks, the oldest first.

    The garbage collector may free a lease at any time, even while its thread is inside the pool. So
    a freed block joins a queue, which needs no lock, and the list of blocks changes only under the
    lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = []
        self._freed = deque()

    def take(self, size: int) -> np.ndarray:
        """Return the smallest free block of `size` to twice as many bytes, else a new one."""
        with self._lock:
            self._collect()
            best = None
            for k, block in enumerate(self._blocks):
                fits = size <= block.nbytes <= 2 * size
                if fits and (best is None or block.nbytes < self._blocks[best].nbytes):
                    best = k
            if best is not None:
                return self._blocks.pop(best)
        return np.empty(size, np.uint8)

    def give(self, block: np.ndarray) -> None:
        """Add a block, and drop the oldest ones if all together exceed `MOST_KEPT`."""
        self._freed.append(block)
        # If the pool is in use, perhaps by this very thread, a later call collects the block.
        if self._lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self._lock.release()

    def _collect(self) -> None:
        """Move freed blocks to the list, and shorten it to `MOST_KEPT` bytes."""
        while self._freed:
            self._blocks.append(self._freed.popleft())
        kept = sum(block.nbytes for block in self._blocks)
        while kept > MOST_KEPT:
            kept -= self._blocks.pop(0).nbytes


_pool = _Pool()


def empty_array(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Return an array without values, as `numpy.empty` does, from kept memory if it is large.

    Parameters
    ----------
    shape : sequence of int
        Its shape.
    dtype : numpy.dtype
        Its type.

    Returns
    -------
    array
        Its memory returns to the pool when the last array or tensor that shares it is gone.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < SMALLEST:
        return np.empty(shape, dtype)
    return np.asarray(_Lease(_pool.take(size), shape, dtype))


def empty_array_like(array: np.ndarray) -> np.ndarray:
    """Return an array without values, as `numpy.empty_like` does, from kept memory if it is large.

    Parameters
    ----------
    array : array
        Gives shape and type.

    Returns
    -------
    array
        As from `empty_array`.
    """
    return empty_array(array.shape, array.dtype)


NUMBERS = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}
"""NumPy's types of the numbers that engines compute with."""


def empty_tensor(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return a tensor of the CPU without values, from kept memory if it is large.

    Parameters
    ----------
    shape : sequence of int
        Its shape.
    dtype : {torch.float32, torch.float64}
        Its type.

    Returns
    -------
    Tensor
        Its memory is that of an array from `empty_array`.
    """
    return torch.from_numpy(empty_array(shape, NUMBERS[dtype]))


def is_large(like: Tensor, rows: int) -> bool:
    """Return whether a product with a tensor is large enough for kept memory.

    Parameters
    ----------
    like : (.., features)
        The tensor whose vectors are multiplied by a matrix (rows, features).
    rows : int
        Rows of the matrix.

    Returns
    -------
    bool
        False on other devices than the CPU.
    """
    if like.device.type != "cpu" or like.dtype not in NUMBERS:
        return False
    return like.numel() // max(like.shape[-1], 1) * rows * like.dtype.itemsize >= SMALLEST
