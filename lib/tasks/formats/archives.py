"""Members of tar and zip archives, read straight from the archive: nothing is ever extracted."""

import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from lib.tasks.formats import FormatError

LARGEST = 2**29
"""Bytes that a member may have, unless a reader says otherwise; EigenWorms' files have a quarter of it."""


def members(path: Path, wanted: str, largest: int = LARGEST) -> Iterator[tuple[str, bytes]]:
    """Give the name and the content of every file in an archive whose whole name matches.

    Parameters
    ----------
    path
        A zip or a tar archive, the latter packed or not.
    wanted
        Regular expression that a member's whole name must match (a leading ``./`` does not count). Links and
        folders are passed over.
    largest
        Bytes that a member may have once unpacked.

    Raises
    ------
    FormatError
        A member's path leads outside the archive's folder, a wanted member is too large, or the archive is cut.
    """
    pattern = re.compile(wanted)
    walk = _zip if zipfile.is_zipfile(path) else _tar
    try:
        for name, size, open_member in walk(path):
            parts = PurePosixPath(name.replace("\\", "/")).parts
            if name.startswith(("/", "\\")) or ".." in parts or name[1:2] == ":":
                raise FormatError(
                    f"{path.name}: the member {name!r} lies outside the archive's folder; refused"
                )
            name = name.removeprefix("./")
            if not pattern.fullmatch(name):
                continue
            # What the archive states is not trusted: never more is read than a member may have.
            content = b"" if size > largest else open_member().read(largest + 1)
            if size > largest or len(content) > largest:
                raise FormatError(
                    f"{path.name}: {name} has more than the {largest} bytes that it may have"
                )
            yield name, content
    except FormatError:
        raise
    # Whatever a damaged archive makes the standard library raise: none of it is content.
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise FormatError(
            f"{path.name}: expected a zip or tar archive, found something else ({reason})"
        ) from None


def member(path: Path, name: str, largest: int = LARGEST) -> bytes:
    """Return one file of an archive; raises `FormatError` as `members` does, and where there is no such file."""
    for _, content in members(path, re.escape(name), largest):
        return content
    raise FormatError(f"{path.name}: there is no {name} in it")


def _zip(path: Path) -> Iterator[tuple]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                yield info.filename, info.file_size, lambda info=info: archive.open(info)


def _tar(path: Path) -> Iterator[tuple]:
    with tarfile.open(path) as archive:
        for info in archive:
            if info.isfile():
                yield info.name, info.size, lambda info=info: archive.extractfile(info)
