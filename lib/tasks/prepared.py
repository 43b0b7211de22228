"""The file of a prepared data set: its schema, and writing and reading it whole."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import xarray as xr

from lib.results.schema import ResultsError, Schema, read_netcdf, write_netcdf

SCHEMA = "prepared/2"
SPLITS = ("train", "test", "validation")
PAD, START, UNKNOWN, FIRST_WORD = 0, 1, 2, 3
"""Ids of tokens: filling, start of a text, a word not in the vocabulary, the most frequent word."""

_ATTRIBUTES = (
    *("dataset", "kind", "target", "outputs", "vocabulary_size", "noise_inputs"),
    *("source", "substitute"),
)
_INPUTS = {
    "pixels": (("sample", "time", "feature"), "uint8", "brightness", "1"),
    "tokens": (("sample", "time"), "int32", "token id, by frequency", "1"),
    "series": (("sample", "time", "feature"), "float32", "measurement", "1"),
}
_TARGETS = {
    ("class", "i"): (("sample",), "int16", "class", "1"),
    ("value", "f"): (("sample", "output"), "float32", "value", "1"),
    ("steps", "i"): (("sample", "time"), "int32", "class", "1"),
    ("steps", "f"): (("sample", "time", "output"), "float32", "value", "1"),
}
"""Dimensions, type, meaning and unit, of inputs by kind, of targets by what is asked for and whether it is a class or a value."""

Arrays = tuple[np.ndarray, np.ndarray]


def _schema(name: str, kind: str, target: str, letter: str) -> Schema:
    """Return the schema of a data set's kind, target, and type of targets (``i`` or ``f``)."""
    if kind not in _INPUTS or (target, letter) not in _TARGETS:
        raise ResultsError(
            f"{name}: expected pixels, tokens or series, and as a target a class (integer), a value (float) or steps (either), "
            f"got {kind!r} and {target!r} of type {letter!r}"
        )
    return Schema(
        SCHEMA,
        coordinates={},
        variables={
            "inputs": _INPUTS[kind],
            "target": _TARGETS[target, letter],
            "split": (("sample",), "int8", "part of the data set", "1"),
        },
        check=_check_values,
        attributes=_ATTRIBUTES,
    )


def prepared_dataset(
    name: str,
    train: Arrays,
    test: Arrays,
    *,
    kind: str,
    source: str,
    outputs: int,
    target: str = "class",
    validation: Arrays | None = None,
    valid_max: int = 0,
    vocabulary_size: int = 0,
    noise_inputs: int = 1000,
    substitute: str = "",
    vectors: Mapping[str, np.ndarray] | None = None,
) -> xr.Dataset:
    """Return a data set in the schema of stage 00; raises `ResultsError` where what is given does not follow it.

    A part is inputs, (n, T, p) of pixels (uint8) or of a real series, or (n, T) of tokens; and targets: of a ``class`` (n,) integers, of a
    ``value`` (n, k) floats, of ``steps`` (n, T) integers or (n, T, k) floats. `outputs` are the classes, or the values in a target,
    `valid_max` is the largest value that an input of pixels or tokens can take, `noise_inputs` the length of the noise in the noisy tasks;
    the dissertation's is 1,000. `substitute` is one sentence if something stands in for the publisher's data, `vectors` are those of the
    tokens by name, (vocabulary, size) each, that an embedding may start from.
    """
    parts = [train, test] if validation is None else [train, test, validation]
    flags = np.arange(len(SPLITS), dtype=np.int8)
    values = {
        "inputs": np.concatenate([part[0] for part in parts]),
        "target": np.concatenate([part[1] for part in parts]),
        "split": np.repeat(flags[: len(parts)], [len(part[1]) for part in parts]),
    }
    more = {"split": {"flag_values": flags, "flag_meanings": " ".join(SPLITS)}}
    if kind != "series":
        more["inputs"] = {"valid_max": valid_max}
    letter = "i" if values["target"].dtype.kind in "iu" else "f"
    variables = {}
    for key, (dims, dtype, text, units) in _schema(name, kind, target, letter).variables.items():
        about = {"long_name": text, "units": units} | more.get(key, {})
        variables[key] = (dims, values[key].astype(dtype), about)
    about = {"long_name": "vector of a token", "units": "1"}
    for key, array in (vectors or {}).items():
        variables[f"vectors_{key}"] = (("token", "component"), array.astype(np.float32), about)
    said = (name, kind, target, outputs, vocabulary_size, noise_inputs, source, substitute)
    attrs = {"schema": SCHEMA} | dict(zip(_ATTRIBUTES, said, strict=True))
    return validate_prepared(xr.Dataset(variables, attrs=attrs))


