"""Tables of chapter 2 and section 3.6: networks on long time gaps, padded images, and latching."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import norm

from study.results.networks import about, by_run
from study.results.schema import COMPLETED, NOT_PLANNED, settings_of
from study.stats.attempts import STATUS

# the task itself: emphasis (Figures 2.2, A1) and how even adjoints are (Figure 2.3)

LEARNED = 0.99
"""Accuracy from which a network counts as one that learned the task."""


def emphasis_table(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return a row for each completed network of `linear_gaps`: how much weight the deciding
    input t* gets.

    ``rank`` of the input t* by the size of its emphasis, 1 for the largest; its ``share`` in the
    sum of the squared emphases; ``accuracy``, and the accuracy ``expected`` of a network with this
    emphasis; ``departure`` of W from orthogonality.

    The other T - 1 inputs are independent signs. Their weighted sum is nearly normal, so a network
    whose emphasis c has the right sign at t* is right with probability :math:`\Phi(c_{t^*} /
    \sqrt{\sum_{t \ne t^*} c_t^2})`.
    """
    at_place = ds["emphasis"].sel(time=ds["place"]).drop_vars("time")
    squares = (ds["emphasis"] ** 2).sum("time")
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = xr.apply_ufunc(norm.cdf, at_place / np.sqrt((squares - at_place**2).clip(0)))
    rank = 1 + (abs(ds["emphasis"]) > abs(at_place)).sum("time")
    measured = ds[["accuracy", "departure", "status"]]
    measured = measured.assign(rank=rank, share=at_place**2 / squares, expected=expected)
    run = ["place", "orthogonality", "replicate"]
    frame = measured.to_dataframe(dim_order=run).reset_index()
    columns = [*run, "rank", "share", "accuracy", "expected", "departure"]
    return frame.loc[frame["status"] == COMPLETED, columns].reset_index(drop=True)


