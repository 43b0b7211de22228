"""Claims about latching (section 3.6).

That the states of latching networks stay bounded (Figure 3.7) is not a claim: tanh bounds them
whatever the weights.
"""

from collections.abc import Callable

import numpy as np
import xarray as xr

from study.claims.estimates import (
    Cause,
    Estimate,
    not_testable,
    proportion,
)
from study.claims.experiment_sizes import scale_of_settings
from study.claims.judging import Judges
from study.results.schema import settings_of

STEADY = 3.0
"""Orders of magnitude within which an adjoint neither vanishes nor explodes."""
STANDS_OUT = 0.04
"""An emphasized adjoint exceeds all others by a tenth; this is log10 of the factor."""


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


def _share_at_longest(ds: xr.Dataset, condition: Callable[..., xr.DataArray]) -> Estimate:
    """Estimate how many latching runs meet a condition at the longest horizon.

    It is on log10 of the median adjoint norm at the deciding input, at the end, and its largest
    elsewhere.
    """
    settings = settings_of(ds)
    end = settings["longer"][-1]
    median = ds["adjoint_median"].sel(horizon=end).astype(float)
    deciding = median.sel(time=settings["place"])
    elsewhere = median.sel(time=median["time"] != settings["place"]).max("time")
    met = condition(deciding, median.sel(time=end), elsewhere)
    return _share_of_runs(ds, met.values, latched(ds, end))


def adjoints_stay(ds: xr.Dataset) -> Estimate:
    """Estimate how many latching runs have adjoints that neither vanish nor explode.

    Parameters
    ----------
    ds
        Results of `latching`.

    Returns
    -------
    Estimate
        A share of the runs that latch at the longest horizon.
    """
    return _share_at_longest(ds, lambda deciding, end, _: abs(deciding - end) < STEADY)


def adjoints_emphasize(ds: xr.Dataset) -> Estimate:
    """Estimate how many latching runs have the largest adjoint at the deciding input.

    Parameters
    ----------
    ds
        Results of `latching`.

    Returns
    -------
    Estimate
        A share of the runs that latch at the longest horizon.
    """
    return _share_at_longest(ds, lambda deciding, _, elsewhere: deciding > elsewhere + STANDS_OUT)


judge_latching = Judges(
    {
        "diss-3.6-latch": latches,
        "diss-3.6-longer": latches_longer,
        "diss-3.6-adjoints": adjoints_stay,
        "diss-3.6-place": adjoints_emphasize,
    }
)
