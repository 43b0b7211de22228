"""The trainings that a design asks for, and the run of all."""

from collections.abc import Mapping

import torch
import xarray as xr

from lib import kernels
from lib.cells import cell_class
from lib.experiments.adding.results import ENDS, LEVELS, POSITIONS, SCHEMA, STAGES
from lib.experiments.adding.training import Training, train
from lib.run.params import Profile
from lib.training.jobs import Experiment
from lib.training.jobs.shards import Arrays

RECIPE = 1
"""Raised whenever a change of the code changes results."""

_STEPS_OF_A_SECOND = 20_000
"""Time steps of one batch that one core does in a second, roughly; only the estimate of the time left uses it."""


def plan(profile: Profile) -> list[Training]:
    """Return the trainings of a profile, those that take longest first."""
    section = profile.adding
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


def join(profile_name: str, profile: Profile, found: Mapping[Training, Arrays]) -> xr.Dataset:
    """Return the results of all trainings as one validated dataset of `SCHEMA`."""
    section = profile.adding
    levels = {name: sorted({getattr(training, name) for training in found}) for name in LEVELS}
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
    engines = {training.architecture: training.engine for training in found}
    settings = section.model_dump(mode="json") | {"recipe": RECIPE, "engines": engines}
    ds = SCHEMA.empty(levels, profile=profile_name, settings=settings)
    for training, result in found.items():
        at = {name: getattr(training, name) for name in LEVELS}
        ds["training_steps"].loc[at] = training.training_steps
        ds["parameters"].loc[{"architecture": training.architecture}] = result["parameters"]
        for name in ("status", "steps_completed", "error", "adjoint", "gain"):
            ds[name].loc[at] = result[name]
    return SCHEMA.validate(ds)


def _describe(training: Training) -> str:
    return f"{training.architecture} at T={training.time_steps}, learning rate {training.learning_rate:g}"


ADDING = Experiment(
    name="adding",
    recipe=RECIPE,
    plan=plan,
    run=train,
    join=join,
    work=work,
    describe=_describe,
)