def kept_accuracy(ds: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of the networks that are followed: of the record that validates best,
    the latest of equals.
    """
    latest_first = ds["validation_metric"].fillna(-1).isel(record=slice(None, None, -1))
    best = latest_first.argmax("record")
    return ds["test_metric"].isel(record=ds.sizes["record"] - 1 - best).drop_vars("record")


def normalised_adjoints(ds: xr.Dataset) -> xr.DataArray:
    """Return each sequence's adjoint norms over their largest, between 0 and 1 (section 2.6.1);
    ``nan`` where all are zero.
    """
    with np.errstate(invalid="ignore"):  # -inf less -inf
        return 10 ** (ds["adjoint_norm"] - ds["adjoint_norm"].max("time"))


# latching: states and adjoint states over time, and how fast these decay (notebooks 46 to 48)


def trajectories(ds: xr.Dataset, horizon: int) -> pd.DataFrame:
    r"""Return the example's trajectories at one length: ``sequence``, ``time`` and three norms.

    ``state`` is :math:`\|x_t\|_2`, ``adjoint`` :math:`\log_{10} \|\lambda_t\|_2` and ``normalised``
    :math:`\|\lambda_t\|_2 / \|\Lambda\|_2` with the norm over all times of the sequence (the
    paper's footnote 7).
    """
    part = ds[["state_norm", "adjoint"]].sel(horizon=horizon, time=slice(1, horizon))
    adjoint = part["adjoint"].astype("float64")
    # The logarithm is left after the largest is taken out: most norms are no floats.
    relative = 10 ** (adjoint - adjoint.max("time"))
    normalised = relative / np.sqrt((relative**2).sum("time"))
    whole = xr.Dataset({"state": part["state_norm"], "adjoint": adjoint, "normalised": normalised})
    return whole.drop_vars("horizon").to_dataframe().reset_index()


def adjoint_ratios(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return how the adjoint state changes between the end and the deciding input:
    ``training``, ``horizon``, ``error`` and

    ``log10_ratio``, the median over sequences of :math:`\log_{10} \|\lambda_{t^*}\|_2` less that of
    :math:`\log_{10} \|\lambda_T\|_2`, and ``rate``, the mean change of the natural logarithm for a
    step back.
    """
    place = settings_of(ds)["place"]
    median = ds["adjoint_median"].astype("float64")
    last = median.sel(time=ds["horizon"]).drop_vars("time")
    ratio = median.sel(time=place, drop=True) - last
    rate = ratio * math.log(10) / (ds["horizon"] - place)
    whole = xr.Dataset({"error": ds["error"], "log10_ratio": ratio, "rate": rate})
    keys = ["training", "horizon"]
    return whole.to_dataframe().reset_index().sort_values(keys, ignore_index=True)


def others_above(frame: pd.DataFrame, place: int) -> tuple[float, int]:
    """Return at how many other times the normalised adjoint state exceeds that at `place`, mean
    over sequences, and how many there are.
    """
    each = frame.pivot(index="time", columns="sequence", values="normalised")
    return float((each > each.loc[place]).sum().mean()), len(each) - 1


# padded images (experiment 2.3)


class Look(NamedTuple):
    """How a method appears in tables and figures."""

    label: str
    colour: str
    marker: str


METHODS = {
    "adjoint": Look("RNN adjoint", "#000000", "o"),
    "coadjoint": Look("RNN coadjoint", "#0072B2", "s"),
    "constrained": Look("RNN constrained", "#009E73", "^"),
    "lstm": Look("LSTM", "#E69F00", "D"),
    "reservoir": Look("RNN RC", "#CC79A7", "v"),
    "fixed_w": Look("RNN, W fixed", "#D55E00", "<"),
    "linear": Look("Linear RNN adjoint", "#56B4E9", "P"),
}
"""The methods as Table 2.2 calls them; the last two are not in it, although its reservoir may be
either.
"""
SWEEP = "sweep"
"""The network of the sweep over kappa (Figure A2)."""
AUTHOR_SCALE = "1/T"
"""Input weights of the author's public research code, of which the paper's tables are; the LSTM's
begin in a way of their own.
"""


def attempts(ds: xr.Dataset) -> pd.DataFrame:
    """Return a row for every planned training, with every factor as a column.

    ``method`` is the network's name, ``status`` text; ``accuracy`` on the test part after the last
    epoch and ``metric``, log10 of ||lambda_1|| / ||lambda_T|| (3.6), are undefined where the
    training did not complete.
    """
    trained = ds.sel(stage="trained", drop=True).variables
    status, last = trained["status"], trained["test_metric"].isel(record=trained["records"] - 1)
    metric = trained["adjoint_norm_first"] - trained["adjoint_norm_last"]
    done = {"accuracy": last, "metric": metric}
    done = {name: values.where(status == COMPLETED) for name, values in done.items()}
    rows = by_run(ds, {"status": status, **done}, status != NOT_PLANNED)
    known = about(ds).drop(columns="metric").rename(columns={"network": "method"})
    rows = rows.join(known, on="run")
    return rows.assign(status=rows["status"].map(STATUS), padding=rows["padding"].astype(int))


def of_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the `attempts` behind Table 2.2: no sweep, input weights as in the author's code."""
    begun = (rows["input_scale"] == AUTHOR_SCALE) | (rows["method"] == "lstm")
    return rows[begun & (rows["method"] != SWEEP)]


def summarise(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Count `attempts` by group, in order of appearance, with ``median`` and ``mad`` of the
    accuracy in percent.

    The median absolute deviation is the plain one, without a factor for normal data; both are over
    completed attempts.
    """
    ends = [*STATUS.values()]
    counted = rows.assign(**{name: rows["status"] == name for name in ends})
    groups = counted.groupby(list(by), sort=False)
    table = groups.size().rename("planned").to_frame().join(groups[ends].sum())
    table["median"] = 100 * groups["accuracy"].median()
    table["mad"] = 100 * groups["accuracy"].agg(lambda one: (one - one.median()).abs().median())
    return table.reset_index()
