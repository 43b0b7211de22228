"""Sealed files: files with a checksum, for results and checkpoints.

They are written whole or not at all, and a damaged file is never used.
"""

import hashlib
import os
from pathlib import Path

from study.pipeline.files import set_aside, write_whole
from study.training.log import log_line

_DIGEST_BYTES = 32


def write_sealed(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all, followed by a checksum.

    Parameters
    ----------
    path : Path
        The checksum covers the content and the file's name, so that a renamed file is detected.
    content : bytes

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    OSError
        The file could not be written; no incomplete file remains.
    """
    return write_whole(path, lambda file: file.write_bytes(content + _digest(path, content)))


def read_sealed(path: Path, consequence: str) -> bytes | None:
    """Return the content of a file that `write_sealed` wrote.

    Parameters
    ----------
    path : Path
        If its checksum is wrong, the file is renamed, so that nothing reads it again, and a line is
        printed.
    consequence : str
        What happens without the file, such as ``its job runs again``, for the end of that line.

    Returns
    -------
    bytes or None
        None if the file is missing or damaged.

    Raises
    ------
    OSError, MemoryError
        The disk or the memory failed. The file may be intact, and stays where it is.
    """
    if not os.path.lexists(path):
        return None
    try:
        stored = path.read_bytes() if path.is_file() else b""
        content = stored[:-_DIGEST_BYTES]
        if stored == content + _digest(path, content):
            return content
        set_aside(path)
    except FileNotFoundError:  # another process has just removed or renamed it
        return None
    log_line(f"{path.name} is damaged (its content is not what was written); {consequence}")
    return None


def _digest(path: Path, content: bytes) -> bytes:
    """Return the checksum of a file's name (without extension) and content."""
    return hashlib.sha256(path.stem.encode() + content).digest()
