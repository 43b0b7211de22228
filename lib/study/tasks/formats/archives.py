"""Members of tar and zip archives, read straight from the archive: nothing is ever extracted."""

import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from study.tasks.formats import FormatError

LARGEST = 2**29
"""Bytes that a member may have; the largest, GloVe's vectors, has two thirds of it."""
LARGEST_SUM = 2**30
"""Bytes that all wanted members may have together; the largest such set, DSA, has half of it."""


def members(
    archive: Path | bytes, wanted: str, name: str = "", *, largest_sum: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """Give the name and the content of every wanted file in an archive.

    Parameters
    ----------
    archive
        A zip or a tar file, compressed or not, or its bytes.
    wanted
        A regular expression that the whole name of a wanted file matches. A leading ``./`` of a
        member's name does not count; links and folders are passed over.
    name
        Name of the archive, for error messages; that of the file by default.
    largest_sum
        Bytes that all wanted members may have together, `LARGEST_SUM` by default. A caller that
        keeps little of each member may allow more.

    Yields
    ------
    tuple
        Name and content.

    Raises
    ------
    FormatError
        A wanted member, or all together, have more bytes than they may have once unpacked, or the
        archive is cut or something else.

    """
    name = name or archive.name
    pattern = re.compile(wanted)
    left = LARGEST_SUM if largest_sum is None else largest_sum
    try:
        with io.BytesIO(archive) if isinstance(archive, bytes) else archive.open("rb") as file:
            for path, open_member in _files(file):
                path = path.removeprefix("./")
                if not pattern.fullmatch(path):
                    continue
                content = open_member().read(LARGEST + 1)  # never more, whatever is stated
                if len(content) > LARGEST:
                    raise FormatError(
                        f"{name}: {path} has more than the {LARGEST} bytes that it may have"
                    )
                left -= len(content)
                if left < 0:
                    raise FormatError(
                        f"{name}: with {path} its files have more bytes than they may have together"
                    )
                yield path, content
    except FormatError:
        raise
    # Whatever a damaged archive makes the standard library raise: none of it is content.
    except Exception as error:
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise FormatError(
            f"{name}: expected a zip or tar archive, got something else ({reason})"
        ) from None


def member(archive: Path, name: str) -> bytes:
    """Return one file of an archive.

    Parameters
    ----------
    archive
        A zip or a tar file.
    name
        The file's name, without its folder.

    Returns
    -------
    bytes
        Its content.

    Raises
    ------
    FormatError
        As `members`, or there is no such file.

    """
    for _, content in members(archive, rf"(?:.*/)?{re.escape(name)}"):
        return content
    raise FormatError(f"{archive.name}: there is no {name} in it")


def _files(file: BinaryIO) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    """Give the name of every file in an archive, and a function that opens it."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    yield info.filename, partial(archive.open, info)
    else:
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            for info in archive:
                if info.isfile():
                    yield info.name, partial(archive.extractfile, info)
