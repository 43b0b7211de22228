"""The trainings that a design asks for, and the run of all."""

from pathlib import Path

import numpy as np
import torch
import xarray as xr

from lib import kernels
from lib.experiments.latching.results import SCHEMA, example
from lib.experiments.latching.training import Training, train
from lib.jobs import run_jobs
from lib.params.latching import LatchingSection

NAME = "latching"
RECIPE = 1
"""Raised whenever a change of the code changes results."""


def plan(section: LatchingSection) -> list[Training]:
    """Return the trainings of a design."""
    settings = section.model_dump(exclude={"trainings", "scheduler", "workers"})
    engine = kernels.choose("rnn", "cpu", torch.float32)
    return [
        Training(replicate=replicate, engine=engine, **settings)
        for replicate in range(section.trainings)
    ]


def run(profile: str, section: LatchingSection, cache: str | Path) -> xr.Dataset:
    """Train what has no shard yet and return all as one validated dataset of `SCHEMA`.

    Parameters
    ----------
    profile, section
        The design and its name.
    cache
        Folder for the shards.
    """
    trainings = plan(section)
    found = run_jobs(
        NAME,
        trainings,
        train,
        recipe=RECIPE,
        cache=cache,
        describe=lambda training: f"training {training.replicate}",
        scheduler=section.scheduler,
        workers=section.workers,
    )
    horizons = trainings[0].horizons()
    levels = {
        "training": list(range(section.trainings)),
        "horizon": list(horizons),
        "sequence": list(range(section.probe_size)),
        "time": list(range(1, max(horizons) + 1)),
    }
    settings = section.model_dump(mode="json", exclude={"scheduler", "workers"})
    settings |= {"recipe": RECIPE, "engine": trainings[0].engine}
    ds = SCHEMA.empty(levels, profile=profile, settings=settings)
    for name in ("status", "steps_completed", "error", "exponent"):
        ds[name].values[:] = [result[name] for result in found]
    ds["adjoint_median"].values[:] = [np.median(result["adjoint"], axis=1) for result in found]
    chosen = example(ds)
    ds["example"] = ds["example"].copy(data=chosen)
    ds["state_norm"].values[:] = found[chosen]["state"]
    ds["adjoint"].values[:] = found[chosen]["adjoint"]
    return SCHEMA.validate(ds)
