"""The trainings that a design asks for, and the run of all."""

from pathlib import Path

import torch
import xarray as xr

from lib import kernels
from lib.cells import cell_class
from lib.experiments.adding.results import ENDS, LEVELS, POSITIONS, SCHEMA, STAGES
from lib.experiments.adding.training import Training, train
from lib.jobs import run_jobs
from lib.params.adding import AddingSection

NAME = "adding"
RECIPE = 1
"""Raised whenever a change of the code changes results."""

_STEPS_OF_A_SECOND = 20_000
"""Time steps of one batch that one core does in a second, roughly; only the estimate of the time left uses it."""


def plan(section: AddingSection) -> list[Training]:
    """Return the trainings of a design, those that take longest first."""
    trainings = [
        Training(
            *treatment,
            replicate,
            grid.training_steps,
            engine=kernels.choose(treatment[0], "cpu", torch.float32),
            **section.model_dump(
                include={"width", "tau", "batch_size", "clip", "checkpoints"}
                | {"test_size", "probe_size", "flush_denormals"}
            ),
        )
        for grid in section.grids
        for treatment in grid.treatments()
        for replicate in range(section.replicates)
    ]
    for training in trainings:
        cell_class(training.architecture)  # an unknown name is told before anything runs
    return sorted(trainings, key=work, reverse=True)


def work(training: Training) -> float:
    """Return about how many seconds a training takes."""
    gates = 4 if training.architecture == "lstm" else 1
    return gates * training.time_steps * training.training_steps / _STEPS_OF_A_SECOND


def run(profile: str, section: AddingSection, cache: str | Path) -> xr.Dataset:
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
        work=work,
        describe=_describe,
        scheduler=section.scheduler,
        workers=section.workers,
    )
    return _join(profile, section, trainings, found)


def _describe(training: Training) -> str:
    return f"{training.architecture} at T={training.time_steps}, learning rate {training.learning_rate:g}"


def _join(
    profile: str, section: AddingSection, trainings: list[Training], found: list[dict]
) -> xr.Dataset:
    levels = {name: sorted({getattr(training, name) for training in trainings}) for name in LEVELS}
    # In the order of the design: figures and tables follow it.
    levels["architecture"] = list(
        dict.fromkeys(name for grid in section.grids for name in grid.architectures)
    )
    levels |= {
        "checkpoint": list(range(section.checkpoints + 1)),
        "position": list(POSITIONS),
        "stage": list(STAGES),
        "end": list(ENDS),
    }
    settings = section.model_dump(mode="json", exclude={"scheduler", "workers"})
    engines = {training.architecture: training.engine for training in trainings}
    settings |= {"recipe": RECIPE, "engines": engines}
    ds = SCHEMA.empty(levels, profile=profile, settings=settings)
    for training, result in zip(trainings, found, strict=True):
        at = {name: getattr(training, name) for name in LEVELS}
        ds["training_steps"].loc[at] = training.training_steps
        ds["parameters"].loc[{"architecture": training.architecture}] = result["parameters"]
        for name in ("status", "steps_completed", "error", "adjoint", "gain"):
            ds[name].loc[at] = result[name]
    return SCHEMA.validate(ds)
