"""Claims about latching (section 3.6).

A network latches if it remembers one sign over a long time. That the states of latching networks
stay bounded (Figure 3.7) is not a claim, because tanh bounds them for any weights.
"""

from dataclasses import replace

import numpy as np
import xarray as xr

from study.claims.estimates import Cause, Estimate, not_testable
from study.claims.experiment_sizes import scale_of_settings
from study.claims.intervals import proportion
from study.claims.judging import Judges
from study.claims.linear_gaps import EMPHASIS
from study.results.schema import settings_of

STEADY = 3.0
"""Orders of magnitude within which an adjoint neither vanishes nor explodes."""


def latched(ds: xr.Dataset, horizon: int | None = None) -> np.ndarray:
    """Return which runs reached the tolerance at the shortest horizon and at another one.

    Parameters
    ----------
    ds
        Results of `latching`.
    horizon
        The other horizon; None for the shortest alone.

    Returns
    -------
    numpy.ndarray
        Boolean, (training,).
    """
    settings = settings_of(ds)
    horizons = [settings["horizon"], horizon or settings["horizon"]]
    below = ds["error"].sel(horizon=horizons) < settings["tolerance"]
    return below.all("horizon").values


def _share_of_runs(ds: xr.Dataset, fulfilled: np.ndarray, counted: np.ndarray) -> Estimate:
    """Return the share of runs that fulfill a condition, among those that are counted."""
    scale = scale_of_settings(ds, int(counted.sum()))
    if not counted.any():
        reason = "no run reaches the tolerance at the lengths of this claim"
        return not_testable(reason, Cause.PREMISE, scale)
    return proportion(int((fulfilled & counted).sum()), int(counted.sum()), scale)


def latches(ds: xr.Dataset) -> Estimate:
    """Estimate the share of runs that latch at the shortest horizon.

    Parameters
    ----------
    ds
        Results of `latching`.

    Returns
    -------
    Estimate
        A share of the runs.
    """
    return _share_of_runs(ds, latched(ds), np.ones(ds.sizes["training"], bool))


def latches_longer(ds: xr.Dataset) -> Estimate:
    """Estimate the share of latching runs that latch at every longer horizon, too.

    Parameters
    ----------
    ds
        Results of `latching`.

    Returns
    -------
    Estimate
        A share of the runs that latch at the shortest horizon.
    """
    settings = settings_of(ds)
    below = ds["error"].sel(horizon=settings["longer"]) < settings["tolerance"]
    return _share_of_runs(ds, below.all("horizon").values, latched(ds))


def adjoints_stay(ds: xr.Dataset) -> Estimate:
    """Estimate the share of latching runs whose adjoints neither vanish nor explode.

    The median adjoint norm at the deciding input is compared with that at the end of the sequence,
    at the longest horizon.

    Parameters
    ----------
    ds
        Results of `latching`.

    Returns
    -------
    Estimate
        A share of the runs that latch at the longest horizon.
    """
    settings = settings_of(ds)
    end = settings["longer"][-1]
    median = ds["adjoint_median"].sel(horizon=end).astype(float)  # log10
    change = median.sel(time=settings["place"]) - median.sel(time=end)
    return _share_of_runs(ds, (abs(change) < STEADY).values, latched(ds, end))


def adjoints_emphasize(ds: xr.Dataset) -> Estimate:
    """Estimate the share of latching runs that emphasize the deciding input.

    The input is emphasized if its median adjoint norm is more than `EMPHASIS` times the mean of the
    norms at the other times, at the shortest horizon.

    Parameters
    ----------
    ds
        Results of `latching`.

    Returns
    -------
    Estimate
        A share of the runs that latch at the shortest horizon.
    """
    settings = settings_of(ds)
    horizon = settings["horizon"]
    median = ds["adjoint_median"].sel(horizon=horizon, time=slice(1, horizon)).astype(float)
    norms = 10 ** (median - median.max("time"))
    deciding = norms.sel(time=settings["place"])
    others = norms.sel(time=norms["time"] != settings["place"])
    relative = (deciding / others.mean("time")).values
    runs = latched(ds)
    estimate = _share_of_runs(ds, relative > EMPHASIS, runs)
    if not estimate.known:
        return estimate
    is_largest = (deciding > others.max("time")).values
    note = (
        "in the median run, the adjoint norm at the deciding input is "
        f"{np.median(relative[runs]):.1f} times the mean of the others; in "
        f"{is_largest[runs].sum()} of {runs.sum()} runs it is the largest"
    )
    return replace(estimate, notes=(note,))


judge_latching = Judges(
    {
        "diss-3.6-latch": latches,
        "diss-3.6-longer": latches_longer,
        "diss-3.6-adjoints": adjoints_stay,
        "diss-3.6-place": adjoints_emphasize,
    }
)
