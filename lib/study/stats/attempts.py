"""The results of the factorial experiment as tables of attempts and of measured epochs.

The factors of the design are columns, named as the dimensions of the dataset. Attempts that
diverged or never ran stay in the tables of attempts, so that they are counted.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from statsmodels.stats.proportion import proportion_confint

from study.results.factorial import ATTEMPT, EPOCH, SPLITS
from study.results.netcdf import ResultsError
from study.results.schema import COMPLETED, DIVERGED, MISSING
from study.stats.regimes import adjoint_metric, float32_metric

STATUS = {COMPLETED: "completed", DIVERGED: "diverged", MISSING: "missing"}
"""Names of the ways in which an attempt can end."""


def attempts(ds: xr.Dataset) -> pd.DataFrame:
    """Return one row per attempt of the design, whether it ran or not.

    Parameters
    ----------
    ds
        Results of the factorial experiment.

    Returns
    -------
    pandas.DataFrame
        The factors, ``status`` and ``epochs_completed``.

    Raises
    ------
    ResultsError
        The results are those of another experiment.
    """
    if "epochs_completed" not in ds:
        kind = ds.attrs.get("schema", "unknown")
        raise ResultsError(
            "this needs results of the factorial experiment, such as factorial.nc; these are of "
            f"the kind {kind}"
        )
    variables = ds[["status", "epochs_completed"]].reset_coords(drop=True)
    frame = variables.to_dataframe(dim_order=list(ATTEMPT)).reset_index()
    return frame.assign(status=frame["status"].map(STATUS))


def epochs(ds: xr.Dataset, split: str) -> pd.DataFrame:
    """Return one row per attempt and measured epoch, the epochs before a divergence included.

    Parameters
    ----------
    ds
        Results of the factorial experiment.
    split
        Part of the data that was measured on, ``train`` or ``test``.

    Returns
    -------
    pandas.DataFrame
        The factors, ``status``, ``attempt`` (row number in `attempts`), ``epoch``, ``loss`` (nat),
        ``accuracy`` (between 0 and 1), ``metric``, the adjoint metric (3.6) in orders of magnitude,
        and ``metric_float32``, the same as single precision would have stored it
        (`study.stats.regimes.float32_metric`).

    Raises
    ------
    ValueError
        `split` is unknown.
    ResultsError
        The results are those of another experiment.
    """
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}; expected one of {', '.join(SPLITS)}")
    all_attempts = attempts(ds)
    part = ds.sel(split=split).transpose(*(dim for dim in EPOCH if dim != "split"))
    epoch = part["epoch"].values
    reached = epoch <= all_attempts["epochs_completed"].to_numpy()[:, None]
    attempt_number, epoch_index = np.nonzero(reached)

    def measured(name: str) -> np.ndarray:
        return part[name].values.reshape(reached.shape)[reached]

    frame = all_attempts.iloc[attempt_number]
    frame = frame.drop(columns="epochs_completed").reset_index(drop=True)
    first = measured("adjoint_first")
    last = measured("adjoint_last")
    examples = frame["dataset"].map(part["examples"].to_series()).to_numpy(float)
    return frame.assign(
        attempt=attempt_number,
        epoch=epoch[epoch_index],
        loss=measured("loss"),
        accuracy=measured("accuracy"),
        metric=adjoint_metric(first, last),
        metric_float32=float32_metric(first, last, examples),
    )


def terminal(ds: xr.Dataset) -> pd.DataFrame:
    """Return the last epoch of every completed attempt on the test split.

    The paper calls this *evaluation*.

    Parameters
    ----------
    ds
        Results of the factorial experiment.

    Returns
    -------
    pandas.DataFrame
        One row per completed attempt, columns as in `epochs`.
    """
    frame = epochs(ds, "test")
    last = (frame["status"] == "completed") & (frame["epoch"] == frame["training_length"])
    return frame[last].reset_index(drop=True)


def count_status(frame: pd.DataFrame) -> dict[str, int]:
    """Count attempts by how they ended.

    Parameters
    ----------
    frame
        Attempts with their ``status``.

    Returns
    -------
    dict
        ``planned``, ``entered`` (not missing), ``completed``, ``diverged`` and ``missing``.
    """
    counts = {}
    for status in STATUS.values():
        counts[status] = int((frame["status"] == status).sum())
    return {"planned": len(frame), "entered": len(frame) - counts["missing"], **counts}


def error_rates(attempts: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the share of attempts that diverged (dissertation, Table 1.7).

    The interval is Wilson's (statsmodels' `proportion_confint`). It stays within 0 and 1 and has a
    positive width even if no attempt failed. It treats attempts as independent, which replicates of
    one treatment are not quite.

    Parameters
    ----------
    attempts
        One row per attempt with its ``status`` (`study.stats.attempts.attempts`).
    by
        Columns that form the groups, which keep their order of appearance.

    Returns
    -------
    pandas.DataFrame
        One row per group: the columns `by`, ``entered``, ``diverged`` and ``missing`` (counts),
        ``error_rate`` (diverged over entered) and the ends ``low`` and ``high`` of its 95%
        interval. A group in which no attempt entered has no rate.
    """
    diverged = attempts["status"] == "diverged"
    missing = attempts["status"] == "missing"
    counted = attempts.assign(entered=~missing, diverged=diverged, missing=missing)
    groups = counted.groupby(list(by), sort=False)
    table = groups[["entered", "diverged", "missing"]].sum()
    entered = table["entered"].where(table["entered"] > 0)
    table["error_rate"] = table["diverged"] / entered
    low, high = proportion_confint(
        table["diverged"], table["entered"].clip(lower=1), alpha=0.05, method="wilson"
    )
    # Rounding may leave an end of 1e-18 where the formula gives 0, and a rate of 0 would then lie
    # outside of its interval.
    table["low"] = low.mask(table["diverged"] == 0, 0.0).where(entered.notna())
    table["high"] = high.mask(table["diverged"] == entered, 1.0).where(entered.notna())
    return table.reset_index()
