"""The file of a prepared data set: its schema, and writing and reading it whole."""

from pathlib import Path

import numpy as np
import xarray as xr

from lib.run.files import write_whole

SCHEMA = "prepared/2"
SPLITS = ("train", "test", "validation")
PAD, START, UNKNOWN, FIRST_WORD = 0, 1, 2, 3
"""Ids of tokens: filling, start of a text, a word not in the vocabulary, the most frequent word."""

_ATTRIBUTES = (
    "dataset",
    "kind",
    "target",
    "outputs",
    "vocabulary_size",
    "noise_inputs",
    "source",
    "substitute",
)
_INPUTS = {
    "pixels": (("sample", "time", "feature"), np.uint8, "brightness"),
    "tokens": (("sample", "time"), np.int32, "token id, by frequency"),
    "series": (("sample", "time", "feature"), np.float32, "measurement"),
}
"""Dimensions, type and meaning of the inputs, by kind."""
_TARGETS = {
    ("class", "i"): (("sample",), np.int16),
    ("value", "f"): (("sample", "output"), np.float32),
    ("steps", "i"): (("sample", "time"), np.int32),
    ("steps", "f"): (("sample", "time", "output"), np.float32),
}
"""Dimensions and type of the targets, by what is asked for and whether it is a class or a value."""

Arrays = tuple[np.ndarray, np.ndarray]


class PreparedError(ValueError):
    """A prepared data set is missing, unreadable or does not follow the schema."""


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
) -> xr.Dataset:
    """Return a data set in the schema of stage 00.

    Parameters
    ----------
    name
        The data set's name.
    train, test, validation
        Inputs, (n, T, p) of pixels (uint8) or of a real series, or (n, T) of tokens; and targets, see `target`.
    kind
        ``pixels``, ``tokens`` or ``series``.
    source
        Citation.
    outputs
        Number of classes, or of values in a target.
    target
        ``class``, targets (n,) of integers; ``value``, (n, k) of floats; ``steps``, (n, T) of integers or (n, T, k) of floats.
    valid_max
        Largest value that an input can take; of pixels and tokens.
    vocabulary_size
        Number of tokens; 0 for other inputs.
    noise_inputs
        Length of the noise in the noisy tasks; the dissertation's is 1,000.
    substitute
        One sentence if something stands in for the publisher's data.

    Raises
    ------
    PreparedError
        The kind or the target is unknown, or what was given does not follow the schema.
    """
    parts = [train, test] if validation is None else [train, test, validation]
    if kind not in _INPUTS:
        raise PreparedError(f"{name}: expected the kind {_either(_INPUTS)}, got {kind!r}")
    asked = (target, "i" if np.asarray(train[1]).dtype.kind in "iu" else "f")
    if asked not in _TARGETS:
        raise PreparedError(f"{name}: {_which_targets(target, train[1])}")
    (dims, dtype, what), (target_dims, target_dtype) = _INPUTS[kind], _TARGETS[asked]
    limits = {} if kind == "series" else {"valid_max": valid_max}
    flags = np.arange(len(SPLITS), dtype=np.int8)
    about = {"flag_values": flags, "flag_meanings": " ".join(SPLITS)}
    ds = xr.Dataset(
        {
            "inputs": (
                dims,
                np.concatenate([part[0] for part in parts]).astype(dtype),
                {"long_name": what, "units": "1", **limits},
            ),
            "target": (
                target_dims,
                np.concatenate([part[1] for part in parts]).astype(target_dtype),
                {"long_name": "class" if asked[1] == "i" else "value", "units": "1"},
            ),
            "split": (
                "sample",
                np.repeat(flags[: len(parts)], [len(part[1]) for part in parts]),
                {"long_name": "part of the data set", "units": "1", **about},
            ),
        },
        attrs={
            "schema": SCHEMA,
            "dataset": name,
            "kind": kind,
            "target": target,
            "outputs": outputs,
            "vocabulary_size": vocabulary_size,
            "noise_inputs": noise_inputs,
            "source": source,
            "substitute": substitute,
        },
    )
    return validate_prepared(ds)


def _either(names) -> str:
    *first, last = (repr(name) for name in dict.fromkeys(names))
    return f"{', '.join(first)} or {last}"


def _which_targets(target: str, values: np.ndarray) -> str:
    known = {name for name, _ in _TARGETS}
    if target not in known:
        return f"expected the target {_either(name for name, _ in _TARGETS)}, got {target!r}"
    return f"a {target} cannot be of type {np.asarray(values).dtype}"


