"""The trainings that a design asks for, and the run of all."""

from collections.abc import Mapping

import numpy as np
import torch
import xarray as xr

from lib import kernels
from lib.experiments.latching.results import SCHEMA, example
from lib.experiments.latching.training import Training, train
from lib.run.params import Profile
from lib.training.jobs import Experiment
from lib.training.jobs.shards import Arrays

RECIPE = 1
"""Raised whenever a change of the code changes results."""


def plan(profile: Profile) -> list[Training]:
    """Return the trainings of a profile."""
    settings = profile.latching.model_dump(exclude={"trainings"})
    engine = kernels.choose("rnn", "cpu", torch.float32)
    return [
        Training(replicate=replicate, engine=engine, **settings)
        for replicate in range(profile.latching.trainings)
    ]


def join(profile_name: str, profile: Profile, found: Mapping[Training, Arrays]) -> xr.Dataset:
    """Return the results of all trainings as one validated dataset of `SCHEMA`."""
    section, results = profile.latching, list(found.values())
    first = next(iter(found))
    horizons = first.horizons()
    levels = {
        "training": list(range(section.trainings)),
        "horizon": list(horizons),
        "sequence": list(range(section.probe_size)),
        "time": list(range(1, max(horizons) + 1)),
    }
    settings = section.model_dump(mode="json") | {"recipe": RECIPE, "engine": first.engine}
    ds = SCHEMA.empty(levels, profile=profile_name, settings=settings)
    for name in ("status", "steps_completed", "error", "exponent"):
        ds[name].values[:] = [result[name] for result in results]
    ds["adjoint_median"].values[:] = [np.median(result["adjoint"], axis=1) for result in results]
    chosen = example(ds)
    ds["example"] = ds["example"].copy(data=chosen)
    ds["state_norm"].values[:] = results[chosen]["state"]
    ds["adjoint"].values[:] = results[chosen]["adjoint"]
    return SCHEMA.validate(ds)


LATCHING = Experiment(
    name="latching",
    recipe=RECIPE,
    plan=plan,
    run=train,
    join=join,
    describe=lambda training: f"training {training.replicate}",
)
