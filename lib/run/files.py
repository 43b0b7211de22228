"""Files that exist whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a file beside `path`, then put it in the place of `path`; return `path`.

    A reader never sees half a file, and where `write` fails what was there before stays. The folder is made if needed.
    The file beside is hidden and bears the process's number, so that two processes never write into one.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.partial{os.getpid()}{path.suffix}")
    try:
        write(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path
