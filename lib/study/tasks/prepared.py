"""The file of a prepared data set: its schema, and writing and reading it whole."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import xarray as xr

from study.results.netcdf import ResultsError, read_netcdf, write_netcdf

SCHEMA = "prepared/2"
SPLITS = ("train", "test", "validation")
PAD, START, UNKNOWN, FIRST_WORD = 0, 1, 2, 3
"""Ids of tokens: filling, start of a text, a word not in the vocabulary, the most frequent word."""

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
_SPLIT = (("sample",), "int8", "part of the data set", "1")
"""Dimensions, type, meaning and unit: of inputs by kind, of targets by what is asked for and whether it is a class or a value, of the parts."""

Arrays = tuple[np.ndarray, np.ndarray]


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
    sizes = [len(targets) for _, targets in parts]
    for split, size in zip(SPLITS, sizes, strict=False):
        if not size:
            raise ResultsError(f"{name}: the {split} part is empty")
    inputs, targets = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    letter = "i" if targets.dtype.kind in "iu" else "f"
    if kind not in _INPUTS or (target, letter) not in _TARGETS:
        raise ResultsError(
            f"{name}: expected pixels, tokens or series, and as a target a class (integer), a value (float) or steps (either), "
            f"got {kind!r} and {target!r} of type {letter!r}"
        )
    for what, values in (("inputs", inputs), ("targets", targets)):
        if values.dtype.kind == "f" and (bad := int((~np.isfinite(values)).sum())):
            raise ResultsError(f"{name}: expected finite {what}, got {bad} that are not")
    if letter == "i":
        _check_range(name, "classes", targets, outputs - 1)
    elif targets.shape[-1] != outputs:
        raise ResultsError(f"{name}: expected {outputs} numbers a target, got {targets.shape[-1]}")
    if kind != "series":
        _check_range(name, "inputs", inputs, valid_max)
    if kind == "tokens" and valid_max >= vocabulary_size:
        raise ResultsError(
            f"{name}: tokens up to {valid_max} need a vocabulary of {valid_max + 1}, got {vocabulary_size}"
        )
    flags = np.arange(len(SPLITS), dtype=np.int8)
    of_split = {"flag_values": flags, "flag_meanings": " ".join(SPLITS)}
    held = {
        "inputs": (inputs, _INPUTS[kind], {} if kind == "series" else {"valid_max": valid_max}),
        "target": (targets, _TARGETS[target, letter], {}),
        "split": (np.repeat(flags[: len(parts)], sizes), _SPLIT, of_split),
    }
    variables = {
        key: (dims, values.astype(dtype), {"long_name": text, "units": units} | more)
        for key, (values, (dims, dtype, text, units), more) in held.items()
    }
    about = {"long_name": "vector of a token", "units": "1"}
    for key, array in (vectors or {}).items():
        variables[f"vectors_{key}"] = (("token", "component"), array.astype(np.float32), about)
    attrs = {"schema": SCHEMA, "dataset": name, "kind": kind, "target": target, "outputs": outputs}
    attrs |= {"vocabulary_size": vocabulary_size, "noise_inputs": noise_inputs}
    attrs |= {"source": source, "substitute": substitute}
    return xr.Dataset(variables, attrs=attrs)


def _check_range(name: str, what: str, values: np.ndarray, largest: int) -> None:
    if values.min() < 0 or values.max() > largest:
        raise ResultsError(
            f"{name}: expected {what} 0..{largest}, got {values.min()}..{values.max()}"
        )


def save_prepared(ds: xr.Dataset, folder: str | Path) -> Path:
    """Write `ds` to ``<folder>/<dataset>.nc``, whole or not at all; a full disk is an `OSError` that says so."""
    packed = {"zlib": True, "complevel": 1, "shuffle": True}
    return write_netcdf(
        ds, Path(folder) / f"{ds.attrs['dataset']}.nc", dict.fromkeys(ds.data_vars, packed)
    )


def load_file(path: str | Path) -> xr.Dataset:
    """Read a prepared data set; raises `ResultsError` where there is none. Its values were checked before it was written."""
    ds = read_netcdf(path, "prepared data", mask_and_scale=False)
    if ds.attrs.get("schema") != SCHEMA:
        raise ResultsError(
            f"{path}: expected prepared data of schema {SCHEMA!r}, got {ds.attrs.get('schema')!r}; "
            "run notebook 00 again"
        )
    return ds
