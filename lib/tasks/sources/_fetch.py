"""Get a file from the mirror or the publisher, and trust it only with the right checksum."""

import gzip
import hashlib
import os
import zlib
from pathlib import Path

import numpy as np
import pooch
from requests import RequestException

from lib.paths import DATA, resolve
from lib.run.files import write_whole

MIRROR = "LTD_DATA_MIRROR"


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
        The publisher cannot be reached, or there is no room for the file.
    """
    target = DATA / "raw" / folder
    name = url.rsplit("/", 1)[1]

    def download(address: str, partial: Path, pooch_: object) -> None:
        pooch.HTTPDownloader(timeout=60)(address, partial, pooch_)
        if sha256 is not None:  # here and not by pooch, so that the sentence is the mirror's
            check_file(Path(partial), sha256, name)

    try:
        # pooch hands over a temporary name and moves the file only after the function above.
        return Path(pooch.retrieve(url, sha256, fname=name, path=target, downloader=download))
    except RequestException as error:
        raise DownloadError(
            f"{name} could not be downloaded ({type(error).__name__}); try again with a network, or "
            f"set {MIRROR} to a folder that holds the files"
        ) from None
    except OSError as error:
        raise DownloadError(
            f"{name} could not be kept in {target} ({error.strerror or error}); make room and run again"
        ) from None


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


def unpacked(path: Path) -> bytes:
    """Return what a gzip file holds; a file that is cut or altered raises `ChecksumError`."""
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, OSError, zlib.error) as error:
        raise ChecksumError(
            f"{path.name} cannot be unpacked ({error}); the file is cut or altered: replace it"
        ) from None


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` file; a pickled object in it raises `ValueError`."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file}
