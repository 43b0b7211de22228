"""Write files completely or not at all, and move damaged ones out of the way."""

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

_MAKE_ROOM = "make room and run again"
_ALLOW = "let this user write there and run again"
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Numbers of the errors of a file that this user must not write."""
_ADVICE = {
    errno.ENOSPC: _MAKE_ROOM,
    errno.EDQUOT: _MAKE_ROOM,
    errno.EFBIG: _MAKE_ROOM,
    **dict.fromkeys(NOT_ALLOWED, _ALLOW),
}
"""What to do if a file can't be written, by the number of the error."""


def write_whole(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Write a file completely or not at all.

    A reader never sees half a file, and if `write` fails, the previous file stays. The content is
    first written to a hidden file. The name of that file contains the process id and a random
    number, so that two processes never write to the same file, and no link is followed.

    Parameters
    ----------
    path
        The file. Its folder is made if needed.
    write
        Function that writes the content. It gets the path of a new file in the same folder.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    OSError
        As raised by `write`; if the disk is full or the folder is read-only, the message names the
        file and says what to do.
    """
    path = Path(path)
    partial = path.with_name(f".{path.stem}.partial{os.getpid()}-{token_hex(4)}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        partial.replace(path)
    except OSError as error:
        if error.errno not in _ADVICE:
            raise
        message = f"{os.strerror(error.errno)}; {_ADVICE[error.errno]}"
        raise OSError(error.errno, message, str(path)) from None
    finally:
        # Where nothing can be written, nothing can be removed, and there is nothing to remove.
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    return path


def check_writable(folder: Path) -> None:
    """Make a folder if needed, and check that this process can write to it.

    Parameters
    ----------
    folder
        Folder for results of long work, which would be lost if they could not be written.

    Raises
    ------
    OSError
        It can't be made, it is read-only, or its disk is full; see `write_whole`.
    """
    name = f".trial{os.getpid()}-{token_hex(4)}"
    try:
        trial = write_text(folder / name, "This folder can be written to.\n")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None
    trial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file completely or not at all, as `write_whole` does.

    Parameters
    ----------
    path
        The file. Its folder is made if needed.
    text
        Its content, which is written in UTF-8.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    OSError
        See `write_whole`.
    """
    return write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def set_aside(path: Path) -> Path:
    """Rename a file, folder or link to ``<stem>.damaged``, which nothing reads.

    If there is a file with this name, a file replaces it. In all other cases in which the name is
    already used, a number is appended to it.

    Parameters
    ----------
    path
        A damaged file, folder or link.

    Returns
    -------
    Path
        The new name.
    """
    aside = path.with_suffix(".damaged")
    number = 1
    while os.path.lexists(aside) and not (_is_file(aside) and _is_file(path)):
        aside = path.with_suffix(f".damaged{number}")
        number += 1
    return path.replace(aside)


def _is_file(path: Path) -> bool:
    """Return whether a path is a file or a link, broken links included."""
    return path.is_symlink() or path.is_file()
