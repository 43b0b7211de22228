"""The time steps of networks before and after training: their range, and how their number decays.

Time steps are counted in classes of a tenth of a decade (`longrnn.probes.time_steps`), so every
quantity here is exact to a factor of 1.26.
"""

import json
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from study.results.networks import CLASS

_RUN = ["label", "task", "replicate", "stage"]
"""The columns that identify a run before or after training."""
_SMALLEST_FIT = 5
"""Smallest number of classes that a decay is fitted to."""


def histograms(ds: xr.Dataset) -> pd.DataFrame:
    """Return the occupied classes of time steps.

    Parameters
    ----------
    ds
        Results of several networks, or of one run.

    Returns
    -------
    pandas.DataFrame
        One row per occupied class: ``label``, ``task``, ``replicate``, ``stage``, ``scale`` (layer,
        or kind of step, from 0), ``dt`` (middle of the class) and ``share`` of the kind's steps.
    """
    if "run" not in ds.dims:
        ds = ds.expand_dims("run")
    variables = ds[["time_step_share", "label", "task"]].reset_coords(drop=True)
    frame = variables.to_dataframe().reset_index().rename(columns={"time_step_share": "share"})
    frame = frame[frame["share"] > 0]
    frame = frame.assign(dt=10 ** (frame["decade"] + CLASS / 2))
    return frame[[*_RUN, "scale", "dt", "share"]].reset_index(drop=True)


def reach(rows: pd.DataFrame, outside: float = 0.0) -> pd.DataFrame:
    """Return the smallest and the largest time step of each run, over all kinds of step.

    Parameters
    ----------
    rows
        Classes of time steps (`histograms`).
    outside
        Share of the steps left out at either end, from 0 to 0.5.

    Returns
    -------
    pandas.DataFrame
        One row per network, replicate and stage: ``label``, ``task``, ``replicate``, ``stage``,
        ``low`` and ``high`` (middles of classes).
    """

    def ends(group: pd.DataFrame) -> pd.Series:
        by_class = group.groupby("dt")["share"].sum().sort_index()
        share_up_to = by_class.cumsum() / by_class.sum()
        share_below = share_up_to - by_class / by_class.sum()
        inside = by_class.index[(share_up_to > outside) & (share_below < 1 - outside)]
        return pd.Series({"low": inside.min(), "high": inside.max()})

    return rows.groupby(_RUN, sort=False)[["dt", "share"]].apply(ends).reset_index()


class _Decay(NamedTuple):
    """Two fits of how the density of time steps falls off."""

    exponent: float
    power: float
    exponential: float
    classes: int


def decays(rows: pd.DataFrame) -> pd.DataFrame:
    """Fit how the number of time steps falls off, as a power of the size and as its exponential.

    Both fits are straight lines (`scipy.stats.linregress`) of the log of the density, against log
    size and against size. Both use the same classes: all occupied ones on the longer side of the
    most frequent size.

    Parameters
    ----------
    rows
        Classes of time steps (`histograms`).

    Returns
    -------
    pandas.DataFrame
        One row per network, replicate, stage and kind of step: ``exponent`` of the power law,
        ``power`` and ``exponential`` (R² of the two fits) and ``classes`` (number fitted). The
        fits are nan if there are fewer than five classes.
    """

    def fit(group: pd.DataFrame) -> pd.Series:
        return pd.Series(_fit_decay(group)._asdict())

    groups = rows.groupby([*_RUN, "scale"], sort=False)[["dt", "share"]]
    return groups.apply(fit).reset_index()


def _fit_decay(histogram: pd.DataFrame) -> _Decay:
    histogram = histogram.sort_values("dt")
    size = histogram["dt"].to_numpy()
    log_density = np.log10(histogram["share"] / histogram["dt"]).to_numpy()
    mode = int(histogram["share"].to_numpy().argmax())
    longer_side = slice(None, mode + 1)
    if mode < len(histogram) / 2:
        longer_side = slice(mode, None)
    size = size[longer_side]
    log_density = log_density[longer_side]
    if len(size) < _SMALLEST_FIT:
        return _Decay(np.nan, np.nan, np.nan, len(size))
    power = stats.linregress(np.log10(size), log_density)
    exponential = stats.linregress(size, log_density)
    return _Decay(power.slope, power.rvalue**2, exponential.rvalue**2, len(size))


def largest_step(run: xr.Dataset) -> float:
    """Return the largest time step that UnICORNN may take.

    Parameters
    ----------
    run
        Results of one run.

    Returns
    -------
    float
        The hyper-parameter dt; the logistic function of each neuron takes a share of it.
    """
    step_sizes = json.loads(str(run["dt"].item()))
    return float(np.max(step_sizes))
