"""The latching experiment (section 3.6): who learned, states and adjoint states over time, and how fast these decay."""

import math

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from lib.results.schema import DIVERGED, settings_of

STATE = {"color": "#B2182B", "ylabel": r"$\|x_t\|_2$"}
ADJOINT = {"color": "#2166AC", "ylabel": r"$\|\lambda_t\|_2 \, / \, \|\Lambda\|_2$"}
"""Red states and blue adjoint states, as in Figures 3.6 to 3.8."""


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


def trajectories(ds: xr.Dataset, horizon: int) -> pd.DataFrame:
    r"""Return the example's trajectories at one length.

    Returns
    -------
    pandas.DataFrame
        Columns ``sequence``, ``time``, ``state`` (:math:`\|x_t\|_2`), ``adjoint`` (:math:`\log_{10} \|\lambda_t\|_2`) and
        ``normalised``, :math:`\|\lambda_t\|_2 / \|\Lambda\|_2` with the norm over all times of the sequence (the text's
        footnote 7).
    """
    part = ds[["state_norm", "adjoint"]].sel(horizon=horizon, time=slice(1, horizon))
    adjoint = part["adjoint"].astype("float64")
    # The logarithm is left after the largest is taken out: most norms are no floats.
    relative = 10 ** (adjoint - adjoint.max("time"))
    normalised = relative / np.sqrt((relative**2).sum("time"))
    whole = xr.Dataset({"state": part["state_norm"], "adjoint": adjoint, "normalised": normalised})
    return whole.drop_vars("horizon").to_dataframe().reset_index()


def draw_trajectories(
    ax: Axes, frame: pd.DataFrame, column: str, *, place: int, style: dict[str, str]
) -> None:
    """Draw one column of `trajectories`, a line a sequence, and a dashed line at the deciding input."""
    for _, line in frame.groupby("sequence"):
        ax.plot(line["time"], line[column], color=style["color"], linewidth=0.8, alpha=0.5)
    ax.axvline(place, color="black", linestyle="--", linewidth=1)
    ax.set(ylabel=style["ylabel"], ylim=(0, None))
