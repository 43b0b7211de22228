"""Get a file from the mirror or from its publisher, and check its SHA-256."""

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
"""Environment variable that names a local folder with the publishers' files."""
SILENCE = 60.0
"""Number of seconds without data after which a download fails."""


class ChecksumError(ValueError):
    """A file is not the one that was expected."""


class DownloadError(OSError):
    """A file could not be downloaded or stored."""


def mirror() -> Path | None:
    """Return the folder named by ``LTD_DATA_MIRROR``.

    Returns
    -------
    Path or None
        None if the variable is not set.

    Raises
    ------
    ValueError
        The variable does not name a folder.
    """
    value = os.environ.get(MIRROR)
    if not value:
        return None
    folder = resolve(value)  # relative to the repository, where notebooks and stages run
    if not folder.is_dir():
        raise ValueError(f"{MIRROR} is {value!r}, which is not a folder; correct or unset it")
    return folder


def in_mirror(origin: str, name: str) -> bool:
    """Return whether a mirror is set and has a file.

    Parameters
    ----------
    origin : str
        Name of the origin in `table.toml`, which is also its folder in the mirror.
    name : str
        Name of the file.

    Returns
    -------
    bool
    """
    return mirror() is not None and (mirror() / origin / name).is_file()


def fetch(origin: str, name: str) -> Path:
    """Return the path of a file, from the mirror if one is set, else from its publisher.

    Parameters
    ----------
    origin : str
        Name of the origin in `table.toml`.
    name : str
        Name of the file.

    Returns
    -------
    Path
        The file. Its SHA-256 is checked if `table.toml` has one.

    Raises
    ------
    FileNotFoundError
        A mirror is set and does not have the file.
    ChecksumError
        The file is truncated or altered.
    DownloadError
        The publisher can't be reached, or the file can't be stored.
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

    Parameters
    ----------
    url : str
        Address of the file.
    sha256 : str
        Its checksum. It is empty if the publisher states none; the caller then checks the content.
    folder : str
        Name of the folder in ``data/raw``.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        The file has another checksum.
    DownloadError
        The publisher can't be reached, or the file can't be stored. No file remains.
    """
    target = DATA / "raw" / folder
    name = url.rsplit("/", 1)[1]
    # Without compression for the transfer, which would change the checksum.
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
            f"or set {MIRROR} to a folder that contains the files"
        ) from None
    except OSError as error:
        raise DownloadError(
            f"{name} could not be stored in {target} ({error.strerror or error}); make room and "
            "run again"
        ) from None
    return Path(path)


def read_or_remove(archive: Path, read: Callable[[Path], T]) -> T:
    """Read a file without a known checksum, and delete a download that can't be read.

    Parameters
    ----------
    archive : Path
        The file. A download that can't be read is deleted, so that the next run downloads it again.
        A file in the mirror is kept.
    read : callable
        Reads the file and checks its content.

    Returns
    -------
    object
        What `read` returns.

    Raises
    ------
    ChecksumError
        `read` failed on a downloaded file. For a file in the mirror, the error of `read` is raised.
    """
    try:
        return read(archive)
    except MemoryError:  # the file may be intact
        raise
    except Exception as error:  # a wrong file can make `read` raise anything
        if mirror() is not None and archive.is_relative_to(mirror()):
            raise
        archive.unlink()
        if isinstance(error, ChecksumError):
            raise
        raise ChecksumError(
            f"{archive.name} is not the expected archive ({error}), so it was deleted; run again "
            "to download it again"
        ) from None


def arrays(origin: str, read: Callable[[Path], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the arrays of an origin, from the mirror's file or the publisher's archive.

    Parameters
    ----------
    origin : str
        Name of the origin in `table.toml`. The first file that it lists is read.
    read : callable
        Reads the publisher's archive.

    Returns
    -------
    dict of str to numpy.ndarray
    """
    if mirror() is not None:
        first_file = next(iter(ORIGINS[origin]["mirrored"]))
        return read_arrays(fetch(origin, first_file))
    first_file = next(iter(ORIGINS[origin]["published"]))
    return read_or_remove(fetch(origin, first_file), read)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an ``.npz`` file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    dict of str to numpy.ndarray

    Raises
    ------
    ValueError
        The file contains a pickled object, which could run code.
    """
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def check_contents(origin: str, contents: Mapping[str, bytes], where: str = "") -> None:
    """Check the contents of an archive against the checksums in `table.toml`.

    Parameters
    ----------
    origin : str
        Name of the origin.
    contents : mapping of str to bytes
        What was read, by name.
    where : str
        Name of the file, for error messages.

    Raises
    ------
    ValueError
        One of the contents is missing.
    ChecksumError
        One of the contents has another SHA-256.
    """
    for name, sha256 in ORIGINS[origin]["contents"].items():
        if name not in contents:
            raise ValueError(f"it does not contain {name}")
        _compare(hashlib.sha256(contents[name]).hexdigest(), sha256, where or name)


def _compare(digest: str, sha256: str, name: str) -> None:
    """Raise `ChecksumError` if a file does not have the stated SHA-256."""
    if digest != sha256:
        raise ChecksumError(
            f"{name}: expected SHA-256 {sha256}, got {digest}; the file is truncated or altered, "
            "so replace it, or run again to download it again"
        )


def unpacked(path: Path) -> bytes:
    """Return the content of a gzip file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    bytes

    Raises
    ------
    ChecksumError
        The file is truncated or altered.
    """
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, OSError, zlib.error) as error:
        raise ChecksumError(
            f"{path.name} cannot be unpacked ({error}); it is truncated or altered, so replace it"
        ) from None