def validate_prepared(ds: xr.Dataset) -> xr.Dataset:
    """Return `ds` unchanged if it follows the schema.

    Raises
    ------
    PreparedError
        The first thing that is wrong, what was found and what was expected.
    """
    if ds.attrs.get("schema") != SCHEMA:
        raise PreparedError(
            f"expected prepared data of schema {SCHEMA!r}, got {ds.attrs.get('schema')!r}; "
            "run notebook 00 again"
        )
    for name in _ATTRIBUTES:
        if name not in ds.attrs:
            raise PreparedError(f"the attribute {name!r} is missing; run notebook 00 again")
    name, kind, target = (ds.attrs[key] for key in ("dataset", "kind", "target"))
    if kind not in _INPUTS:
        raise PreparedError(f"{name}: expected the kind {_either(_INPUTS)}, got {kind!r}")
    for variable in ("inputs", "target", "split"):
        if variable not in ds:
            raise PreparedError(f"{name}: the variable {variable!r} is missing")
        if not {"long_name", "units"} <= set(ds[variable].attrs):
            raise PreparedError(f"{name}: {variable} lacks 'long_name' or 'units'")
    asked = (target, ds["target"].dtype.kind)
    if asked not in _TARGETS:
        raise PreparedError(f"{name}: {_which_targets(target, ds['target'].values)}")
    expected = {
        "inputs": _INPUTS[kind][:2],
        "target": _TARGETS[asked],
        "split": (("sample",), np.int8),
    }
    for variable, (dims, dtype) in expected.items():
        if ds[variable].dims != dims or ds[variable].dtype != dtype:
            raise PreparedError(
                f"{name}: expected {variable} as {np.dtype(dtype)} over {dims}, "
                f"got {ds[variable].dtype} over {ds[variable].dims}"
            )
    if kind != "series" and "valid_max" not in ds["inputs"].attrs:
        raise PreparedError(f"{name}: inputs lacks 'valid_max', the largest value it can take")
    _validate_values(ds, name)
    return ds


def _validate_values(ds: xr.Dataset, name: str) -> None:
    # First, so that the minima below are those of something.
    for flag, split in enumerate(SPLITS[:2]):
        if not (ds["split"] == flag).any():
            raise PreparedError(f"{name}: the {split} part is empty")
    if not ds["split"].isin(range(len(SPLITS))).all():
        raise PreparedError(
            f"{name}: expected the split to be 0 (train), 1 (test) or 2 (validation)"
        )
    targets, outputs = ds["target"].values, int(ds.attrs["outputs"])
    if targets.dtype.kind == "i":
        if targets.min() < 0 or targets.max() >= outputs:
            raise PreparedError(
                f"{name}: expected classes 0..{outputs - 1}, got {targets.min()}..{targets.max()}"
            )
    elif not np.isfinite(targets).all() or targets.shape[-1] != outputs:
        raise PreparedError(
            f"{name}: expected {outputs} finite numbers in a target, got {targets.shape[-1]}, "
            f"{int((~np.isfinite(targets)).sum())} of all not finite"
        )
    inputs = ds["inputs"].values
    if ds.attrs["kind"] == "series":
        if not np.isfinite(inputs).all():
            bad = int((~np.isfinite(inputs)).sum())
            raise PreparedError(f"{name}: expected finite inputs, got {bad} that are not")
        return
    largest = int(ds["inputs"].attrs["valid_max"])
    if inputs.min() < 0 or inputs.max() > largest:
        raise PreparedError(
            f"{name}: expected inputs 0..{largest}, got {inputs.min()}..{inputs.max()}"
        )
    if ds.attrs["kind"] == "tokens" and largest >= int(ds.attrs["vocabulary_size"]):
        raise PreparedError(
            f"{name}: tokens up to {largest} need a vocabulary of {largest + 1}, got {ds.attrs['vocabulary_size']}"
        )


def save_prepared(ds: xr.Dataset, folder: str | Path) -> Path:
    """Write `ds` to ``<folder>/<dataset>.nc``, whole or not at all.

    Raises
    ------
    PreparedError
        `ds` does not follow the schema.
    OSError
        The file cannot be written, for instance because the disk is full.
    """
    validate_prepared(ds)
    path = Path(folder) / f"{ds.attrs['dataset']}.nc"
    encoding = {name: {"zlib": True, "complevel": 1, "shuffle": True} for name in ds.data_vars}
    try:
        return write_whole(
            path, lambda partial: ds.to_netcdf(partial, engine="netcdf4", encoding=encoding)
        )
    except (OSError, RuntimeError) as error:  # the netCDF library reports a full disk as either
        raise OSError(f"{path} could not be written ({error}); make room and run again") from None


def load_file(path: str | Path) -> xr.Dataset:
    """Read and validate a prepared data set; raises `PreparedError` with what is wrong."""
    path = Path(path)
    if not path.exists():
        raise PreparedError(f"no prepared data set at {path}; run notebook 00 or `make repro`")
    try:
        with xr.open_dataset(path, engine="netcdf4", mask_and_scale=False) as ds:
            ds = ds.load()
    except (OSError, ValueError, RuntimeError) as error:
        raise PreparedError(
            f"{path} is not a readable netCDF file ({error}); run notebook 00"
        ) from None
    return validate_prepared(ds)