def validate_prepared(ds: xr.Dataset) -> xr.Dataset:
    """Return `ds` unchanged if it follows the schema; raises `ResultsError` with the first thing that is wrong."""
    if ds.attrs.get("schema") != SCHEMA or "target" not in ds:
        raise ResultsError(
            f"expected prepared data of schema {SCHEMA!r} with a target, got {ds.attrs.get('schema')!r}; "
            "run notebook 00 again"
        )
    name, kind, target = (ds.attrs.get(key) for key in ("dataset", "kind", "target"))
    return _schema(name, kind, target, ds["target"].dtype.kind).validate(ds)


def _check_values(ds: xr.Dataset) -> None:
    name, kind, outputs = ds.attrs["dataset"], ds.attrs["kind"], int(ds.attrs["outputs"])
    # First, so that the minima below are those of something.
    for flag, split in enumerate(SPLITS[:2]):
        if not (ds["split"] == flag).any():
            raise ResultsError(f"{name}: the {split} part is empty")
    _check_range(name, "splits", ds["split"].values, len(SPLITS) - 1)
    inputs, targets = ds["inputs"].values, ds["target"].values
    for what, values in (("inputs", inputs), ("targets", targets)):
        if values.dtype.kind == "f" and (bad := int((~np.isfinite(values)).sum())):
            raise ResultsError(f"{name}: expected finite {what}, got {bad} that are not")
    if targets.dtype.kind == "i":
        _check_range(name, "classes", targets, outputs - 1)
    elif targets.shape[-1] != outputs:
        raise ResultsError(f"{name}: expected {outputs} numbers a target, got {targets.shape[-1]}")
    if kind == "series":
        return
    if "valid_max" not in ds["inputs"].attrs:
        raise ResultsError(f"{name}: inputs lacks 'valid_max', the largest value it can take")
    largest, known = int(ds["inputs"].attrs["valid_max"]), int(ds.attrs["vocabulary_size"])
    _check_range(name, "inputs", inputs, largest)
    if kind == "tokens" and largest >= known:
        raise ResultsError(
            f"{name}: tokens up to {largest} need a vocabulary of {largest + 1}, got {known}"
        )


def _check_range(name: str, what: str, values: np.ndarray, largest: int) -> None:
    if values.min() < 0 or values.max() > largest:
        raise ResultsError(
            f"{name}: expected {what} 0..{largest}, got {values.min()}..{values.max()}"
        )


def save_prepared(ds: xr.Dataset, folder: str | Path) -> Path:
    """Validate `ds` and write it to ``<folder>/<dataset>.nc``, whole or not at all; a full disk is an `OSError` that says so."""
    validate_prepared(ds)
    packed = {"zlib": True, "complevel": 1, "shuffle": True}
    return write_netcdf(
        ds, Path(folder) / f"{ds.attrs['dataset']}.nc", dict.fromkeys(ds.data_vars, packed)
    )


def load_file(path: str | Path) -> xr.Dataset:
    """Read and validate a prepared data set; raises `ResultsError` with what is wrong."""
    return validate_prepared(read_netcdf(path, "prepared data", mask_and_scale=False))
