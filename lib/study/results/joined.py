"""Join the results of many jobs to one dataset."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from study.results.netcdf import ResultsError
from study.results.schema import Schema


def join_results(
    schema: Schema,
    job_levels: Sequence[Mapping[str, Any]],
    results: Sequence[Mapping[str, Any]],
    inner: Mapping[str, Sequence],
    **attributes: Any,
) -> xr.Dataset:
    """Join the results of all jobs to one dataset.

    Parameters
    ----------
    schema
        The schema of the dataset.
    job_levels
        For each job its level of every dimension that is not in `inner`, by the dimension's name.
    results
        For each job its variables by name, scalars or arrays over the `inner` dimensions.
    inner
        Levels of the dimensions along which one job returns several values.
    **attributes
        ``profile`` and ``settings``, see `Schema.empty`.

    Returns
    -------
    xarray.Dataset
        All results. Values that no job returned are as in `Schema.empty`.

    Raises
    ------
    ResultsError
        Two jobs have the same levels.
    """
    job_dims = [dim for dim in schema.coordinates if dim not in inner]
    levels_of = {}
    index = {}
    for dim in job_dims:
        levels = list(dict.fromkeys(job[dim] for job in job_levels))
        levels_of[dim] = levels
        index[dim] = {level: i for i, level in enumerate(levels)}
    ds = schema.empty({**levels_of, **inner}, **attributes)
    filled: set[tuple] = set()
    for job, arrays in zip(job_levels, results, strict=True):
        levels = {dim: job[dim] for dim in job_dims}
        key = tuple(levels.values())
        if key in filled:
            raise ResultsError(f"two jobs have the levels {levels}; expected different levels")
        filled.add(key)
        for name, variable in schema.variables.items():
            if name in arrays:
                outer = [index[dim][levels[dim]] for dim in variable.dims if dim in index]
                _fill(ds[name].values, outer, arrays[name])
    return ds


def _fill(target: np.ndarray, outer: Sequence[int], value: Any) -> None:
    """Write one job's value at its indices; a short array fills the start of its dimensions."""
    values = np.asarray(value)
    if values.ndim == 0:
        # As a Python object: an array in an array of texts would be written with its own length,
        # and longer texts would be cut to this length.
        target[tuple(outer)] = values.item()
    else:
        target[(*outer, *(slice(size) for size in values.shape))] = values
