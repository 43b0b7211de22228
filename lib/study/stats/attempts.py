"""The results of the factorial experiment as tables of attempts and of measured epochs.

A table has the factors of the design as columns, named as the dimensions of the dataset. Attempts
that diverged or never ran stay in the tables of attempts, so that no count loses them.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from statsmodels.stats.proportion import proportion_confint

from study.results.factorial import ATTEMPT, MEASURED, SPLITS
from study.results.quartiles import TASK as TASK
from study.results.schema import COMPLETED, DIVERGED, MISSING, ResultsError
from study.stats.regimes import adjoint_metric, float32_metric

TREATMENT = tuple(factor for factor in ATTEMPT if factor != "replicate")
"""The factors that replicates share."""
STATUS = {COMPLETED: "completed", DIVERGED: "diverged", MISSING: "missing"}


def attempts(ds: xr.Dataset) -> pd.DataFrame:
    """Return one row per attempt of the design, whether it ran or not: the factors, ``status``
    and ``epochs_completed``.

    Raises ResultsError: the results are those of another experiment.
    """
    if "epochs_completed" not in ds:
        kind = ds.attrs.get("schema", "unknown")
        raise ResultsError(
            "this needs results of the factorial experiment, such as factorial.nc; these are of "
            f"the kind {kind}"
        )
    counted = ds[["status", "epochs_completed"]].reset_coords(drop=True)
    frame = counted.to_dataframe(dim_order=list(ATTEMPT)).reset_index()
    return frame.assign(status=frame["status"].map(STATUS))


def epochs(ds: xr.Dataset, split: str) -> pd.DataFrame:
    """Return one row per attempt and epoch that was measured on `split`, the epochs before a
    divergence included.

    Columns: the factors, ``status``, ``attempt`` (its row in `attempts`), ``epoch``, ``loss``
    (nat), ``accuracy`` (share), ``metric``, the adjoint metric (3.6), and ``metric_float32``, the
    same as single precision would have stored it (`study.stats.regimes.float32_metric`). Raises
    ValueError: `split` is neither ``train`` nor ``test``.
    """
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}; expected one of {', '.join(SPLITS)}")
    all_attempts = attempts(ds)
    part = ds.sel(split=split).transpose(*(dim for dim in MEASURED if dim != "split"))
    numbers = part["epoch"].values
    reached = numbers <= all_attempts["epochs_completed"].to_numpy()[:, None]
    rows, columns = np.nonzero(reached)

    def measured(name: str) -> np.ndarray:
        return part[name].values.reshape(reached.shape)[reached]

    frame = all_attempts.iloc[rows].drop(columns="epochs_completed").reset_index(drop=True)
    norms = measured("adjoint_first"), measured("adjoint_last")
    examples = frame["dataset"].map(part["examples"].to_series()).to_numpy(float)
    found = {name: measured(name) for name in ("loss", "accuracy")}
    found |= {"metric": adjoint_metric(*norms), "metric_float32": float32_metric(*norms, examples)}
    return frame.assign(attempt=rows, epoch=numbers[columns], **found)


def terminal(ds: xr.Dataset) -> pd.DataFrame:
    """Return the last epoch of every completed attempt on the test split, which the paper calls
    *evaluation*; columns as in `epochs`.
    """
    frame = epochs(ds, "test")
    last = (frame["status"] == "completed") & (frame["epoch"] == frame["training_length"])
    return frame[last].reset_index(drop=True)


def count_status(frame: pd.DataFrame) -> dict[str, int]:
    """Return how many attempts of `frame` were planned, entered, completed, diverged and are
    missing.
    """
    counts = {status: int((frame["status"] == status).sum()) for status in STATUS.values()}
    return {"planned": len(frame), "entered": len(frame) - counts["missing"], **counts}


def error_rates(attempts: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the share of attempts that diverged, among those that entered, for each group
    (dissertation, Table 1.7).

    `attempts` has one row per attempt with ``status`` (`study.stats.attempts.attempts`); the
    columns `by` form the groups and keep their order of appearance. Columns: `by`, then
    ``entered``, ``diverged``, ``missing`` (counts), ``error_rate`` and the ends ``low`` and
    ``high`` of its 95% interval. A group in which no attempt entered has no rate.

    The interval is Wilson's: it stays within 0 and 1 and has a width even where no attempt failed.
    It treats attempts as independent, which replicates of one treatment are not quite.
    """
    ends = {name: attempts["status"] == name for name in ("diverged", "missing")}
    frame = attempts.assign(entered=~ends["missing"], **ends)
    table = frame.groupby(list(by), sort=False)[["entered", *ends]].sum()
    entered = table["entered"].where(table["entered"] > 0)
    table["error_rate"] = table["diverged"] / entered
    low, high = proportion_confint(
        table["diverged"], table["entered"].clip(lower=1), alpha=0.05, method="wilson"
    )
    # Rounding may leave an end of 1e-18 where the formula has 0: then no rate of 0 would lie
    # inside.
    table["low"] = low.mask(table["diverged"] == 0, 0.0).where(entered.notna())
    table["high"] = high.mask(table["diverged"] == entered, 1.0).where(entered.notna())
    return table.reset_index()
