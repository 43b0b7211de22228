"""The idx format of MNIST: a header with type and shape, then the elements of one array."""

import math

import numpy as np

from study.tasks.formats import FormatError

_UNSIGNED_BYTE = 0x08


def read_idx(content: bytes, name: str) -> np.ndarray:
    """Return the array in an idx file of unsigned bytes.

    Parameters
    ----------
    content : bytes
        The file: two zeros, the type of the elements, the number of dimensions, the dimensions as
        big-endian 32-bit integers, the elements.
    name : str
        Name of the file, for error messages.

    Returns
    -------
    numpy.ndarray
        The elements, uint8, in the shape of the header.

    Raises
    ------
    FormatError
        The file is truncated, longer than its shape says, or has elements of another type.
    """
    start = 4
    if len(content) >= 4:
        dimensions = content[3]
        start = 4 + 4 * dimensions
    if len(content) < start or content[:2] != b"\0\0":
        raise FormatError(f"{name} is not an idx file: its header is incomplete")
    if content[2] != _UNSIGNED_BYTE:
        raise FormatError(
            f"{name}: expected unsigned bytes (type {_UNSIGNED_BYTE:#04x}), "
            f"got elements of type {content[2]:#04x}"
        )
    shape = np.frombuffer(content[4:start], ">u4").tolist()
    if len(content) - start != math.prod(shape):
        raise FormatError(
            f"{name}: expected {math.prod(shape)} bytes for the shape {tuple(shape)}, "
            f"got {len(content) - start}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
