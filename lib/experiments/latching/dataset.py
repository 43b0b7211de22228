"""The trainings of a design, and the dataset that they make."""

from pathlib import Path

import numpy as np
import torch
import xarray as xr

from lib import kernels
from lib.experiments.latching.training import Training, train
from lib.jobs import run_jobs
from lib.params.latching import LatchingSection
from lib.schema import COMPLETED, ResultsError, Schema

NAME = "latching"
RECIPE = 1
"""Raised whenever a change of the code changes results."""


def _check(ds: xr.Dataset) -> None:
    trained = ds["status"] == COMPLETED
    for name in ("error", "exponent"):
        over = [dim for dim in ds[name].dims if dim != "training"]
        if bool((ds[name].isnull().any(over) & trained).any()):
            raise ResultsError(f"{name}: expected values wherever a training was completed")
    if bool(((ds["error"] < 0) | (ds["error"] > 1)).any()):
        raise ResultsError("error: expected shares between 0 and 1")
    reached = ds["time"] <= ds["horizon"]
    if bool((ds["adjoint_median"].isnull() & reached & trained).any()):
        raise ResultsError("adjoint_median: expected a value at every step of a completed training")
    if int(ds["example"]) not in ds["training"]:
        raise ResultsError(f"example: expected one of the trainings, got {int(ds['example'])}")


_ALL = ("horizon", "sequence", "time")

SCHEMA = Schema(
    name="latching/1",
    coordinates={
        "training": ("independent training", "1"),
        "horizon": ("length of the sequences", "step"),
        "sequence": ("test sequence that is followed step by step", "1"),
        "time": ("time", "step"),
    },
    variables={
        "status": (("training",), "int8", "how the training ended", "1"),
        "steps_completed": (("training",), "int64", "batches trained on", "step"),
        "error": (("training", "horizon"), "float64", "share of test sequences misclassified", "1"),
        "exponent": (
            ("training", "sequence"),
            "float64",
            "largest Lyapunov exponent from the deciding input to the end of the longest sequence",
            "nat / step",
        ),
        "adjoint_median": (
            ("training", "horizon", "time"),
            "float32",
            "median over sequences of log10 of the norm of the adjoint state",
            "1",
        ),
        "example": ((), "int64", "the training whose trajectories are kept", "1"),
        "state_norm": (_ALL, "float32", "norm of the state in the example", "1"),
        "adjoint": (_ALL, "float32", "log10 of the norm of the adjoint state in the example", "1"),
    },
    check=_check,
)


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


def example(ds: xr.Dataset) -> int:
    """Return the training with the smallest error at its worst horizon, the first of equals: figures show it."""
    worst = ds["error"].max("horizon").fillna(np.inf)
    return int(ds["training"].values[np.argmin(worst.values)])
