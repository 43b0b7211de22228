"""Get a file from the mirror or the publisher, and trust it only with the right checksum."""

import gzip
import hashlib
import os
import zlib
from pathlib import Path

import pooch

from lib.paths import DATA

MIRROR = "LTD_DATA_MIRROR"


class ChecksumError(ValueError):
    """A file is not the one that was expected."""


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
    folder = Path(value)
    folder = folder if folder.is_absolute() else DATA.parent / folder
    if not folder.is_dir():
        raise ValueError(f"{MIRROR} is {value!r}, which is not a folder; correct or unset it")
    return folder


def from_mirror(path: str, sha256: str | None) -> Path:
    """Return a file of the mirror, its SHA-256 checked (by the caller, on the content, if it is None).

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
        check(file.read_bytes(), sha256, path)
    return file


def check(content: bytes, sha256: str, name: str) -> None:
    """Raise `ChecksumError`, naming the file and both hashes, unless the content has the SHA-256."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ChecksumError(
            f"{name}: expected SHA-256 {sha256}, found {found}; the file is cut or altered: replace it"
        )


def unpacked(path: Path) -> bytes:
    """Return what a gzip file holds; a file that is cut or altered raises `ChecksumError`."""
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, OSError, zlib.error) as error:
        raise ChecksumError(
            f"{path.name} cannot be unpacked ({error}); the file is cut or altered: replace it"
        ) from None


def from_publisher(url: str, known_hash: str | None, folder: str) -> Path:
    """Download a file to ``data/raw/<folder>`` unless it is there, its checksum checked.

    Parameters
    ----------
    url
        Address at the publisher's.
    known_hash
        SHA-256; None where the publisher states none and the caller checks the content.
    folder
        Folder below ``data/raw``.

    Raises
    ------
    ChecksumError
        What came is not what was expected; it has been removed again.
    ConnectionError
        The publisher cannot be reached.
    """
    target = DATA / "raw" / folder
    name = url.rsplit("/", 1)[1]
    try:
        # pooch downloads to a temporary name and moves the file only when its checksum is right.
        return Path(pooch.retrieve(url, known_hash, fname=name, path=target, progressbar=False))
    except ValueError as error:
        raise ChecksumError(
            f"{name} from the publisher: {' '.join(str(error).split())}; nothing was kept, try again"
        ) from None
    except OSError as error:
        raise ConnectionError(
            f"{name} could not be downloaded ({type(error).__name__}); set {MIRROR} to a folder that holds "
            "the files, or try again with a network"
        ) from None


def fetch(path: str, sha256: str, url: str) -> Path:
    """Return a file that the mirror holds under `path` and the publisher under `url`, byte for byte."""
    if mirror() is not None:
        return from_mirror(path, sha256)
    return from_publisher(url, sha256, path.rsplit("/", 1)[0])
