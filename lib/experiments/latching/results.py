"""The dataset of the latching experiment: what is kept of every training, and all of one example."""

import numpy as np
import xarray as xr

from lib.results.schema import COMPLETED, ResultsError, Schema


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


def example(ds: xr.Dataset) -> int:
    """Return the training with the smallest error at its worst horizon, the first of equals: figures show it."""
    worst = ds["error"].max("horizon").fillna(np.inf)
    return int(ds["training"].values[np.argmin(worst.values)])
