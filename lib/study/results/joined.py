"""One dataset of what came of many jobs: each job's variables at its levels, and what rows say of themselves as coordinates."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from study.results.schema import ResultsError, Schema

_WHERE_SAID = (
    *("objective", "kappa", "orthogonality", "start"),
    *("input_dropout", "embedding_dropout", "output_dropout"),
)
"""Fields that are coordinates of a dataset in which any row says something of them."""
_IF_VARIED = (
    *("gradient_clip", "head", "read", "batch_size", "epochs", "embedding_width", "optimiser"),
)
"""Fields that are coordinates of a dataset in which they vary."""


def joined(
    schema: Schema,
    jobs: Sequence[Any],
    results: Sequence[Mapping[str, Any]],
    inner: Mapping[str, Sequence],
    **about: Any,
) -> xr.Dataset:
    """Return the results of all jobs, variables by name in the jobs' order, as one dataset, with what `Schema.empty` is to hold `about` it.

    `inner` are the levels of every dimension along which one job returns several values; along all others a job has a place, by its
    field of that name. Raises `ResultsError` where two jobs have one place.
    """
    of_jobs = {
        dim: list(dict.fromkeys(getattr(job, dim) for job in jobs))
        for dim in schema.coordinates
        if dim not in inner
    }
    ds = schema.empty({**of_jobs, **inner}, **about)
    place = {dim: {level: i for i, level in enumerate(found)} for dim, found in of_jobs.items()}
    taken: set[tuple] = set()
    for job, arrays in zip(jobs, results, strict=True):
        levels = {dim: getattr(job, dim) for dim in place}
        if tuple(levels.values()) in taken:
            raise ResultsError(f"two results at {levels}; expected one")
        taken.add(tuple(levels.values()))
        for name, (dims, *_) in schema.variables.items():
            if name in arrays:
                at = tuple(place[dim][levels[dim]] for dim in dims if dim in place)
                values = np.asarray(arrays[name])
                at = (*at, *(slice(size) for size in values.shape))
                # A text that stays an array would be cut to the length of the first one when it is written.
                ds[name].values[at] = values if values.ndim else values.item()
    return ds


def coordinates(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return for each row of a dataset (`study.training.rows.Row`) what it says of every factor that is a coordinate there.

    These are keywords of cells, settings of tasks and starts, and fields that tell rows apart.
    """
    of = {name: [getattr(row, name) for row in rows] for name in (*_WHERE_SAID, *_IF_VARIED)}
    default = type(rows[0]).model_fields
    fields = [
        *(f for f in _WHERE_SAID if any(v != default[f].default for v in of[f])),
        *(f for f in _IF_VARIED if len(set(of[f])) > 1),
    ]
    found = []
    for row in rows:
        said = {name: getattr(row, name) for name in fields} | row.settings
        said.pop("time_steps", None)  # a variable of every dataset
        if "start" in said:  # one that belongs to the task goes without its name
            said["start"] = said["start"].removeprefix(f"{row.task['task']}_")
        found.append(said)
    return found
