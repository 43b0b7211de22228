"""Tables of experiment 2.3: networks that classify padded images, by training method."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import xarray as xr

from study.results.names import color_of, marker_of
from study.results.runs import about, by_run
from study.results.schema import COMPLETED, NOT_PLANNED
from study.stats.attempts import STATUS


class MethodStyle(NamedTuple):
    """How a method appears in tables and figures."""

    label: str
    color: str
    marker: str


METHODS = {
    "adjoint": MethodStyle("RNN adjoint", color_of("rnn"), marker_of("rnn")),
    "coadjoint": MethodStyle("RNN coadjoint", "#0072B2", "D"),
    "constrained": MethodStyle("RNN constrained", "#009E73", "^"),
    "lstm": MethodStyle("LSTM", color_of("lstm"), marker_of("lstm")),
    "reservoir": MethodStyle("RNN RC", "#CC79A7", "v"),
    "fixed_w": MethodStyle("RNN, W fixed", "#D55E00", "<"),
    "linear": MethodStyle("Linear RNN adjoint", color_of("linear_rnn"), "P"),
}
"""The methods with their labels in Table 2.2. The last two are not in that table; its RNN RC may be
trained like `reservoir` or like `fixed_w`.
"""
SWEEP = "sweep"
"""The network of the sweep over kappa (Figure A2)."""
AUTHOR_SCALE = "1/T"
"""Scale of the input weights in the author's public research code, from which the paper's tables
come. The LSTM has its own initialization.
"""


def padded_runs(ds: xr.Dataset) -> pd.DataFrame:
    """Return one row per planned run, with every factor as a column.

    Parameters
    ----------
    ds
        Results on padded images.

    Returns
    -------
    pandas.DataFrame
        The factors; ``method`` (name of the network); ``status`` (text); ``accuracy`` on the test
        part after the last epoch (between 0 and 1) and ``metric``, log10 of ||lambda_1|| /
        ||lambda_T|| (3.6). Both are nan if the run did not complete.
    """
    trained = ds.sel(stage="trained", drop=True).variables
    status = trained["status"]
    completed = status == COMPLETED
    accuracy = trained["test_metric"].isel(record=trained["records"] - 1)
    metric = trained["adjoint_norm_first"] - trained["adjoint_norm_last"]
    measured = {
        "status": status,
        "accuracy": accuracy.where(completed),
        "metric": metric.where(completed),
    }
    rows = by_run(ds, measured, status != NOT_PLANNED)
    factors = about(ds).drop(columns="metric").rename(columns={"network": "method"})
    rows = rows.join(factors, on="run")
    return rows.assign(status=rows["status"].map(STATUS), padding=rows["padding"].astype(int))


def table_2_2_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of Table 2.2: no sweep, input weights as in the author's code.

    Parameters
    ----------
    rows
        All runs (`padded_runs`).

    Returns
    -------
    pandas.DataFrame
        Some of the rows.
    """
    as_author = (rows["input_scale"] == AUTHOR_SCALE) | (rows["method"] == "lstm")
    return rows[as_author & (rows["method"] != SWEEP)]


def summarize_runs(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Count runs and summarize their accuracy by group.

    Parameters
    ----------
    rows
        Runs (`padded_runs`).
    by
        Columns that form groups.

    Returns
    -------
    pandas.DataFrame
        One row per group, in order of appearance: the columns `by`, ``planned``, ``completed``,
        ``diverged``, ``missing``, and over the completed runs ``median`` and ``mad`` of the
        accuracy in percent. The median absolute deviation has no factor for normal data.
    """
    statuses = list(STATUS.values())
    counted = rows.copy()
    for status in statuses:
        counted[status] = rows["status"] == status
    groups = counted.groupby(list(by), sort=False)
    table = groups.size().rename("planned").to_frame().join(groups[statuses].sum())
    table["median"] = 100 * groups["accuracy"].median()
    table["mad"] = 100 * groups["accuracy"].agg(_median_absolute_deviation)
    return table.reset_index()


def _median_absolute_deviation(values: pd.Series) -> float:
    return (values - values.median()).abs().median()
