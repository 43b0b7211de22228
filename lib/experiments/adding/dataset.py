"""The trainings of a design, and the dataset that they make."""

from pathlib import Path

import torch
import xarray as xr

from lib import kernels
from lib.cells import cell_class
from lib.experiments.adding.training import ENDS, LEVELS, POSITIONS, STAGES, Training, train
from lib.jobs import run_jobs
from lib.params.adding import AddingSection
from lib.schema import COMPLETED, ResultsError, Schema

NAME = "adding"
RECIPE = 1
"""Raised whenever a change of the code changes results."""

_STEPS_OF_A_SECOND = 20_000
"""Time steps of one batch that one core does in a second, roughly; only the estimate of the time left uses it."""


def _check(ds: xr.Dataset) -> None:
    trained = ds["status"] == COMPLETED
    for name in ("error", "adjoint", "gain"):
        over = [dim for dim in ds[name].dims if dim not in LEVELS]
        if bool((ds[name].isnull().any(over) & trained).any()):
            raise ResultsError(f"{name}: expected values wherever a training was completed")
    if bool(((ds["steps_completed"] != ds["training_steps"]) & trained).any()):
        raise ResultsError("steps_completed: expected all training steps of a completed training")
    if bool((ds["error"] < 0).any()):
        raise ResultsError("error: expected mean squared errors of at least 0")


SCHEMA = Schema(
    name="adding/1",
    coordinates={
        "architecture": ("recurrent architecture", "1"),
        "time_steps": ("length of the sequences", "step"),
        "learning_rate": ("learning rate of Adam", "1"),
        "replicate": ("replicate", "1"),
        "checkpoint": ("measurement of the error, the first before training", "1"),
        "position": ("place in the sequence, as a share of its length", "1"),
        "stage": ("before or after training", "1"),
        "end": ("end of the singular values", "1"),
    },
    variables={
        "status": (LEVELS, "int8", "how the training ended", "1"),
        "training_steps": (LEVELS, "int64", "batches planned", "step"),
        "steps_completed": (LEVELS, "int64", "batches trained on", "step"),
        "parameters": (("architecture",), "int64", "parameters of the cell", "1"),
        "error": (
            (*LEVELS, "checkpoint"),
            "float64",
            "mean squared error on the test sequences",
            "1",
        ),
        "adjoint": (
            (*LEVELS, "stage", "position"),
            "float64",
            "median over sequences of log10 of the norm of the adjoint state that is read out",
            "1",
        ),
        "gain": (
            (*LEVELS, "stage", "end"),
            "float64",
            "mean over sequences of log10 of the singular values of the last 2 tau steps",
            "1",
        ),
    },
    check=_check,
)


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
