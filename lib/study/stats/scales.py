"""The time steps dt of networks before and after training: their range, and how their density
decays.

The time steps are stored as histograms with bins of a tenth of a decade
(`longrnn.probes.time_steps`), so every quantity here is exact to a factor of 1.26.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import optimize, stats

from study.results.networks import BIN_WIDTH

_RUN = ["label", "task", "replicate", "stage"]
"""The columns that identify a run before or after training."""
_MIN_BINS = 5
"""Minimum number of bins for a fit."""
_MAX_DECAY = 20.0
"""Largest exponent of a power law, and largest rate of an exponential times the smallest step."""


def histograms(ds: xr.Dataset) -> pd.DataFrame:
    """Return the occupied bins of the histograms of time steps.

    Parameters
    ----------
    ds
        Results of several networks, or of one run.

    Returns
    -------
    pandas.DataFrame
        One row per occupied bin: ``label``, ``task``, ``replicate``, ``stage``, ``scale`` (layer,
        or kind of step, from 0), ``dt`` (middle of the bin), ``share`` of the steps of its kind,
        and ``outermost``: whether the bin also holds the steps below or above all bins.
    """
    if "run" not in ds.dims:
        ds = ds.expand_dims("run")
    variables = ds[["time_step_share", "label", "task"]].reset_coords(drop=True)
    frame = variables.to_dataframe().reset_index().rename(columns={"time_step_share": "share"})
    frame = frame[frame["share"] > 0]
    ends = [float(ds["decade"].min()), float(ds["decade"].max())]
    frame = frame.assign(
        dt=10 ** (frame["decade"] + BIN_WIDTH / 2), outermost=frame["decade"].isin(ends)
    )
    return frame[[*_RUN, "scale", "dt", "share", "outermost"]].reset_index(drop=True)


def range_of_steps(rows: pd.DataFrame, outside: float = 0.0) -> pd.DataFrame:
    """Return the smallest and the largest time step of each run, over all kinds of step.

    Parameters
    ----------
    rows
        Bins of time steps (`histograms`).
    outside
        Share of the steps left out at either end, from 0 to 0.5.

    Returns
    -------
    pandas.DataFrame
        One row per network, replicate and stage: ``label``, ``task``, ``replicate``, ``stage``,
        ``low`` and ``high`` (middles of bins), and ``is_wider``: whether one of them is in an
        outermost bin, so that the steps may reach further.
    """

    def ends(group: pd.DataFrame) -> pd.Series:
        by_class = group.groupby("dt")["share"].sum().sort_index()
        share_up_to = by_class.cumsum() / by_class.sum()
        share_below = share_up_to - by_class / by_class.sum()
        inside = by_class.index[(share_up_to > outside) & (share_below < 1 - outside)]
        low = inside.min()
        high = inside.max()
        is_wider = group.loc[group["outermost"], "dt"].isin([low, high]).any()
        return pd.Series({"low": low, "high": high, "is_wider": is_wider})

    groups = rows.groupby(_RUN, sort=False)[["dt", "share", "outermost"]]
    ranges = groups.apply(ends).reset_index()
    return ranges.astype({"low": float, "high": float, "is_wider": bool})


class _Decay(NamedTuple):
    """Two fits of how the density of time steps falls off."""

    exponent: float
    power: float
    exponential: float
    classes: int


def decays(rows: pd.DataFrame) -> pd.DataFrame:
    """Fit a power law and an exponential to the decay of the density of time steps.

    Both fits are straight lines (`scipy.stats.linregress`) of the log density, against the log of
    the step and against the step. Both use the same bins: the most frequent one and all occupied
    ones on the side of it that has more bins.

    Parameters
    ----------
    rows
        Bins of time steps (`histograms`).

    Returns
    -------
    pandas.DataFrame
        One row per network, replicate, stage and kind of step: ``exponent`` of the power law,
        ``power`` and ``exponential`` (R² of the two fits) and ``classes`` (number of bins). The
        fits are nan if there are fewer than five bins.
    """
    return _fit_each_kind(rows, _fit_decay)


def _fit_each_kind(rows: pd.DataFrame, fit: Callable[[pd.DataFrame], NamedTuple]) -> pd.DataFrame:
    """Fit the histogram of each network, replicate, stage and kind of step; one row per fit.

    The outermost bins are left out, because their width is not that of the steps they hold.
    """

    def fit_group(group: pd.DataFrame) -> pd.Series:
        return pd.Series(fit(group[~group["outermost"]])._asdict())

    groups = rows.groupby([*_RUN, "scale"], sort=False)[["dt", "share", "outermost"]]
    return groups.apply(fit_group).reset_index()


def _longer_side(histogram: pd.DataFrame) -> pd.DataFrame:
    """Return the most frequent bin and those on the side of it that has more bins."""
    if histogram.empty:
        return histogram
    histogram = histogram.sort_values("dt")
    mode = int(histogram["share"].to_numpy().argmax())
    if mode < len(histogram) / 2:
        return histogram.iloc[mode:]
    return histogram.iloc[: mode + 1]


def _fit_decay(histogram: pd.DataFrame) -> _Decay:
    fitted = _longer_side(histogram)
    size = fitted["dt"].to_numpy()
    log_density = np.log10(fitted["share"] / fitted["dt"]).to_numpy()
    if len(size) < _MIN_BINS:
        return _Decay(np.nan, np.nan, np.nan, len(size))
    power = stats.linregress(np.log10(size), log_density)
    exponential = stats.linregress(size, log_density)
    return _Decay(power.slope, power.rvalue**2, exponential.rvalue**2, len(size))


class _Likelihoods(NamedTuple):
    """Two laws of decay fitted by maximum likelihood."""

    exponent: float
    rate: float
    ratio: float
    classes: int


def likelihood_ratios(rows: pd.DataFrame) -> pd.DataFrame:
    r"""Compare a power law and an exponential by their likelihoods, as in Vuong (1989).

    The densities are :math:`x^{-a}` and :math:`e^{-bx}` with :math:`a, b \ge 0`, between the ends
    of the bins that `decays` fits. Both have one parameter, which maximizes the likelihood of the
    bin that each step lies in. Steps of a network are not independent, so the ratio is one
    number per network, and tests are over networks. A. Clauset, C. Shalizi, M. Newman, *Power-law
    distributions in empirical data*, SIAM Review 2009, sections 3.3 and 5.

    Parameters
    ----------
    rows
        Bins of time steps (`histograms`).

    Returns
    -------
    pandas.DataFrame
        One row per network, replicate, stage and kind of step: ``exponent`` a and ``rate`` b,
        ``ratio`` (log-likelihood of the power law minus that of the exponential, per step, in nats)
        and ``classes`` (number of bins). All but the last are nan if there are fewer than five
        bins.
    """
    return _fit_each_kind(rows, _compare_likelihoods)


def _compare_likelihoods(histogram: pd.DataFrame) -> _Likelihoods:
    fitted = _longer_side(histogram)
    count = len(fitted)
    if count < _MIN_BINS:
        return _Likelihoods(np.nan, np.nan, np.nan, count)
    share = fitted["share"].to_numpy() / fitted["share"].sum()
    half_bin = 10 ** (BIN_WIDTH / 2)
    lower = fitted["dt"].to_numpy() / half_bin
    upper = fitted["dt"].to_numpy() * half_bin
    lowest = lower[0]
    highest = upper[-1]

    def of_power(exponent: float) -> float:
        logs = _log_power_mass(lower, upper, exponent)
        return float(share @ logs - _log_power_mass(lowest, highest, exponent))

    def of_exponential(rate: float) -> float:
        logs = _log_exponential_mass(lower, upper, rate) - rate * (lower - lowest)
        return float(share @ logs - _log_exponential_mass(lowest, highest, rate))

    exponent, power = _maximize(of_power, _MAX_DECAY)
    rate, exponential = _maximize(of_exponential, _MAX_DECAY / lowest)
    return _Likelihoods(exponent, rate, power - exponential, count)


def _log_power_mass(lower: np.ndarray, upper: np.ndarray, exponent: float) -> np.ndarray:
    """Return the log of the integral of ``x**-exponent`` from `lower` to `upper`."""
    power = 1 - exponent
    logs = np.log(upper / lower)
    if abs(power) < 1e-9:
        return np.log(logs)
    return power * np.log(lower) + np.log(np.expm1(power * logs) / power)


def _log_exponential_mass(lower: np.ndarray, upper: np.ndarray, rate: float) -> np.ndarray:
    """Return the log of the integral of ``exp(-rate * (x - lower))`` from `lower` to `upper`."""
    width = upper - lower
    if rate * np.max(width) < 1e-9:
        return np.log(width)
    return np.log(-np.expm1(-rate * width) / rate)


def _maximize(log_likelihood: Callable[[float], float], largest: float) -> tuple[float, float]:
    """Return the argument from 0 to `largest` that maximizes a function, and the maximum."""
    best = optimize.minimize_scalar(
        lambda parameter: -log_likelihood(parameter),
        bounds=(0, largest),
        method="bounded",
        options={"xatol": 1e-9 * largest},
    )
    at_zero = log_likelihood(0.0)
    if at_zero >= -best.fun:
        return 0.0, at_zero
    return float(best.x), float(-best.fun)


def largest_step(run: xr.Dataset) -> float:
    """Return the largest time step that UnICORNN may take.

    Parameters
    ----------
    run
        Results of one run.

    Returns
    -------
    float
        The hyperparameter dt. Each neuron's step is dt times a logistic function.
    """
    step_sizes = json.loads(str(run["dt"].item()))
    return float(np.max(step_sizes))
