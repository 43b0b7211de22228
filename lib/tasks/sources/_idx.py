"""The idx format of MNIST and Fashion MNIST."""

import gzip
from pathlib import Path

import numpy as np

MAGIC = {1: 0x00000801, 3: 0x00000803}
"""Magic numbers of unsigned bytes with one or three dimensions."""


def read_idx(path: Path) -> np.ndarray:
    """Return the array in a gzipped idx file of unsigned bytes.

    Raises
    ------
    ValueError
        The file is no idx file, or holds less or more than its header says.
    """
    content = gzip.decompress(path.read_bytes())
    dimensions = content[3] if len(content) > 3 else 0
    if MAGIC.get(dimensions) != int.from_bytes(content[:4], "big"):
        raise ValueError(f"{path.name} is no idx file of bytes with one or three dimensions")
    start = 4 + 4 * dimensions
    shape = np.frombuffer(content[4:start], ">u4").astype(int)
    if len(content) - start != np.prod(shape):
        raise ValueError(
            f"{path.name}: expected {np.prod(shape)} values, got {len(content) - start}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def images_as_sequences(images: np.ndarray) -> np.ndarray:
    """Return images (n, rows, columns) as sequences of pixels (n, T, 1), row by row."""
    return images.reshape(len(images), -1, 1)
