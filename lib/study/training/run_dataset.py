"""Join the results of a group of runs to one dataset."""

import json
from collections.abc import Sequence
from typing import Any

import xarray as xr
from longrnn.probes.time_steps import DECADES, SCALES

from study.config.run import RunConfig
from study.results.factors import factors
from study.results.joined import join_results
from study.results.rows import LEVELS, MEASURED, schema
from study.results.schema import Schema
from study.training.job import Arrays, Attributes, Job

_IF_SET = (
    ("recipe", "objective"),
    ("recipe", "kappa"),
    ("recipe", "orthogonality"),
    ("network", "start"),
    ("network", "input_dropout"),
    ("network", "embedding_dropout"),
    ("network", "output_dropout"),
)
"""Fields that are coordinates if any run has another value than the default.

Each is given as its part of `RunConfig` and its name.
"""
_IF_VARIED = (
    ("recipe", "gradient_clip"),
    ("network", "head"),
    ("network", "read"),
    ("", "batch_size"),
    ("recipe", "epochs"),
    ("network", "embedding_width"),
    ("recipe", "optimizer"),
)
"""Fields that are coordinates if they differ between runs.

Each is given as its part of `RunConfig` (empty for the run itself) and its name.
"""


def runs_schema(configs: Sequence[RunConfig]) -> Schema:
    """Return the schema of the dataset of some runs.

    Parameters
    ----------
    configs : sequence of RunConfig

    Returns
    -------
    Schema
        It has the variables of every measure that any of the runs requests.
    """
    measures = {name for config in configs for name in config.measurement.measures}
    return schema([name for name in MEASURED if name in measures])


def runs_to_dataset(
    configs: Sequence[RunConfig],
    jobs: Sequence[Job],
    results: Sequence[Arrays],
    attributes: Attributes,
) -> xr.Dataset:
    """Join the results of some runs. Settings in which the runs differ become coordinates.

    Parameters
    ----------
    configs : sequence of RunConfig
        The runs of a group, each with its own name.
    jobs : sequence of Job
        Their replicates.
    results : sequence of mapping
        Variables of each job.
    attributes : mapping
        Profile and settings.

    Returns
    -------
    xarray.Dataset
        In the schema of `runs_schema`.
    """
    levels = [{"run": job.config.run, "replicate": job.replicate} for job in jobs]
    ds = join_results(runs_schema(configs), levels, results, _inner_levels(results), **attributes)
    ds["network"].values[:] = [config.network_name for config in configs]
    ds["label"].values[:] = [config.label for config in configs]
    ds["task"].values[:] = [config.task_label for config in configs]
    ds["architecture"].values[:] = [config.network.cell for config in configs]
    ds["width"].values[:] = [config.network.width for config in configs]
    ds["learning_rate"].values[:] = [config.recipe.learning_rate for config in configs]
    ds["task_settings"].values[:] = [
        json.dumps(config.task.flat_settings(), sort_keys=True) for config in configs
    ]
    return ds.assign_coords(factors(coordinates(configs)))


def coordinates(configs: Sequence[RunConfig]) -> list[dict[str, Any]]:
    """Return the levels of every factor that is a coordinate of a group's dataset.

    Parameters
    ----------
    configs : sequence of RunConfig
        The runs of the group.

    Returns
    -------
    list of dict
        For each run its levels by factor: keywords of its cell, settings of its task and of its
        initial weights, and fields that distinguish runs.
    """
    fields = [field for field in _IF_SET if _is_set(field, configs)]
    fields += [field for field in _IF_VARIED if _varies(field, configs)]
    levels_of_runs = []
    for config in configs:
        levels = {name: _value(config, (part, name)) for part, name in fields}
        levels.update(config.settings)
        levels.pop("time_steps", None)  # every dataset already has a variable with this name
        if "start" in levels:  # adding_author is listed as author on the task adding
            levels["start"] = levels["start"].removeprefix(f"{config.task.maker}_")
        levels_of_runs.append(levels)
    return levels_of_runs


def _value(config: RunConfig, field: tuple[str, str]) -> Any:
    """Return the value of a field; the part is empty for fields of the run itself."""
    part, name = field
    section = getattr(config, part) if part else config
    return getattr(section, name)


def _is_set(field: tuple[str, str], configs: Sequence[RunConfig]) -> bool:
    """Return whether a field differs from its default in any run."""
    part, name = field
    default = type(getattr(configs[0], part)).model_fields[name].default
    return any(_value(config, field) != default for config in configs)


def _varies(field: tuple[str, str], configs: Sequence[RunConfig]) -> bool:
    """Return whether a field differs between runs."""
    return len({_value(config, field) for config in configs}) > 1


def _inner_levels(results: Sequence[Arrays]) -> dict[str, list]:
    """Return the levels of the dimensions along which one run has several values."""
    return {
        **LEVELS,
        "scale": list(range(SCALES)),
        "decade": DECADES[:-1].tolist(),
        "record": list(range(_longest(results, "step"))),
        "sequence": list(range(_longest(results, "state_norm"))),
        "time": list(range(1, _longest(results, "state_norm", axis=1) + 1)),
        "test_sequence": list(range(_longest(results, "sequence_score"))),
    }


def _longest(results: Sequence[Arrays], name: str, axis: int = 0) -> int:
    """Return the largest size of a variable along an axis, at least 1."""
    return max([1, *(arrays[name].shape[axis] for arrays in results if name in arrays)])
