"""Claims about latching (section 3.6).

That the states of latching networks stay bounded (Figure 3.7) is not a claim: tanh bounds them
for any weights.
"""

from dataclasses import replace

import numpy as np
import xarray as xr

from study.claims.estimates import Cause, Estimate, not_testable
from study.claims.estimators import proportion
from study.claims.experiment_sizes import scale_of_settings
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
    """Return the share, among the runs that are counted, of those that fulfil a condition."""
    scale = scale_of_settings(ds, int(counted.sum()))
    if not counted.any():
        reason = "no run reaches the tolerance at the lengths of this claim"
        return not_testable(reason, Cause.PREMISE, scale)
    return proportion(int((fulfilled & counted).sum()), int(counted.sum()), scale)


def latches(ds: xr.Dataset) -> Estimate:
    """Estimate how many runs latch at the shortest horizon.

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
    """Estimate how many of the runs that latch do so at every longer horizon.

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
    """Estimate how many latching runs have adjoints that neither vanish nor explode.

    The deciding input is compared with the end by the median adjoint norm at the longest horizon.

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
    """Estimate how many latching runs emphasize the deciding input at the shortest horizon.

    It is emphasized if its median adjoint norm is more than `EMPHASIS` times the mean of those at
    the other times, as in section 2.5.

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
        f"the norm of the median run is {np.median(relative[runs]):.1f} times the mean of the "
        f"others; in {is_largest[runs].sum()} of {runs.sum()} runs it is the largest of all"
    )
    return replace(estimate, note=note)


judge_latching = Judges(
    {
        "diss-3.6-latch": latches,
        "diss-3.6-longer": latches_longer,
        "diss-3.6-adjoints": adjoints_stay,
        "diss-3.6-place": adjoints_emphasize,
    }
)
