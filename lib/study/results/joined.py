"""One dataset from the results of many jobs, with the jobs' factors as coordinates."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from study.results.netcdf import ResultsError
from study.results.schema import Schema

_IF_SET = (
    "objective",
    "kappa",
    "orthogonality",
    "start",
    "input_dropout",
    "embedding_dropout",
    "output_dropout",
)
"""Fields that become coordinates if any row departs from the default."""
_IF_VARIED = (
    "gradient_clip",
    "head",
    "read",
    "batch_size",
    "epochs",
    "embedding_width",
    "optimiser",
)
"""Fields that become coordinates if they vary between rows."""


def joined(
    schema: Schema,
    jobs: Sequence[Any],
    results: Sequence[Mapping[str, Any]],
    inner: Mapping[str, Sequence],
    **attributes: Any,
) -> xr.Dataset:
    """Return the results of all jobs as one dataset.

    Parameters
    ----------
    schema
        What the dataset is to hold.
    jobs
        The jobs. Along every dimension that is not in `inner`, a job is indexed by its field of
        that name.
    results
        For each job its variables by name, scalars or arrays over the `inner` dimensions.
    inner
        Levels of the dimensions along which one job returns several values.
    **attributes
        ``profile`` and ``settings``, see `Schema.empty`.

    Returns
    -------
    xarray.Dataset
        All results; what no job returned stays empty.

    Raises
    ------
    ResultsError
        Two jobs have the same levels.
    """
    job_dims = [dim for dim in schema.coordinates if dim not in inner]
    job_levels = {dim: list(dict.fromkeys(getattr(job, dim) for job in jobs)) for dim in job_dims}
    ds = schema.empty({**job_levels, **inner}, **attributes)
    index = {
        dim: {level: i for i, level in enumerate(levels)} for dim, levels in job_levels.items()
    }
    filled: set[tuple] = set()
    for job, arrays in zip(jobs, results, strict=True):
        levels = {dim: getattr(job, dim) for dim in job_dims}
        key = tuple(levels.values())
        if key in filled:
            raise ResultsError(f"two results at {levels}; expected one")
        filled.add(key)
        for name, variable in schema.variables.items():
            if name in arrays:
                outer = [index[dim][levels[dim]] for dim in variable.dims if dim in index]
                _fill(ds[name].values, outer, arrays[name])
    return ds


def coordinates(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the levels of every factor that is a coordinate of a group's dataset.

    Parameters
    ----------
    rows
        The rows of the group (`study.training.rows.Row`).

    Returns
    -------
    list of dict
        For each row the levels by factor: keywords of cells, settings of tasks and of starts, and
        fields that distinguish rows.
    """
    varied = [name for name in _IF_VARIED if len({getattr(row, name) for row in rows}) > 1]
    fields = [name for name in _IF_SET if _is_set(name, rows)] + varied
    levels_of_rows = []
    for row in rows:
        levels = {name: getattr(row, name) for name in fields}
        levels.update(row.settings)
        levels.pop("time_steps", None)  # a variable of every dataset
        if "start" in levels:  # a start that belongs to the task is listed without its name
            levels["start"] = levels["start"].removeprefix(f"{row.task['task']}_")
        levels_of_rows.append(levels)
    return levels_of_rows


def _is_set(name: str, rows: Sequence[Any]) -> bool:
    """Return whether any row departs from a field's default."""
    default = type(rows[0]).model_fields[name].default
    return any(getattr(row, name) != default for row in rows)


def _fill(target: np.ndarray, outer: Sequence[int], value: Any) -> None:
    """Write one job's value at its indices; a short array fills the start of its dimensions."""
    values = np.asarray(value)
    if values.ndim == 0:
        # A text that stayed an array would be cut to the first one's length when it is written.
        target[tuple(outer)] = values.item()
    else:
        target[(*outer, *(slice(size) for size in values.shape))] = values
