"""Tables of chapter 2 and section 3.6: networks on long time gaps, and latching.

Padded images, the chapter's third experiment, are in `study.stats.padded_images`.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import norm

from study.results.schema import COMPLETED, settings_of

LEARNED = 0.99
"""Smallest accuracy of a network that has learned the task."""

# the gap task: emphasis (Figures 2.2, A1) and evenness of adjoints (Figure 2.3)


def emphasis_table(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return how much each completed network of `linear_gaps` emphasizes the deciding input t*.

    The other T - 1 inputs are independent signs. Their weighted sum is nearly normal, so a network
    whose emphasis c has the right sign at t* is right with probability :math:`\Phi(c_{t^*} /
    \sqrt{\sum_{t \ne t^*} c_t^2})`.

    Parameters
    ----------
    ds
        Results of `linear_gaps`.

    Returns
    -------
    pandas.DataFrame
        One row per completed network: ``place`` (t*), ``orthogonality``, ``replicate``, ``rank`` of
        t* by the size of its emphasis (1 for the largest), ``share`` of t* in the sum of squared
        emphases, ``accuracy``, ``expected`` (accuracy of a network with this emphasis) and
        ``departure`` of W from orthogonality.
    """
    emphasis = ds["emphasis"]
    deciding = emphasis.sel(time=ds["place"]).drop_vars("time")
    squares = (emphasis**2).sum("time")
    squares_of_others = (squares - deciding**2).clip(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = xr.apply_ufunc(norm.cdf, deciding / np.sqrt(squares_of_others))
    table = ds[["accuracy", "departure", "status"]].assign(
        rank=1 + (abs(emphasis) > abs(deciding)).sum("time"),
        share=deciding**2 / squares,
        expected=expected,
    )
    factors = ["place", "orthogonality", "replicate"]
    frame = table.to_dataframe(dim_order=factors).reset_index()
    columns = [*factors, "rank", "share", "accuracy", "expected", "departure"]
    return frame.loc[frame["status"] == COMPLETED, columns].reset_index(drop=True)


def kept_accuracy(ds: xr.Dataset) -> xr.DataArray:
    """Return the test accuracy of each network at its best record.

    Parameters
    ----------
    ds
        Results with ``validation_metric`` and ``test_metric`` along ``record``.

    Returns
    -------
    xarray.DataArray
        Test accuracy at the record with the best validation accuracy; the latest one in a tie.
    """
    latest_first = ds["validation_metric"].fillna(-1).isel(record=slice(None, None, -1))
    records_from_end = latest_first.argmax("record")
    best = ds.sizes["record"] - 1 - records_from_end
    return ds["test_metric"].isel(record=best).drop_vars("record")


def normalized_adjoints(ds: xr.Dataset) -> xr.DataArray:
    """Return each sequence's adjoint norms over their maximum (section 2.6.1).

    Parameters
    ----------
    ds
        Results with ``adjoint_norm`` (log10) along ``time``.

    Returns
    -------
    xarray.DataArray
        Between 0 and 1; nan if all norms of a sequence are zero.
    """
    with np.errstate(invalid="ignore"):  # -inf minus -inf
        return 10 ** (ds["adjoint_norm"] - ds["adjoint_norm"].max("time"))


# latching: states and adjoint states over time, and how fast these decay (notebooks 46 to 48)


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
        (:math:`\log_{10} \|\lambda_t\|_2`) and ``normalised``, :math:`\|\lambda_t\|_2 /
        \|\Lambda\|_2` with the norm over all times of the sequence (the paper's footnote 7).
    """
    part = ds[["state_norm", "adjoint"]].sel(horizon=horizon, time=slice(1, horizon))
    adjoint = part["adjoint"].astype("float64")
    # The largest logarithm is subtracted before exponentiating, because most norms underflow.
    relative = 10 ** (adjoint - adjoint.max("time"))
    normalised = relative / np.sqrt((relative**2).sum("time"))
    table = xr.Dataset({"state": part["state_norm"], "adjoint": adjoint, "normalised": normalised})
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
    by_sequence = frame.pivot(index="time", columns="sequence", values="normalised")
    above = by_sequence > by_sequence.loc[place]
    return TimesAbove(float(above.sum().mean()), len(by_sequence) - 1)
