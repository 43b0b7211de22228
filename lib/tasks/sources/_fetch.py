"""Get a file from the mirror or the publisher, and trust it only with the right checksum."""

import gzip
import hashlib
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pooch
import requests

from lib.paths import DATA, resolve
from lib.run.files import write_whole

T = TypeVar("T")

MIRROR = "LTD_DATA_MIRROR"
LARGEST = 2**32
"""Bytes that a file may have; the largest, of word vectors and of speech, have half of it."""
PATIENCE = 3600.0
"""Seconds that one attempt at a file may take; the next goes on where it ended."""
SILENCE = 60.0
"""Seconds that a publisher may be silent."""
UNPACKED = 2**29
"""Bytes that a packed file of the mirror may unpack to; the largest has a sixth of it."""


class ChecksumError(ValueError):
    """A file is not the one that was expected."""


class DownloadError(OSError):
    """A file could not be fetched, or not be kept."""


def mirror() -> Path | None:
    """Return the folder named by ``LTD_DATA_MIRROR``, or None if the variable is not set.

    Raises
    ------
    ValueError
        The variable names something that is not a folder.
    """
    value = os.environ.get(MIRROR)
    if not value:
        return None
    # Relative paths count from the repository, as notebooks and stages run there.
    folder = resolve(value)
    if not folder.is_dir():
        raise ValueError(f"{MIRROR} is {value!r}, which is not a folder; correct or unset it")
    return folder


def from_mirror(path: str, sha256: str | None) -> Path:
    """Return a file of the mirror, its SHA-256 checked.

    Parameters
    ----------
    path
        The file's place in the mirror.
    sha256
        What is expected; None leaves the check to the caller, on the unpacked content.

    Raises
    ------
    FileNotFoundError
        The mirror has no such file.
    ChecksumError
        The file is cut or altered.
    """
    file = mirror() / path
    if not file.is_file():
        raise FileNotFoundError(f"the mirror has no {path}; unset {MIRROR} to download instead")
    if sha256 is not None:
        check_file(file, sha256, path)
    return file


def in_mirror(path: str) -> bool:
    """Return whether a mirror is set and holds the file."""
    return mirror() is not None and (mirror() / path).is_file()


def from_publisher(url: str, sha256: str | None, folder: str) -> Path:
    """Download a file to ``data/raw/<folder>``, unless it is there with the right checksum.

    What an attempt left is kept and gone on from, where a checksum will tell whether the parts fit.

    Parameters
    ----------
    url
        Address at the publisher's.
    sha256
        What is expected; None where the publisher states none and the caller checks the content.
    folder
        Folder below ``data/raw``.

    Raises
    ------
    ChecksumError
        What came is not what was expected; it has been removed again.
    DownloadError
        The publisher cannot be reached, the file is too large or takes too long, or there is no room for it.
    """
    target = DATA / "raw" / folder
    name = url.rsplit("/", 1)[1]

    def download(address: str, partial: Path, pooch_: object) -> None:
        part = target / f".{name}.part"
        if sha256 is None:
            part.unlink(missing_ok=True)
        try:
            _download(address, part)
            if sha256 is not None:  # here and not by pooch, so that the sentence is the mirror's
                check_file(part, sha256, name)
        except (ChecksumError, _TooLarge):
            part.unlink()
            raise
        part.replace(partial)

    try:
        # pooch hands over a temporary name and moves the file only after the function above.
        return Path(pooch.retrieve(url, sha256, fname=name, path=target, downloader=download))
    except DownloadError:
        raise
    except requests.RequestException as error:
        raise DownloadError(
            f"{name} could not be downloaded ({type(error).__name__}); try again with a network, or "
            f"set {MIRROR} to a folder that holds the files"
        ) from None
    except OSError as error:
        (target / f".{name}.part").unlink(missing_ok=True)  # it takes room
        raise DownloadError(
            f"{name} could not be kept in {target} ({error.strerror or error}); make room and run again"
        ) from None


class _TooLarge(DownloadError):
    """More came than a file may have."""


