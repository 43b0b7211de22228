"""Padded images (experiment 2.3): its attempts as a table, their medians, and when a network learned (notebooks 42 and 43)."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import xarray as xr

from lib.analysis.attempts import STATUS
from lib.results.networks import about, by_training
from lib.results.schema import COMPLETED, NOT_PLANNED


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
"""The methods as Table 2.2 calls them; the last two are not in it, although its reservoir may be either."""
SWEEP = "sweep"
"""The network of the sweep over kappa (Figure A2)."""
AUTHOR_SCALE = "1/T"
"""Input weights of the author's public research code, of which the text's tables are; the LSTM's begin in a way of their own."""


def attempts(ds: xr.Dataset) -> pd.DataFrame:
    """Return a row for every planned training, with every factor as a column.

    ``method`` is the network's name, ``status`` text; ``accuracy`` on the test part after the last epoch and ``metric``,
    log10 of ||lambda_1|| / ||lambda_T|| (3.6), are undefined where the training did not complete.
    """
    trained = ds.sel(stage="trained", drop=True).variables
    status, last = trained["status"], trained["test_metric"].isel(record=trained["records"] - 1)
    metric = trained["adjoint_norm_first"] - trained["adjoint_norm_last"]
    done = {"accuracy": last, "metric": metric}
    done = {name: values.where(status == COMPLETED) for name, values in done.items()}
    rows = by_training(ds, {"status": status, **done}, status != NOT_PLANNED)
    known = about(ds).drop(columns="metric").rename(columns={"network": "method"})
    rows = rows.join(known, on="run")
    return rows.assign(status=rows["status"].map(STATUS), padding=rows["padding"].astype(int))


def of_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the `attempts` behind Table 2.2: no sweep, input weights as in the author's code."""
    begun = (rows["input_scale"] == AUTHOR_SCALE) | (rows["method"] == "lstm")
    return rows[begun & (rows["method"] != SWEEP)]


def summarise(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Count `attempts` by group, in order of appearance, with ``median`` and ``mad`` of the accuracy in percent.

    The median absolute deviation is the plain one, without a factor for normal data; both are over completed attempts.
    """
    ends = [*STATUS.values()]
    counted = rows.assign(**{name: rows["status"] == name for name in ends})
    groups = counted.groupby(list(by), sort=False)
    table = groups.size().rename("planned").to_frame().join(groups[ends].sum())
    table["median"] = 100 * groups["accuracy"].median()
    table["mad"] = 100 * groups["accuracy"].agg(lambda one: (one - one.median()).abs().median())
    return table.reset_index()
