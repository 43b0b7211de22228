"""Get a file from the mirror or the publisher, and trust it only with the right checksum."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
import pooch
import requests

from study.paths import DATA, resolve
from study.tasks.sources._table import ORIGINS

T = TypeVar("T")

MIRROR = "LTD_DATA_MIRROR"
SILENCE = 60.0
"""Seconds that a publisher may be silent."""


class ChecksumError(ValueError):
    """A file is not the one that was expected."""


class DownloadError(OSError):
    """A file could not be fetched, or not be kept."""


def mirror() -> Path | None:
    """Return the folder named by ``LTD_DATA_MIRROR``.

    Returns
    -------
    Path or None
        None if the variable is not set.

    Raises
    ------
    ValueError
        It names no folder.
    """
    value = os.environ.get(MIRROR)
    if not value:
        return None
    folder = resolve(value)  # counted from the repository, where notebooks and stages run
    if not folder.is_dir():
        raise ValueError(f"{MIRROR} is {value!r}, which is not a folder; correct or unset it")
    return folder


def in_mirror(origin: str, name: str) -> bool:
    """Return whether a mirror is set and holds a file.

    Parameters
    ----------
    origin
        Folder of the publisher in the mirror.
    name
        Name of the file.

    Returns
    -------
    bool
    """
    return mirror() is not None and (mirror() / origin / name).is_file()


def fetch(origin: str, name: str) -> Path:
    """Return a file of an origin, from the mirror if one is set, otherwise from its publisher.

    Parameters
    ----------
    origin
        Name of the origin in `table.toml`.
    name
        Name of the file.

    Returns
    -------
    Path
        The file, its SHA-256 checked if one is stated.

    Raises
    ------
    FileNotFoundError
        A mirror is set and has no such file.
    ChecksumError
        The file is cut or altered.
    DownloadError
        The publisher cannot be reached, or the file cannot be kept.
    """
    row = ORIGINS[origin]
    stated = {**row.get("files", {}), **row.get("mirrored", {}), **row.get("published", {})}
    sha256 = stated.get(name, "")
    if mirror() is None:
        return from_publisher(row["address"] + name, sha256, origin)
    if not in_mirror(origin, name):
        raise FileNotFoundError(
            f"the mirror has no {origin}/{name}; unset {MIRROR} to download instead"
        )
    file = mirror() / origin / name
    if sha256:
        _compare(pooch.file_hash(file), sha256, f"{origin}/{name}")
    return file


def from_publisher(url: str, sha256: str, folder: str) -> Path:
    """Download a file to ``data/raw/<folder>``, unless it is there with the right checksum.

    `sha256` is empty if the publisher states none and the caller checks the content. Raises
    `ValueError` if the file has another checksum, and `DownloadError` if the publisher cannot be
    reached or the file cannot be kept; nothing is left then.
    """
    target, name = DATA / "raw" / folder, url.rsplit("/", 1)[1]
    # Its bytes as they are: packed once more on the way they would have another checksum.
    download = pooch.HTTPDownloader(
        chunk_size=2**16, timeout=SILENCE, headers={"Accept-Encoding": "identity"}
    )
    if (target / name).exists() and not (target / name).is_file():
        raise DownloadError(
            f"{target / name} is not a file but a link, a folder or a pipe; remove it and run again"
        )
    try:
        path = pooch.retrieve(url, sha256 or None, fname=name, path=target, downloader=download)
    except requests.RequestException as error:
        raise DownloadError(
            f"{name} could not be downloaded ({type(error).__name__}); try again with a network, "
            "or "
            f"set {MIRROR} to a folder that holds the files"
        ) from None
    except OSError as error:
        raise DownloadError(
            f"{name} could not be kept in {target} ({error.strerror or error}); make room and run "
            "again"
        ) from None
    return Path(path)


def read_or_remove(archive: Path, read: Callable[[Path], T]) -> T:
    """Return what `read` makes of a file without a stated checksum, whose content `read` checks.

    A download that is not the expected one is removed, so that the next run downloads it again;
    what lies in the mirror stays.
    """
    try:
        return read(archive)
    # Of content, of format, for want of a file in it, or of its reader's limits.
    except Exception as error:
        if mirror() is not None and archive.is_relative_to(mirror()):
            raise
        archive.unlink()
        if isinstance(error, ChecksumError):
            raise
        raise ChecksumError(
            f"{archive.name}: got something else than the expected archive ({error}); it has "
            "been removed: "
            "run again to download it again"
        ) from None


def arrays(origin: str, read: Callable[[Path], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the arrays of an origin, from the mirror's file or the publisher's archive.

    Parameters
    ----------
    origin
        Name of the origin in `table.toml`; the first file it lists is read.
    read
        Reads the publisher's archive.

    Returns
    -------
    dict
        Arrays by name.
    """
    if mirror() is not None:
        return read_arrays(fetch(origin, next(iter(ORIGINS[origin]["mirrored"]))))
    return read_or_remove(fetch(origin, next(iter(ORIGINS[origin]["published"]))), read)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an ``.npz`` file.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    dict of str to numpy.ndarray

    Raises
    ------
    ValueError
        It holds a pickled object.
    """
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def check_contents(origin: str, contents: Mapping[str, bytes], where: str = "") -> None:
    """Compare what was read with the contents that `table.toml` states for an origin.

    Parameters
    ----------
    origin
        Name of the origin.
    contents
        What was read, by name.
    where
        Name of the file, for error messages.

    Raises
    ------
    ValueError
        Something is missing.
    ChecksumError
        Something has another SHA-256.
    """
    for name, sha256 in ORIGINS[origin]["contents"].items():
        if name not in contents:
            raise ValueError(f"there is no {name} in it")
        _compare(hashlib.sha256(contents[name]).hexdigest(), sha256, where or name)


def _compare(digest: str, sha256: str, name: str) -> None:
    """Raise `ChecksumError` unless both are equal."""
    if digest != sha256:
        raise ChecksumError(
            f"{name}: expected SHA-256 {sha256}, got {digest}; the file is cut or altered: "
            "replace it, or run again to download it again"
        )


def unpacked(path: Path) -> bytes:
    """Return the content of a gzip file.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    bytes

    Raises
    ------
    ChecksumError
        It is cut or altered.
    """
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, OSError, zlib.error) as error:
        raise ChecksumError(
            f"{path.name} cannot be unpacked ({error}); the file is cut or altered: replace it"
        ) from None