def _download(address: str, part: Path) -> None:
    """Append to `part` what it lacks of the file at `address`."""
    end = time.monotonic() + PATIENCE
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(address, headers=headers, stream=True, timeout=SILENCE) as answer:
        if have and answer.status_code == requests.codes.requested_range_not_satisfiable:
            return  # it is whole, or another file's, which its checksum tells
        answer.raise_for_status()
        if not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0  # the publisher sends all of it
        with part.open("ab" if have else "wb") as file:
            for piece in answer.iter_content(2**16):
                have += len(piece)
                if have > LARGEST:
                    raise _TooLarge(
                        f"{part.name[1:-5]} has more than the {LARGEST} bytes that it may have; refused"
                    )
                file.write(piece)
                if time.monotonic() > end:
                    raise DownloadError(
                        f"{part.name[1:-5]} took longer than {PATIENCE:.0f} s; run again, which goes on where its checksum is known"
                    )


def fetch(path: str, sha256: str, url: str) -> Path:
    """Return a file that the mirror holds under `path` and the publisher, equal, under `url`."""
    if mirror() is not None:
        return from_mirror(path, sha256)
    return from_publisher(url, sha256, path.rsplit("/", 1)[0])


def fetch_pinned(path: str, url: str) -> Path:
    """Return a file whose publisher states no checksum: the first one seen counts from then on.

    Its SHA-256 is kept in ``data/raw/<folder>/<file>.sha256``; a file that differs later raises `ChecksumError`. To accept
    another one, remove the record.
    """
    if in_mirror(path):
        file = from_mirror(path, None)
    else:
        file = from_publisher(url, None, path.rsplit("/", 1)[0])
    record = DATA / "raw" / f"{path}.sha256"
    if record.exists():
        check_file(file, record.read_text().strip(), path)
    else:
        write_whole(record, lambda partial: partial.write_text(f"{_sha256(file)}\n"))
    return file


def read_or_remove(archive: Path, read: Callable[[Path], T]) -> T:
    """Return what `read` makes of a download without a stated checksum, whose content `read` checks.

    One that is not the expected one is removed, with the record of its hash, so that the next run downloads it again.

    Raises
    ------
    ChecksumError
        What was found instead.
    """
    try:
        return read(archive)
    except (ValueError, LookupError) as error:  # of content, of format, or for want of a file in it
        archive.unlink()
        archive.with_name(f"{archive.name}.sha256").unlink(missing_ok=True)
        if isinstance(error, ChecksumError):
            raise
        raise ChecksumError(
            f"{archive.name}: found something else than the expected archive ({error}); it has been removed: "
            "run again to download it again"
        ) from None


def check(content: bytes, sha256: str, name: str) -> None:
    """Raise `ChecksumError`, naming the file and both hashes, unless the content has the SHA-256."""
    _compare(hashlib.sha256(content).hexdigest(), sha256, name)


def check_file(file: Path, sha256: str, name: str) -> None:
    """Raise `ChecksumError` unless the file has the SHA-256; files larger than the memory are no trouble."""
    _compare(_sha256(file), sha256, name)


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _compare(found: str, sha256: str, name: str) -> None:
    if found != sha256:
        raise ChecksumError(
            f"{name}: expected SHA-256 {sha256}, found {found}; the file is cut or altered: "
            "replace it, or run again to download it again"
        )


def unpacked(path: Path, largest: int = UNPACKED) -> bytes:
    """Return what a gzip file holds; one that is cut, altered or larger than it may be raises `ChecksumError`."""
    try:
        with gzip.open(path) as file:
            content = file.read(largest + 1)  # never more, whatever the file would unpack to
        if len(content) > largest:
            raise EOFError(f"it holds more than {largest} bytes")
        if not path.stat().st_size:
            raise EOFError("it is empty")
    except (EOFError, OSError, zlib.error) as error:
        raise ChecksumError(
            f"{path.name} cannot be unpacked ({error}); the file is cut or altered: replace it"
        ) from None
    return content


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` file; a pickled object in it raises `ValueError`."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file}
