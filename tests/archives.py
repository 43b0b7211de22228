"""Build small archives and data files in the publishers' formats."""

import gzip
import hashlib
import io
import tarfile
import zipfile

import numpy as np


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def packed(content: bytes | str) -> bytes:
    """Return a gzip file."""
    if isinstance(content, str):
        content = content.encode()
    return gzip.compress(content, mtime=0)


def zipped(contents: dict[str, bytes | str], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return file.getvalue()


def tarred(contents: dict[str, bytes | str], how: str = "gz") -> bytes:
    """Return a tar archive; a content that is text is the target of a link."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=f"w:{how}") as archive:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type = tarfile.SYMTYPE
                info.linkname = content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    """Return an .npz file."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def rows(values: np.ndarray, between: str = ",") -> str:
    """Return numbers as text with three decimals, one row per line."""
    lines = []
    for row in values.astype(float):
        lines.append(between.join(f"{value:.3f}" for value in row))
    return "\n".join(lines)
