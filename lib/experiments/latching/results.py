"""The dataset of the latching experiment: what is kept of every training, and all of one example."""

import json
import math

import numpy as np
import pandas as pd
import xarray as xr

from lib.results.schema import COMPLETED, DIVERGED, ResultsError, Schema


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


def settings_of(ds: xr.Dataset) -> dict:
    """Return the settings that the results depend on."""
    return json.loads(ds.attrs["settings"])


def counts(ds: xr.Dataset) -> pd.DataFrame:
    """Return how many trainings reached the tolerance, by length.

    Returns
    -------
    pandas.DataFrame
        Columns ``horizon``, ``trainings``, ``diverged``, ``reached``, ``median_error``.
    """
    error = ds["error"].to_dataframe().reset_index()
    tolerance = settings_of(ds)["tolerance"]
    groups = error.groupby("horizon")["error"]
    return pd.DataFrame(
        {
            "trainings": ds.sizes["training"],
            "diverged": int((ds["status"] == DIVERGED).sum()),
            "reached": groups.agg(lambda values: int((values < tolerance).sum())),
            "median_error": groups.median(),
        }
    ).reset_index()


def adjoint_ratios(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return how the adjoint state changes between the end and the deciding input.

    Returns
    -------
    pandas.DataFrame
        Columns ``training``, ``horizon``, ``error``, ``log10_ratio`` (median over sequences of
        :math:`\log_{10} \|\lambda_{t^*}\|_2` less that of :math:`\log_{10} \|\lambda_T\|_2`) and ``rate``, the mean change of
        the natural logarithm for a step back.
    """
    place = settings_of(ds)["place"]
    median = ds["adjoint_median"].astype("float64")
    last = median.sel(time=ds["horizon"])
    ratio = median.sel(time=place, drop=True) - last.drop_vars("time", errors="ignore")
    rate = ratio * math.log(10) / (ds["horizon"] - place)
    whole = xr.Dataset({"error": ds["error"], "log10_ratio": ratio, "rate": rate})
    return (
        whole.to_dataframe().reset_index().sort_values(["training", "horizon"], ignore_index=True)
    )
