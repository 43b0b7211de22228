"""Files that exist whole or not at all."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_whole(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a file beside `path`, then put it in the place of `path`; return `path`.

    A reader never sees half a file, and where `write` fails what was there before stays. The folder is made if needed.
    The file beside is hidden and bears the process's number, so that two processes never write into one.

    Raises
    ------
    OSError
        As `write` raised it; one of a full disk names the file and says what to do.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.partial{os.getpid()}{path.suffix}")
    try:
        write(partial)
        partial.replace(path)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        said = f"{os.strerror(error.errno)}; make room and run again"
        raise OSError(error.errno, said, str(path)) from None
    finally:
        partial.unlink(missing_ok=True)
    return path
