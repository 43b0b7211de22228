"""Networks on long time gaps: what they emphasise (Figures 2.2, A1), how even their adjoints are (Figure 2.3), and how these decay in networks that latch (3.6)."""

import math

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import norm

from lib.results.schema import COMPLETED, settings_of

LEARNED = 0.99
"""Accuracy from which a network counts as one that learned the task."""


def emphasis_table(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return a row for each completed network of `linear_gaps`: how much weight the deciding input t* gets.

    ``rank`` of the input t* by the size of its emphasis, 1 for the largest; its ``share`` in the sum of the squared emphases;
    ``accuracy``, and the accuracy ``expected`` of a network with this emphasis; ``departure`` of W from orthogonality.

    The other T - 1 inputs are independent signs. Their weighted sum is nearly normal, so a network whose emphasis c
    has the right sign at t* is right with probability :math:`\Phi(c_{t^*} / \sqrt{\sum_{t \ne t^*} c_t^2})`.
    """
    at_place = ds["emphasis"].sel(time=ds["place"]).drop_vars("time")
    squares = (ds["emphasis"] ** 2).sum("time")
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = xr.apply_ufunc(norm.cdf, at_place / np.sqrt((squares - at_place**2).clip(0)))
    measured = xr.Dataset(
        {
            "rank": 1 + (abs(ds["emphasis"]) > abs(at_place)).sum("time"),
            "share": at_place**2 / squares,
            "accuracy": ds["accuracy"],
            "expected": expected,
            "departure": ds["departure"],
            "status": ds["status"],
        }
    )
    frame = measured.to_dataframe(dim_order=["place", "orthogonality", "replicate"]).reset_index()
    return frame[frame["status"] == COMPLETED].drop(columns="status").reset_index(drop=True)


def kept_accuracy(ds: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of the networks that are followed: of the record that validates best, the latest of equals."""
    latest_first = ds["validation_metric"].fillna(-1).isel(record=slice(None, None, -1))
    best = latest_first.argmax("record")
    return ds["test_metric"].isel(record=ds.sizes["record"] - 1 - best).drop_vars("record")


def normalised_adjoints(ds: xr.Dataset) -> xr.DataArray:
    """Return each sequence's adjoint norms over their largest, between 0 and 1 (section 2.6.1); ``nan`` where all are zero."""
    with np.errstate(invalid="ignore"):  # -inf less -inf
        return 10 ** (ds["adjoint_norm"] - ds["adjoint_norm"].max("time"))


def trajectories(ds: xr.Dataset, horizon: int) -> pd.DataFrame:
    r"""Return the example's trajectories at one length: ``sequence``, ``time`` and three norms.

    ``state`` is :math:`\|x_t\|_2`, ``adjoint`` :math:`\log_{10} \|\lambda_t\|_2` and ``normalised``
    :math:`\|\lambda_t\|_2 / \|\Lambda\|_2` with the norm over all times of the sequence (the text's footnote 7).
    """
    part = ds[["state_norm", "adjoint"]].sel(horizon=horizon, time=slice(1, horizon))
    adjoint = part["adjoint"].astype("float64")
    # The logarithm is left after the largest is taken out: most norms are no floats.
    relative = 10 ** (adjoint - adjoint.max("time"))
    normalised = relative / np.sqrt((relative**2).sum("time"))
    whole = xr.Dataset({"state": part["state_norm"], "adjoint": adjoint, "normalised": normalised})
    return whole.drop_vars("horizon").to_dataframe().reset_index()


def adjoint_ratios(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return how the adjoint state changes between the end and the deciding input: ``training``, ``horizon``, ``error`` and

    ``log10_ratio``, the median over sequences of :math:`\log_{10} \|\lambda_{t^*}\|_2` less that of
    :math:`\log_{10} \|\lambda_T\|_2`, and ``rate``, the mean change of the natural logarithm for a step back.
    """
    place = settings_of(ds)["place"]
    median = ds["adjoint_median"].astype("float64")
    last = median.sel(time=ds["horizon"]).drop_vars("time")
    ratio = median.sel(time=place, drop=True) - last
    rate = ratio * math.log(10) / (ds["horizon"] - place)
    whole = xr.Dataset({"error": ds["error"], "log10_ratio": ratio, "rate": rate})
    keys = ["training", "horizon"]
    return whole.to_dataframe().reset_index().sort_values(keys, ignore_index=True)


def others_above(frame: pd.DataFrame, place: int) -> tuple[int, int]:
    """Return at how many other times the median normalised adjoint state exceeds that at `place`, and how many there are."""
    median = frame.groupby("time")["normalised"].median()
    return int((median > median[place]).sum()), len(median) - 1
