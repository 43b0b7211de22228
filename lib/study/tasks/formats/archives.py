"""Read files from tar and zip archives into memory; nothing is extracted to disk."""

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
"""Largest number of bytes of one file. The largest file, GloVe's vectors, has two thirds of it."""
LARGEST_SUM = 2**30
"""Largest number of bytes of all wanted files together. The largest set, DSA, has half of it."""


def members(
    archive: Path | bytes, wanted: str, name: str = "", *, largest_sum: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of every wanted file in an archive.

    Parameters
    ----------
    archive : Path or bytes
        A zip or a tar file, compressed or not, or its bytes.
    wanted : str
        A regular expression that matches the whole name of a wanted file. A leading ``./`` of a
        file's name is ignored. Links and folders are skipped.
    name : str
        Name of the archive for error messages; by default that of the file.
    largest_sum : int, optional
        Largest number of bytes of all wanted files together, `LARGEST_SUM` by default. A caller
        that keeps only a small part of each file may allow more.

    Yields
    ------
    name : str
    content : bytes

    Raises
    ------
    FormatError
        One wanted file or all of them together have too many bytes when unpacked, or the archive is
        truncated or not an archive.
    """
    name = name or archive.name
    pattern = re.compile(wanted)
    limit = LARGEST_SUM
    if largest_sum is not None:
        limit = largest_sum
    bytes_left = limit
    try:
        with io.BytesIO(archive) if isinstance(archive, bytes) else archive.open("rb") as file:
            for path, open_member in _files(file):
                path = path.removeprefix("./")
                if not pattern.fullmatch(path):
                    continue
                content = open_member().read(LARGEST + 1)  # the stated size may be wrong
                if len(content) > LARGEST:
                    raise FormatError(
                        f"{name}: {path} has too many bytes; expected at most {LARGEST:,}"
                    )
                bytes_left -= len(content)
                if bytes_left < 0:
                    raise FormatError(
                        f"{name}: its files up to {path} have too many bytes together; expected at "
                        f"most {limit:,}"
                    )
                yield path, content
    except (FormatError, MemoryError):
        raise
    except Exception as error:  # a damaged archive makes the standard library raise anything
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise FormatError(
            f"{name} is truncated or not a zip or tar archive ({reason}); expected the "
            "publisher's file"
        ) from None


def member(archive: Path, name: str) -> bytes:
    """Return one file of an archive.

    Parameters
    ----------
    archive : Path
        A zip or a tar file.
    name : str
        The file's name, without its folder.

    Returns
    -------
    bytes
        Its content.

    Raises
    ------
    FormatError
        The archive does not contain the file, or as `members`.
    """
    for _, content in members(archive, rf"(?:.*/)?{re.escape(name)}"):
        return content
    raise FormatError(f"{archive.name} does not contain {name}; expected the publisher's file")


def _files(file: BinaryIO) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    """Yield the name of every file in an archive, and a function that opens it."""
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
