"""The file of a prepared data set: its schema, and writing and reading it whole."""

from pathlib import Path

import numpy as np
import xarray as xr

from lib.run.files import write_whole

SCHEMA = "prepared/1"
PAD, START, UNKNOWN, FIRST_WORD = 0, 1, 2, 3
"""Ids of tokens: filling, start of a text, a word not in the vocabulary, the most frequent word."""

_ATTRIBUTES = (
    "dataset",
    "kind",
    "classes",
    "vocabulary_size",
    "noise_inputs",
    "source",
    "substitute",
)


class PreparedError(ValueError):
    """A prepared data set is missing, unreadable or does not follow the schema."""


def prepared_dataset(
    name: str,
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    *,
    kind: str,
    source: str,
    classes: int,
    valid_max: int,
    vocabulary_size: int = 0,
    noise_inputs: int = 1000,
    substitute: str = "",
) -> xr.Dataset:
    """Return a data set in the schema of stage 00.

    Parameters
    ----------
    name
        The data set's name.
    train, test
        Inputs, uint8 (n, T, p) of pixels or integer (n, T) of tokens, and labels (n,).
    kind
        ``pixels`` or ``tokens``.
    source
        Citation.
    classes
        Number of labels.
    valid_max
        Largest value that an input can take.
    vocabulary_size
        Number of tokens; 0 for pixels.
    noise_inputs
        Length of the noise in the noisy tasks; the dissertation's is 1,000.
    substitute
        One sentence if something stands in for the publisher's data.
    """
    inputs = np.concatenate([train[0], test[0]])
    dims = ("sample", "time", "feature") if kind == "pixels" else ("sample", "time")
    inputs = inputs.astype(np.uint8 if kind == "pixels" else np.int16)
    split = np.repeat(np.array([0, 1], np.int8), [len(train[1]), len(test[1])])
    what = "brightness" if kind == "pixels" else "word id, by frequency"
    ds = xr.Dataset(
        {
            "inputs": (dims, inputs, {"long_name": what, "units": "1", "valid_max": valid_max}),
            "label": (
                "sample",
                np.concatenate([train[1], test[1]]).astype(np.int16),
                {"long_name": "class", "units": "1"},
            ),
            "split": (
                "sample",
                split,
                {
                    "long_name": "part of the data set",
                    "units": "1",
                    "flag_values": np.array([0, 1], np.int8),
                    "flag_meanings": "train test",
                },
            ),
        },
        attrs={
            "schema": SCHEMA,
            "dataset": name,
            "kind": kind,
            "classes": classes,
            "vocabulary_size": vocabulary_size,
            "noise_inputs": noise_inputs,
            "source": source,
            "substitute": substitute,
        },
    )
    return validate_prepared(ds)


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
    name, kind = ds.attrs["dataset"], ds.attrs["kind"]
    if kind not in ("pixels", "tokens"):
        raise PreparedError(f"{name}: expected the kind 'pixels' or 'tokens', got {kind!r}")
    expected = {
        "inputs": (
            (("sample", "time", "feature"), np.uint8)
            if kind == "pixels"
            else (("sample", "time"), np.int16)
        ),
        "label": (("sample",), np.int16),
        "split": (("sample",), np.int8),
    }
    for variable, (dims, dtype) in expected.items():
        if variable not in ds:
            raise PreparedError(f"{name}: the variable {variable!r} is missing")
        if ds[variable].dims != dims or ds[variable].dtype != dtype:
            raise PreparedError(
                f"{name}: expected {variable} as {np.dtype(dtype)} over {dims}, "
                f"got {ds[variable].dtype} over {ds[variable].dims}"
            )
        if not {"long_name", "units"} <= set(ds[variable].attrs):
            raise PreparedError(f"{name}: {variable} lacks 'long_name' or 'units'")
    if "valid_max" not in ds["inputs"].attrs:
        raise PreparedError(f"{name}: inputs lacks 'valid_max', the largest value it can take")
    _validate_values(ds, name)
    return ds


def _validate_values(ds: xr.Dataset, name: str) -> None:
    # First, so that the minima below are those of something.
    for flag, split in enumerate(("train", "test")):
        if not (ds["split"] == flag).any():
            raise PreparedError(f"{name}: the {split} part is empty")
    if not ds["split"].isin((0, 1)).all():
        raise PreparedError(f"{name}: expected the split to be 0 (train) or 1 (test)")
    labels, classes = ds["label"].values, int(ds.attrs["classes"])
    if labels.min() < 0 or labels.max() >= classes:
        raise PreparedError(
            f"{name}: expected labels 0..{classes - 1}, got {labels.min()}..{labels.max()}"
        )
    inputs, largest = ds["inputs"].values, int(ds["inputs"].attrs["valid_max"])
    if inputs.min() < 0 or inputs.max() > largest:
        raise PreparedError(
            f"{name}: expected inputs 0..{largest}, got {inputs.min()}..{inputs.max()}"
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
