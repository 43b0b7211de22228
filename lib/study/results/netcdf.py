"""Write netCDF files with a seal, and refuse files that were damaged, changed or renamed since.

The seal consists of `MARK` and the SHA-256 of the file's name and content. It is at the end of the
file, after the netCDF content. netCDF readers ignore what follows the content, so xarray, ncdump
and others open a sealed file as usual. Stored results (``data/reference``) may instead have their
SHA-256 in the provenance next to them, ``<name>.json``.

The hash is compared before HDF5 opens the file, because HDF5 reads some damaged files without an
error and never returns from others.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import xarray as xr

from study.paths import DATA
from study.pipeline.files import NOT_ALLOWED, write_whole

MARK = b"\nsealed sha256:"
"""Bytes between the content and its hash."""
_HASH_BYTES = 64
_SEAL_BYTES = len(MARK) + _HASH_BYTES


class ResultsError(ValueError):
    """A results dataset or file does not follow its schema, or is not as it was written."""


def write_netcdf(ds: xr.Dataset, path: str | Path, encoding: Mapping[str, Mapping]) -> Path:
    """Write a dataset as a sealed netCDF file, whole or not at all.

    Parameters
    ----------
    ds
        The dataset.
    path
        The file; its folder is made if needed.
    encoding
        How each variable is stored, as in `xarray.Dataset.to_netcdf`.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    OSError
        The file cannot be written, for example because the disk is full or the folder read-only.
    """
    path = Path(path)

    def write(partial: Path) -> None:
        try:
            ds.to_netcdf(partial, engine="netcdf4", encoding=encoding)
            _append_seal(partial, path.stem)
        except (OSError, RuntimeError) as error:  # the library reports a full disk as either
            if isinstance(error, OSError) and error.errno in NOT_ALLOWED:
                raise  # `write_whole` says what to do
            raise OSError(
                f"{path} could not be written ({error}); make room and run again"
            ) from None

    return write_whole(path, write)


def read_netcdf(path: str | Path, what: str, **options: bool) -> xr.Dataset:
    """Read a netCDF file into memory, after checking that nothing has changed it.

    Parameters
    ----------
    path
        The file.
    what
        What the file contains, for error messages.
    **options
        Passed on to `xarray.open_dataset`.

    Returns
    -------
    xarray.Dataset
        The dataset, in memory.

    Raises
    ------
    ResultsError
        The file is missing, not a regular file, changed since it was written, or unreadable.
    """
    path = Path(path)
    if not path.exists():
        # Without the hidden files that a killed `write_whole` leaves behind.
        files = sorted(file.name for file in path.parent.glob("[!.]*.nc"))
        siblings = ", ".join(files) or "nothing"
        raise ResultsError(
            f"no {what} at {path}, whose folder holds {siblings}; {_how_to_make(path)}"
        )
    if not path.is_file():
        raise ResultsError(f"{path} is not a regular file; remove it and rebuild it")
    _check_unchanged(path)
    try:
        with xr.open_dataset(path, engine="netcdf4", **options) as ds:
            return ds.load()
    except (OSError, ValueError, RuntimeError) as error:
        raise ResultsError(f"{path} is not a readable netCDF file ({error}); rebuild it") from None


def _how_to_make(path: Path) -> str:
    """Return the advice how to make the file at `path`, for an error message."""
    folder = path.parent.name
    interactive = path.is_relative_to(DATA / "interactive")
    if interactive and folder == "prepared":
        return "run notebooks/00_prepare_data.ipynb first"
    if interactive and folder == "results":
        return "run notebooks/10_train.ipynb first"
    if folder == "simulated":
        return "run notebooks/15_simulate_factorial.ipynb first, or `make repro`"
    return "build them with `make repro`"


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    str
        Hexadecimal digits.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def provenance_path(path: Path) -> Path:
    """Return the provenance file that belongs next to a stored dataset.

    Parameters
    ----------
    path
        The dataset.

    Returns
    -------
    Path
        The path of the provenance, which may not exist.
    """
    return path.with_suffix(".json")


def _append_seal(path: Path, name: str) -> None:
    seal = MARK + _named_hash(name, path.read_bytes()).encode()
    with path.open("ab") as file:
        file.write(seal)


def _named_hash(name: str, content: bytes) -> str:
    """Return the hash of a file's name and content, which differs if the file is renamed."""
    digest = hashlib.sha256(name.encode() + b"\n")
    digest.update(content)
    return digest.hexdigest()


def _check_unchanged(path: Path) -> None:
    """Refuse a file that differs from its provenance or, if it has none, from its seal."""
    recorded = _recorded_sha256(provenance_path(path))
    if recorded:
        actual = file_sha256(path)
        if actual != recorded:
            raise ResultsError(
                f"{path} has the SHA-256 {actual}, its provenance {provenance_path(path).name} "
                f"records {recorded}; restore both, for example with `git checkout`"
            )
        return
    whole = path.read_bytes()
    seal = whole[-_SEAL_BYTES:]
    if not seal.startswith(MARK):
        raise ResultsError(
            f"{path} has no seal: it was cut, not written by this project, or copied without "
            "its provenance; rebuild it with `make repro`, or copy the .json next to it, too"
        )
    content = whole[:-_SEAL_BYTES]
    if seal[len(MARK) :].decode("latin-1") != _named_hash(path.stem, content):
        raise ResultsError(
            f"{path} is not as it was written: its content or its name has changed; "
            "rebuild it with `make repro`"
        )


def _recorded_sha256(provenance: Path) -> str:
    """Return the SHA-256 that a provenance records; empty if file or field is missing."""
    if not provenance.is_file():
        return ""
    try:
        record = json.loads(provenance.read_text("utf-8"))
        return str(record["results"].get("sha256", ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(
            f"{provenance} is not a provenance file ({type(error).__name__}: {error}); "
            "restore it, for example with `git checkout`"
        ) from None
