"""Files that exist whole or not at all."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_whole(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a file beside `path`, then put it in the place of `path`; return `path`.

    A reader never sees half a file, and where `write` fails what was there before stays. The folder is made if needed.
    The file beside is hidden and bears the process's number and a random one, so that two processes never write into one, and nothing
    that lies there, such as a link, is followed.

    An OSError is as `write` raised it; one of a full disk names the file and says what to do.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.partial{os.getpid()}-{token_hex(4)}{path.suffix}")
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


def set_aside(path: Path) -> Path:
    """Rename what lies at `path`, a file, a folder or a link, to ``<stem>.damaged``, which nothing reads; return the new name."""
    aside, more = path.with_suffix(".damaged"), 1
    while os.path.lexists(aside) and not (_is_file(aside) and _is_file(path)):
        aside, more = path.with_suffix(f".damaged{more}"), more + 1
    return path.replace(aside)


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()
