"""Get a file from the mirror or the publisher, and trust it only with the right checksum."""

import contextlib
import gzip
import hashlib
import os
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
import pooch
import requests

from lib.paths import DATA, resolve
from lib.run.files import write_whole
from lib.tasks.sources._table import ORIGINS

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
FIRST_SEEN = "first seen"


class ChecksumError(ValueError):
    """A file is not the one that was expected."""


class DownloadError(OSError):
    """A file could not be fetched, or not be kept."""


def mirror() -> Path | None:
    """Return the folder named by ``LTD_DATA_MIRROR``, None if the variable is not set; raises `ValueError` if it is no folder."""
    value = os.environ.get(MIRROR)
    if not value:
        return None
    folder = resolve(value)  # counted from the repository, where notebooks and stages run
    if not folder.is_dir():
        raise ValueError(f"{MIRROR} is {value!r}, which is not a folder; correct or unset it")
    return folder


def in_mirror(origin: str, name: str) -> bool:
    """Return whether a mirror is set and holds the file."""
    return mirror() is not None and (mirror() / origin / name).is_file()


def fetch(origin: str, name: str) -> Path:
    """Return a file of an origin in `table.toml`, from the mirror if one is set, its SHA-256 checked where one is stated.

    Where the table says ``first seen``, the first file counts from then on: its SHA-256 is kept in
    ``data/raw/<origin>/<name>.sha256``, and a file that differs later raises `ChecksumError`. To accept another one, remove that
    record. Raises `FileNotFoundError` where a mirror is set and has no such file, else as `from_publisher`.
    """
    row, record = ORIGINS[origin], DATA / "raw" / origin / f"{name}.sha256"
    stated = {**row.get("files", {}), **row.get("mirrored", {}), **row.get("published", {})}
    sha256 = stated.get(name, "")
    if sha256 == FIRST_SEEN:
        _check_place(record)
        sha256 = record.read_text().strip() if record.exists() else ""
    if mirror() is None:
        file = from_publisher(row["address"] + name, sha256, origin)
    elif in_mirror(origin, name):
        file = mirror() / origin / name
        if sha256:
            _compare(pooch.file_hash(file), sha256, f"{origin}/{name}")
    else:
        raise FileNotFoundError(
            f"the mirror has no {origin}/{name}; unset {MIRROR} to download instead"
        )
    if stated.get(name) == FIRST_SEEN and not sha256:
        write_whole(record, lambda partial: partial.write_text(f"{pooch.file_hash(file)}\n"))
    return file


def from_publisher(url: str, sha256: str, folder: str) -> Path:
    """Download a file to ``data/raw/<folder>``, unless it is there with the right checksum.

    What an attempt left is kept and gone on from, where a checksum will tell whether the parts fit. Nothing is written
    through a link. `sha256` is empty where the publisher states none and the caller checks the content.

    Raises `ChecksumError` where what came is not what was expected, which has been removed again, and `DownloadError` where the
    publisher cannot be reached, the file is too large or takes too long, or it cannot be kept.
    """
    target, name = DATA / "raw" / folder, url.rsplit("/", 1)[1]
    part = target / f".{name}.part"

    def download(address: str, partial: Path, pooch_: object) -> None:
        _check_place(part, own=True)
        if not sha256:
            part.unlink(missing_ok=True)
        try:
            _download(address, part)
            if sha256:  # here and not by pooch, so that the sentence is the mirror's
                _compare(pooch.file_hash(part), sha256, name)
        except ChecksumError:
            part.unlink()
            raise
        part.replace(partial)

    try:
        _check_place(target / name)
        # pooch hands over a temporary name and moves the file only after the function above.
        return Path(
            pooch.retrieve(url, sha256 or None, fname=name, path=target, downloader=download)
        )
    except DownloadError:
        raise
    except requests.RequestException as error:
        raise DownloadError(
            f"{name} could not be downloaded ({type(error).__name__}); try again with a network, or "
            f"set {MIRROR} to a folder that holds the files"
        ) from None
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()  # it takes room
        raise DownloadError(
            f"{name} could not be kept in {target} ({error.strerror or error}); make room and run again"
        ) from None


def _check_place(path: Path, own: bool = False) -> None:
    """Refuse what lies where a file belongs: a folder, a pipe, or a link to one; any link where it must be a file of our `own`."""
    if (own and path.is_symlink()) or (path.exists() and not path.is_file()):
        raise DownloadError(
            f"{path} is no file{' of its own' if own else ''} but a link, a folder or a pipe; remove it and run again"
        )


def _download(address: str, part: Path) -> None:
    """Append to `part` what it lacks of the file at `address`."""
    end, name = time.monotonic() + PATIENCE, part.name[1:-5]
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
                    part.unlink()
                    raise DownloadError(
                        f"{name} has more than the {LARGEST} bytes that it may have; refused"
                    )
                file.write(piece)
                if time.monotonic() > end:
                    raise DownloadError(
                        f"{name} took longer than {PATIENCE:.0f} s; run again, which goes on where its checksum is known"
                    )


def read_or_remove(archive: Path, read: Callable[[Path], T]) -> T:
    """Return what `read` makes of a file without a stated checksum, whose content `read` checks.

    A download that is not the expected one is removed, with the record of its hash, so that the next run downloads it again;
    what lies in the mirror stays.
    """
    try:
        return read(archive)
    # Of content, of format, for want of a file in it, or of its reader's limits.
    except Exception as error:
        if mirror() is not None and archive.is_relative_to(mirror()):
            raise
        archive.unlink()
        archive.with_name(f"{archive.name}.sha256").unlink(missing_ok=True)
        if isinstance(error, ChecksumError):
            raise
        raise ChecksumError(
            f"{archive.name}: found something else than the expected archive ({error}); it has been removed: "
            "run again to download it again"
        ) from None


def arrays(origin: str, read: Callable[[Path], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the arrays of the mirror's file of an origin, or what `read` makes of its publisher's archive; the first of either."""
    if mirror() is not None:
        return read_arrays(fetch(origin, next(iter(ORIGINS[origin]["mirrored"]))))
    return read_or_remove(fetch(origin, next(iter(ORIGINS[origin]["published"]))), read)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` file; a pickled object in it raises `ValueError`."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def check_contents(origin: str, contents: Mapping[str, bytes], where: str = "") -> None:
    """Raise `ValueError` unless all that `table.toml` states of an origin's contents is there, `ChecksumError` unless as stated."""
    for name, sha256 in ORIGINS[origin]["contents"].items():
        if name not in contents:
            raise ValueError(f"there is no {name} in it")
        _compare(hashlib.sha256(contents[name]).hexdigest(), sha256, where or name)


def _compare(found: str, sha256: str, name: str) -> None:
    """Raise `ChecksumError` unless both are equal."""
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
