"""Tables of the latching experiment (section 3.6): states and adjoint states over time."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from study.results.schema import settings_of


def trajectories(ds: xr.Dataset, horizon: int) -> pd.DataFrame:
    r"""Return states and adjoint states of the example over time, for one sequence length.

    Parameters
    ----------
    ds
        Results of `latching`.
    horizon
        Length of the sequences.

    Returns
    -------
    pandas.DataFrame
        ``sequence``, ``time``, ``state`` (:math:`\|x_t\|_2`), ``adjoint``
        (:math:`\log_{10} \|\lambda_t\|_2`) and ``normalized``, :math:`\|\lambda_t\|_2 /
        \|\Lambda\|_2` with the norm over all times of the sequence (the paper's footnote 7).
    """
    part = ds[["state_norm", "adjoint"]].sel(horizon=horizon, time=slice(1, horizon))
    adjoint = part["adjoint"].astype("float64")
    # The largest logarithm is subtracted before exponentiating, because most norms underflow.
    relative = 10 ** (adjoint - adjoint.max("time"))
    normalized = relative / np.sqrt((relative**2).sum("time"))
    table = xr.Dataset({"state": part["state_norm"], "adjoint": adjoint, "normalized": normalized})
    return table.drop_vars("horizon").to_dataframe().reset_index()


def adjoint_ratios(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return how the adjoint state changes between the end and the deciding input.

    Parameters
    ----------
    ds
        Results of `latching`.

    Returns
    -------
    pandas.DataFrame
        ``training``, ``horizon``, ``error``, ``log10_ratio`` (median over sequences of
        :math:`\log_{10} \|\lambda_{t^*}\|_2` minus that of :math:`\log_{10} \|\lambda_T\|_2`), and
        ``rate``, the mean change of the natural logarithm per step backward in time.
    """
    place = settings_of(ds)["place"]
    median = ds["adjoint_median"].astype("float64")
    last = median.sel(time=ds["horizon"]).drop_vars("time")
    ratio = median.sel(time=place, drop=True) - last
    rate = ratio * math.log(10) / (ds["horizon"] - place)
    table = xr.Dataset({"error": ds["error"], "log10_ratio": ratio, "rate": rate})
    frame = table.to_dataframe().reset_index()
    return frame.sort_values(["training", "horizon"], ignore_index=True)


class TimesAbove(NamedTuple):
    """At how many other times a normalized adjoint state is larger."""

    mean: float
    """Mean over sequences."""
    others: int
    """Number of other times."""


def others_above(frame: pd.DataFrame, place: int) -> TimesAbove:
    """Count the times at which the normalized adjoint state exceeds that at one time.

    Parameters
    ----------
    frame
        States over time (`trajectories`).
    place
        The time to compare with.

    Returns
    -------
    TimesAbove
        Mean count over sequences, and the number of other times.
    """
    by_sequence = frame.pivot(index="time", columns="sequence", values="normalized")
    above = by_sequence > by_sequence.loc[place]
    return TimesAbove(float(above.sum().mean()), len(by_sequence) - 1)
