"""The idx format of MNIST and Fashion MNIST."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from lib.tasks.sources._fetch import unpacked

MAGIC = {1: 0x00000801, 3: 0x00000803}
"""Magic numbers of unsigned bytes with one or three dimensions."""

Part = tuple[np.ndarray, np.ndarray]


def read_idx(path: Path) -> np.ndarray:
    """Return the array in a gzipped idx file of unsigned bytes.

    Raises
    ------
    ValueError
        The file is no idx file, or holds less or more than its header says.
    """
    content = unpacked(path)
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


def read_parts(fetch_file: Callable[[str], Path]) -> list[Part]:
    """Return training and test part as sequences of pixels (n, T, 1), row by row, and labels (n,).

    Parameters
    ----------
    fetch_file
        Gives the path of a file, from the name that it has in both data sets.
    """
    parts = []
    for prefix in ("train", "t10k"):
        images = read_idx(fetch_file(f"{prefix}-images-idx3-ubyte.gz"))
        labels = read_idx(fetch_file(f"{prefix}-labels-idx1-ubyte.gz"))
        parts.append((images.reshape(len(images), -1, 1), labels))
    return parts
