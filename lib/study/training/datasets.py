"""Join the results of a group's jobs to one dataset, the last step of training."""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from study.training.cache_key import engines
from study.training.job import Arrays, Job
from study.training.plans import AnyDesign, design_settings


def to_dataset(
    profile: str, designs: Sequence[AnyDesign], jobs: Sequence[Job], results: Sequence[Arrays]
) -> xr.Dataset:
    """Join the results of all jobs of a group.

    Parameters
    ----------
    profile : str
        Name of the profile, kept as an attribute.
    designs : sequence
        The runs of the group, or its one design.
    jobs : sequence of Job
        Their jobs (`study.training.plans.plan_jobs`).
    results : sequence of mapping
        Variables of each job by name.

    Returns
    -------
    xarray.Dataset
        A valid dataset of the experiment's schema.

    Raises
    ------
    study.results.netcdf.ResultsError
        The results do not follow the schema.
    """
    experiment = jobs[0].experiment
    settings = _shared_settings([design_settings(design) for design in designs], jobs)
    attributes = {"profile": profile, "settings": settings}
    ds = experiment.to_dataset(designs, jobs, results, attributes)
    return experiment.schema(designs).validate(ds)


def _shared_settings(settings: Sequence[Mapping[str, Any]], jobs: Sequence[Job]) -> dict[str, Any]:
    """Return the settings that are equal in all designs, and the engines of the jobs."""
    first, *others = settings
    shared: dict[str, Any] = {}
    for name, value in first.items():
        if name == "replicate":
            continue
        if all(other[name] == value for other in others):
            shared[name] = value
    used: dict[str, str] = {}
    for job in jobs:
        used |= engines(job)
    return {**shared, "engines": dict(sorted(used.items()))}
