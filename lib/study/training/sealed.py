"""Sealed files: files with a checksum, for results and checkpoints.

They are written whole or not at all, and a damaged file is never used.
"""

import hashlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from study.pipeline.files import set_aside, write_whole

_DIGEST_BYTES = 32


def write_sealed(path: Path, write: Callable[[io.BytesIO], object]) -> Path:
    """Write a file whole or not at all, followed by a checksum.

    Parameters
    ----------
    path : Path
        The checksum covers the content and the file's name, so that a renamed file is detected.
    write : callable
        Writes the content into the buffer that it gets.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    OSError
        The file could not be written; no incomplete file remains.
    """
    buffer = io.BytesIO()
    write(buffer)
    content = buffer.getvalue()
    return write_whole(path, lambda file: file.write_bytes(content + _digest(path, content)))


def read_sealed(path: Path, read: Callable[[io.BytesIO], Any], consequence: str) -> Any:
    """Read a file that `write_sealed` wrote.

    Parameters
    ----------
    path : Path
        If its checksum is wrong or `read` fails, the file is renamed, so that nothing reads it
        again, and a line is printed.
    read : callable
        Converts the content to an object.
    consequence : str
        What happens without the file, such as ``its job runs again``, for the end of that line.

    Returns
    -------
    object
        The result of `read`; None if the file is missing or damaged.

    Raises
    ------
    OSError, MemoryError
        The disk or the memory failed. The file may be intact, and stays where it is.
    """
    if not os.path.lexists(path):
        return None
    try:
        return read(io.BytesIO(_checked_content(path)))
    except (MemoryError, OSError):
        raise
    except Exception as error:  # a damaged file can make `read` raise anything
        reason = str(error).partition("\n")[0] or type(error).__name__
        log_line(f"{path.name} is damaged ({reason}); {consequence}")
        set_aside(path)
        return None


def _checked_content(path: Path) -> bytes:
    """Return a sealed file's content; raise `ValueError` if its checksum is wrong."""
    stored = path.read_bytes() if path.is_file() else b""
    content = stored[:-_DIGEST_BYTES]
    if stored != content + _digest(path, content):
        raise ValueError("its content is not what was written")
    return content


def _digest(path: Path, content: bytes) -> bytes:
    """Return the checksum of a file's name (without extension) and content."""
    return hashlib.sha256(path.stem.encode() + content).digest()


def log_line(line: str) -> None:
    """Print a line to standard error, which executed notebooks don't store.

    Parameters
    ----------
    line : str
    """
    print(line, file=sys.stderr, flush=True)
