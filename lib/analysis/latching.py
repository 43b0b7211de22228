"""The latching experiment (section 3.6): states and adjoint states over time, and how fast these decay (notebooks 46 to 48)."""

import math

import numpy as np
import pandas as pd
import xarray as xr

from lib.results.schema import settings_of


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
