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


def members(archive: Path | bytes, wanted: str, name: str = "") -> Iterator[tuple[str, bytes]]:
    """Give the name and the content of every file in an archive whose whole name matches the regular expression `wanted`.

    The archive is a zip or a tar file, packed or not, or its bytes, and then `name` stands at the head of every error. A leading ``./`` of
    a member's name does not count; links and folders are passed over.

    Raises `FormatError` where a wanted member has more than `LARGEST` bytes once unpacked, or the archive is cut.
    """
    name, pattern = name or archive.name, re.compile(wanted)
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
                yield path, content
    except FormatError:
        raise
    # Whatever a damaged archive makes the standard library raise: none of it is content.
    except Exception as error:
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise FormatError(
            f"{name}: expected a zip or tar archive, found something else ({reason})"
        ) from None


def member(archive: Path, name: str) -> bytes:
    """Return the file of this name, in any folder of an archive; raises `FormatError` as `members` does, and without such a file."""
    for _, content in members(archive, rf"(?:.*/)?{re.escape(name)}"):
        return content
    raise FormatError(f"{archive.name}: there is no {name} in it")


def _files(file: BinaryIO) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    """Give the name of every file in an archive, and what opens it."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            yield from ((info.filename, partial(archive.open, info)) for info in infos)
    else:
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            infos = (info for info in archive if info.isfile())
            yield from ((info.name, partial(archive.extractfile, info)) for info in infos)
