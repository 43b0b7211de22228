"""The file of a prepared data set: its schema, and writing and reading it whole."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from study.results.netcdf import ResultsError, read_netcdf, write_netcdf
from study.results.schema import Variable

SCHEMA = "prepared/2"
SPLITS = ("train", "test", "validation")
PAD, START, UNKNOWN, FIRST_WORD = 0, 1, 2, 3
"""Ids of tokens: padding, start of a text, a word outside the vocabulary, the most frequent
word.
"""

_INPUTS = {
    "pixels": Variable(("sample", "time", "feature"), "uint8", "brightness", "1"),
    "tokens": Variable(("sample", "time"), "int32", "token id, by frequency", "1"),
    "series": Variable(("sample", "time", "feature"), "float32", "measurement", "1"),
}
"""Inputs by their kind."""
_TARGETS = {
    ("class", "i"): Variable(("sample",), "int16", "class", "1"),
    ("value", "f"): Variable(("sample", "output"), "float32", "value", "1"),
    ("steps", "i"): Variable(("sample", "time"), "int32", "class", "1"),
    ("steps", "f"): Variable(("sample", "time", "output"), "float32", "value", "1"),
}
"""Targets by kind of question, and whether it is a class (i) or a value (f)."""
_SPLIT = Variable(("sample",), "int8", "part of the data set", "1")
_VECTORS = Variable(("token", "component"), "float32", "vector of a token", "1")


class Arrays(NamedTuple):
    """The inputs and the targets of one part of a data set."""

    inputs: np.ndarray
    targets: np.ndarray


def prepared_dataset(
    name: str,
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    *,
    kind: str,
    source: str,
    outputs: int,
    target: str = "class",
    validation: tuple[np.ndarray, np.ndarray] | None = None,
    valid_max: int = 0,
    vocabulary_size: int = 0,
    noise_inputs: int = 1000,
    substitute: str = "",
    vectors: Mapping[str, np.ndarray] | None = None,
) -> xr.Dataset:
    """Return a data set in the schema of stage 00.

    Parameters
    ----------
    name
        Name of the data set.
    train, test, validation
        Parts, each its inputs and its targets. Inputs are pixels, (n, T, p) uint8; a real series,
        (n, T, p); or tokens, (n, T). Targets are classes, (n,) integers; values, (n, k) floats; or
        one per time step, (n, T) integers or (n, T, k) floats.
    kind
        ``pixels``, ``tokens`` or ``series``.
    source
        Citation of the data.
    outputs
        Number of classes, or of values in a target.
    target
        ``class``, ``value`` or ``steps``.
    valid_max
        Largest value that a pixel or a token can have.
    vocabulary_size
        Number of token ids; 0 for other kinds.
    noise_inputs
        Length of the noise in the noisy tasks; 1,000 in the dissertation.
    substitute
        One sentence if something stands in for the publisher's data.
    vectors
        Word vectors by name, (vocabulary, size) each, that an embedding may start from.

    Returns
    -------
    xarray.Dataset
        The data set, its parts one after the other along ``sample``.

    Raises
    ------
    ResultsError
        The arrays do not follow the schema, or cannot be stored without loss.

    """
    parts = _parts(name, train, test, validation)
    inputs = np.concatenate([part.inputs for part in parts])
    targets = np.concatenate([part.targets for part in parts])
    letter = "i" if targets.dtype.kind in "iu" else "f"
    if kind not in _INPUTS or (target, letter) not in _TARGETS:
        raise ResultsError(
            f"{name}: expected pixels, tokens or series, and as a target a class (integer), "
            f"a value (float) or steps (either), got {kind!r} and {target!r} of type "
            f"{targets.dtype}"
        )
    inputs = _stored(name, "inputs", inputs, _INPUTS[kind])
    targets = _stored(name, "targets", targets, _TARGETS[target, letter])
    if target == "steps" and targets.shape[1] != inputs.shape[1]:
        raise ResultsError(
            f"{name}: expected a target per time step, got {targets.shape[1]} for "
            f"{inputs.shape[1]} steps"
        )
    if letter == "i":
        _check_range(name, "classes", targets, outputs - 1)
    elif targets.shape[-1] != outputs:
        raise ResultsError(f"{name}: expected {outputs} numbers a target, got {targets.shape[-1]}")
    if kind != "series":
        _check_range(name, "inputs", inputs, valid_max)
    if kind == "tokens" and valid_max >= vocabulary_size:
        raise ResultsError(
            f"{name}: tokens up to {valid_max} need a vocabulary of {valid_max + 1}, "
            f"got {vocabulary_size}"
        )
    sizes = [len(part.targets) for part in parts]
    split = np.repeat(np.arange(len(parts), dtype=np.int8), sizes)
    variables = {
        "inputs": _variable(inputs, _INPUTS[kind]),
        "target": _variable(targets, _TARGETS[target, letter]),
        "split": _variable(split, _SPLIT),
    }
    for key, array in (vectors or {}).items():
        array = _stored(name, f"vectors {key!r}", array, _VECTORS)
        if len(array) != vocabulary_size:
            raise ResultsError(
                f"{name}: expected vectors of {vocabulary_size} tokens, got {len(array)}"
            )
        about = _VECTORS._replace(dims=("token", f"component_{key}"))
        variables[f"vectors_{key}"] = _variable(array, about)
    attributes = {
        "schema": SCHEMA,
        "dataset": name,
        "kind": kind,
        "target": target,
        "outputs": outputs,
        "vocabulary_size": vocabulary_size,
        "noise_inputs": noise_inputs,
        "source": source,
        "substitute": substitute,
    }
    ds = xr.Dataset(variables, attrs=attributes)
    if kind != "series":
        ds["inputs"].attrs["valid_max"] = valid_max
    flags = np.arange(len(SPLITS), dtype=np.int8)
    ds["split"].attrs.update(flag_values=flags, flag_meanings=" ".join(SPLITS))
    return ds


def save_prepared(ds: xr.Dataset, folder: str | Path) -> Path:
    """Write a data set to ``<folder>/<dataset>.nc``, whole or not at all.

    Parameters
    ----------
    ds
        A data set as `prepared_dataset` makes it.
    folder
        The folder.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    OSError
        The file cannot be written, for example because the disk is full.

    """
    path = Path(folder) / f"{ds.attrs['dataset']}.nc"
    packed = {"zlib": True, "complevel": 1, "shuffle": True}
    return write_netcdf(ds, path, dict.fromkeys(ds.data_vars, packed))


def load_file(path: str | Path) -> xr.Dataset:
    """Read a prepared data set, whose values were checked before it was written.

    Parameters
    ----------
    path
        A file that `save_prepared` wrote.

    Returns
    -------
    xarray.Dataset
        The data set, in memory.

    Raises
    ------
    ResultsError
        The file is missing, damaged, or holds something else.

    """
    ds = read_netcdf(path, "prepared data", mask_and_scale=False)
    if ds.attrs.get("schema") != SCHEMA:
        raise ResultsError(
            f"{path}: expected prepared data of schema {SCHEMA!r}, got {ds.attrs.get('schema')!r}; "
            "run notebook 00 again"
        )
    return ds


def _parts(name: str, *given: tuple[np.ndarray, np.ndarray] | None) -> Sequence[Arrays]:
    """Return the parts that there are, each with as many inputs as targets and nothing masked."""
    parts = []
    for split, part in zip(SPLITS, given, strict=True):
        if part is None:
            continue
        for what, values in zip(Arrays._fields, part, strict=True):
            if np.ma.is_masked(values):
                raise ResultsError(
                    f"{name}: some {what} of the {split} part are masked; fill or remove them"
                )
        inputs, targets = map(np.asarray, part)
        if len(inputs) != len(targets):
            raise ResultsError(
                f"{name}: expected as many inputs as targets in the {split} part, "
                f"got {len(inputs)} and {len(targets)}"
            )
        if not len(targets):
            raise ResultsError(f"{name}: the {split} part is empty")
        parts.append(Arrays(inputs, targets))
    for what in Arrays._fields:
        shapes = {getattr(part, what).shape[1:] for part in parts}
        if len(shapes) > 1:
            raise ResultsError(
                f"{name}: expected {what} of one shape in all parts, got {sorted(shapes)}"
            )
    return parts


def _stored(name: str, what: str, values: np.ndarray, about: Variable) -> np.ndarray:
    """Return values in the type they are stored in; refuse those that the type cannot hold."""
    values = np.asarray(values)
    if values.ndim != len(about.dims):
        raise ResultsError(
            f"{name}: expected {what} over ({', '.join(about.dims)}), got the shape {values.shape}"
        )
    if values.dtype.kind not in "biuf":
        raise ResultsError(f"{name}: expected numbers as {what}, got {values.dtype}")
    if values.dtype.kind == "f" and (bad := int((~np.isfinite(values)).sum())):
        raise ResultsError(f"{name}: expected finite {what}, got {bad} that are not")
    with np.errstate(over="ignore", invalid="ignore"):
        stored = values.astype(about.dtype, copy=False)
    lost = stored != values
    if stored.dtype.kind == "f":  # rounding loses nothing, an overflow does
        lost = ~np.isfinite(stored)
    if lost.any():
        raise ResultsError(
            f"{name}: expected {what} that {about.dtype} can hold, "
            f"got {int(lost.sum())} that it cannot, such as {values[lost][0]}"
        )
    return stored


def _variable(values: np.ndarray, about: Variable) -> tuple:
    return about.dims, values, {"long_name": about.meaning, "units": about.units}


def _check_range(name: str, what: str, values: np.ndarray, largest: int) -> None:
    if values.min() < 0 or values.max() > largest:
        raise ResultsError(
            f"{name}: expected {what} 0..{largest}, got {values.min()}..{values.max()}"
        )
