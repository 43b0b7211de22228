"""The file of a prepared data set: its schema, checks, writing and reading.

Stage 00 writes one such file per data set (`study.tasks.sources`); `study.tasks.loading` reads it
when a run starts.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from study.results.netcdf import ResultsError, read_netcdf, write_netcdf
from study.results.schema import Variable

SCHEMA = "prepared/2"
SPLITS = ("train", "test", "validation")
"""Names of the splits; their positions are the values of the variable ``split``."""

PAD = 0
"""Id of padding."""
START = 1
"""Id of the start of a text."""
UNKNOWN = 2
"""Id of all words outside the vocabulary."""
FIRST_WORD = 3
"""Id of the most frequent word; the others follow by frequency."""

_INPUTS = {
    "pixels": Variable(("sample", "time", "feature"), "uint8", "brightness", "1"),
    "tokens": Variable(("sample", "time"), "int32", "token id, by frequency", "1"),
    "series": Variable(("sample", "time", "feature"), "float32", "measurement", "1"),
}
"""Schema of the inputs, by kind."""
_TARGETS = {
    ("class", "i"): Variable(("sample",), "int16", "class", "1"),
    ("value", "f"): Variable(("sample", "output"), "float32", "value", "1"),
    ("steps", "i"): Variable(("sample", "time"), "int32", "class", "1"),
    ("steps", "f"): Variable(("sample", "time", "output"), "float32", "value", "1"),
}
"""Schema of the targets, by target and type: classes (i) or values (f)."""
_SPLIT = Variable(("sample",), "int8", "part of the data set", "1")
_VECTORS = Variable(("token", "component"), "float32", "vector of a token", "1")


class RawSplit(NamedTuple):
    """The inputs and targets of one split, as a reader returns them."""

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
    """Check a data set, and return it in the schema of stage 00.

    Parameters
    ----------
    name : str
        Name of the data set.
    train, test, validation : tuple of numpy.ndarray
        Inputs and targets of each split (`RawSplit`). Inputs are pixels, (n, T, p) uint8; a real
        series, (n, T, p); or tokens, (n, T). Targets are classes, (n,) integers; values, (n, k)
        floats; or one per time step, (n, T) integers or (n, T, k) floats.
    kind : str
        ``pixels``, ``tokens`` or ``series``.
    source : str
        Citation of the data.
    outputs : int
        Number of classes, or of values per target.
    target : str
        ``class``, ``value`` or ``steps``.
    valid_max : int
        Largest value that a pixel or a token can have.
    vocabulary_size : int
        Number of token ids; 0 for other kinds.
    noise_inputs : int
        Length of the noise in the noisy tasks; 1,000 in the dissertation.
    substitute : str
        One sentence if the data are not exactly the publisher's.
    vectors : mapping of str to numpy.ndarray, optional
        Sets of word vectors that an embedding may start from, by name, each (vocabulary, size).

    Returns
    -------
    xarray.Dataset
        The splits one after the other along ``sample``.

    Raises
    ------
    ResultsError
        The arrays do not follow the schema, or can't be stored without loss.
    """
    splits = _check_splits(name, {"train": train, "test": test, "validation": validation})
    inputs = np.concatenate([split.inputs for split in splits])
    targets = np.concatenate([split.targets for split in splits])
    input_schema, target_schema = _schema_of(name, kind, target, targets.dtype)
    inputs = _convert(name, "inputs", inputs, input_schema)
    targets = _convert(name, "targets", targets, target_schema)
    _check_targets(name, target, inputs, targets, outputs)
    _check_inputs(name, kind, inputs, valid_max, vocabulary_size)
    variables = {
        "inputs": _variable(inputs, input_schema),
        "target": _variable(targets, target_schema),
        "split": _split_variable(splits),
        **_vector_variables(name, vectors or {}, vocabulary_size),
    }
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
    return ds


def save_prepared(ds: xr.Dataset, folder: str | Path) -> Path:
    """Write a data set to ``<folder>/<dataset>.nc``, whole or not at all.

    Parameters
    ----------
    ds : xarray.Dataset
        What `prepared_dataset` returned.
    folder : str or Path

    Returns
    -------
    Path
        The file.

    Raises
    ------
    OSError
        The file can't be written, for example because the disk is full.
    """
    path = Path(folder) / f"{ds.attrs['dataset']}.nc"
    packed = {"zlib": True, "complevel": 1, "shuffle": True}
    return write_netcdf(ds, path, dict.fromkeys(ds.data_vars, packed))


def load_file(path: str | Path) -> xr.Dataset:
    """Read a prepared data set into memory. Its values were checked before it was written.

    Parameters
    ----------
    path : str or Path
        A file that `save_prepared` wrote.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    ResultsError
        The file is missing or damaged, or is not a prepared data set.
    """
    ds = read_netcdf(path, "prepared data", mask_and_scale=False)
    if ds.attrs.get("schema") != SCHEMA:
        raise ResultsError(
            f"{path}: expected prepared data of schema {SCHEMA!r}, got {ds.attrs.get('schema')!r}; "
            "run notebook 00 again"
        )
    return ds


def _check_splits(
    name: str, given: Mapping[str, tuple[np.ndarray, np.ndarray] | None]
) -> list[RawSplit]:
    """Return the splits that are not None; refuse empty, masked or mismatched arrays."""
    splits = []
    for split_name, arrays in given.items():
        if arrays is not None:
            splits.append(_check_split(name, split_name, RawSplit(*arrays)))
    for what in RawSplit._fields:
        shapes = {getattr(split, what).shape[1:] for split in splits}
        if len(shapes) > 1:
            raise ResultsError(
                f"{name}: expected {what} of one shape in all splits, got {sorted(shapes)}"
            )
    return splits


def _check_split(name: str, split_name: str, split: RawSplit) -> RawSplit:
    """Return the arrays of one split; refuse it if it is empty, masked or mismatched."""
    for what, values in split._asdict().items():
        if np.ma.is_masked(values):
            raise ResultsError(
                f"{name}: some {what} of the {split_name} split are masked; fill or remove them"
            )
    inputs = np.asarray(split.inputs)
    targets = np.asarray(split.targets)
    if len(inputs) != len(targets):
        raise ResultsError(
            f"{name}: expected as many inputs as targets in the {split_name} split, "
            f"got {len(inputs)} and {len(targets)}"
        )
    if len(targets) == 0:
        raise ResultsError(f"{name}: the {split_name} split is empty")
    return RawSplit(inputs, targets)


def _schema_of(name: str, kind: str, target: str, dtype: np.dtype) -> tuple[Variable, Variable]:
    """Return the schemas of the inputs and of the targets."""
    letter = "i" if dtype.kind in "iu" else "f"
    if kind not in _INPUTS or (target, letter) not in _TARGETS:
        raise ResultsError(
            f"{name}: expected pixels, tokens or series, and as a target a class (integer), "
            f"a value (float) or steps (either), got {kind!r} and {target!r} of type {dtype}"
        )
    return _INPUTS[kind], _TARGETS[target, letter]


def _check_targets(
    name: str, target: str, inputs: np.ndarray, targets: np.ndarray, outputs: int
) -> None:
    """Refuse targets whose number or range does not fit the inputs and the outputs."""
    if target == "steps" and targets.shape[1] != inputs.shape[1]:
        raise ResultsError(
            f"{name}: expected a target per time step, got {targets.shape[1]} for "
            f"{inputs.shape[1]} steps"
        )
    if targets.dtype.kind == "i":
        _check_range(name, "classes", targets, outputs - 1)
    elif targets.shape[-1] != outputs:
        raise ResultsError(
            f"{name}: expected {outputs} numbers per target, got {targets.shape[-1]}"
        )


def _check_inputs(
    name: str, kind: str, inputs: np.ndarray, valid_max: int, vocabulary_size: int
) -> None:
    """Refuse pixels and tokens outside their range, and tokens outside the vocabulary."""
    if kind != "series":
        _check_range(name, "inputs", inputs, valid_max)
    if kind == "tokens" and valid_max >= vocabulary_size:
        raise ResultsError(
            f"{name}: tokens up to {valid_max} need a vocabulary of {valid_max + 1}, "
            f"got {vocabulary_size}"
        )


def _split_variable(splits: list[RawSplit]) -> tuple:
    """Return the variable with the number of the split of each sample, by position in `SPLITS`."""
    sizes = [len(split.targets) for split in splits]
    numbers = np.repeat(np.arange(len(splits), dtype=np.int8), sizes)
    dims, values, attributes = _variable(numbers, _SPLIT)
    flags = {
        "flag_values": np.arange(len(SPLITS), dtype=np.int8),
        "flag_meanings": " ".join(SPLITS),
    }
    return dims, values, attributes | flags


def _vector_variables(
    name: str, vectors: Mapping[str, np.ndarray], vocabulary_size: int
) -> dict[str, tuple]:
    """Return the variables of the sets of word vectors."""
    variables = {}
    for key, values in vectors.items():
        array = _convert(name, f"vectors {key!r}", values, _VECTORS)
        if len(array) != vocabulary_size:
            raise ResultsError(
                f"{name}: expected vectors of {vocabulary_size} tokens, got {len(array)}"
            )
        schema = _VECTORS._replace(dims=("token", f"component_{key}"))
        variables[f"vectors_{key}"] = _variable(array, schema)
    return variables


def _convert(name: str, what: str, values: np.ndarray, schema: Variable) -> np.ndarray:
    """Convert values to the stored type; refuse values that this type can't represent."""
    values = np.asarray(values)
    if values.ndim != len(schema.dims):
        raise ResultsError(
            f"{name}: expected {what} over ({', '.join(schema.dims)}), got the shape {values.shape}"
        )
    if values.dtype.kind not in "biuf":
        raise ResultsError(f"{name}: expected numbers as {what}, got {values.dtype}")
    if values.dtype.kind == "f":
        infinite = int((~np.isfinite(values)).sum())
        if infinite:
            raise ResultsError(f"{name}: expected finite {what}, got {infinite} that are not")
    with np.errstate(over="ignore", invalid="ignore"):
        stored = values.astype(schema.dtype, copy=False)
    if stored.dtype.kind == "f":
        lost = ~np.isfinite(stored)  # rounding is accepted, an overflow is not
    else:
        lost = stored != values
    if lost.any():
        raise ResultsError(
            f"{name}: expected {what} that {schema.dtype} can represent, "
            f"got {int(lost.sum())} that it can't, such as {values[lost][0]}"
        )
    return stored


def _variable(values: np.ndarray, schema: Variable) -> tuple:
    """Return the dimensions, the values and the attributes of a variable, as xarray takes them."""
    return schema.dims, values, {"long_name": schema.meaning, "units": schema.units}


def _check_range(name: str, what: str, values: np.ndarray, largest: int) -> None:
    if values.min() < 0 or values.max() > largest:
        raise ResultsError(
            f"{name}: expected {what} 0..{largest}, got {values.min()}..{values.max()}"
        )
