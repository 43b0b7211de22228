"""The dataset of the adding problem: what is kept of every training."""

import xarray as xr

from lib.results.schema import COMPLETED, NOT_PLANNED, ResultsError, Schema

POSITIONS = tuple(round(k / 50, 2) for k in range(51))
"""Where along a sequence the adjoint states are kept, as shares of T."""
STAGES = ("untrained", "trained")
ENDS = ("largest", "smallest")
LEVELS = ("architecture", "time_steps", "learning_rate", "replicate")
"""The levels of one training, from which its random numbers follow."""


def _check(ds: xr.Dataset) -> None:
    trained = ds["status"] == COMPLETED
    for name in ("error", "adjoint", "gain"):
        over = [dim for dim in ds[name].dims if dim not in LEVELS]
        if bool((ds[name].isnull().any(over) & trained).any()):
            raise ResultsError(f"{name}: expected values wherever a training was completed")
    if bool(((ds["steps_completed"] != ds["training_steps"]) & trained).any()):
        raise ResultsError("steps_completed: expected all training steps of a completed training")
    if bool(((ds["status"] == NOT_PLANNED) != (ds["training_steps"] == 0)).any()):
        raise ResultsError("training_steps: expected some exactly where a training is planned")
    if bool((ds["error"] < 0).any()):
        raise ResultsError("error: expected mean squared errors of at least 0")


SCHEMA = Schema(
    name="adding/2",
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
    unions=("status",),
)
