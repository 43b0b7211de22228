"""The runs of a group as a table, with the test metric at the best validation metric."""

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd
import xarray as xr

from study.results.schema import COMPLETED, NOT_PLANNED

MEASURES = {
    "squared error": lambda loss: loss,
    "cross entropy": lambda loss: loss,
    "perplexity": np.exp,
    "bits": lambda loss: loss / math.log(2),
}
"""Functions of the loss that papers report instead of the metric; smaller is better."""


def in_measure(ds: xr.Dataset, measure: str, tasks: Iterable[str] | None = None) -> xr.Dataset:
    """Replace the metric by one of `MEASURES`.

    Parameters
    ----------
    ds
        Results of a group.
    measure
        Name of the measure.
    tasks
        The tasks whose metric is replaced; all by default.

    Returns
    -------
    xarray.Dataset
        The same results with other metrics.
    """
    if tasks is None:
        tasks = ds["task"].values
    chosen = ds["task"].isin(list(tasks))
    changed = {"metric": ("run", np.where(chosen, measure, ds["metric"]))}
    for part in ("test", "validation", "train", "guess"):
        if f"{part}_loss" in ds and f"{part}_metric" in ds:
            measured = MEASURES[measure](ds[f"{part}_loss"])
            changed[f"{part}_metric"] = ds[f"{part}_metric"].where(~chosen, measured)
    return ds.assign(changed)


def about(ds: xr.Dataset) -> pd.DataFrame:
    """Return what does not depend on the replicate: names, sizes, factors, levels at chance.

    Parameters
    ----------
    ds
        Results of a group.

    Returns
    -------
    pandas.DataFrame
        One row per ``run``; its columns are the variables whose only dimension is ``run``.
    """
    known = {}
    for name, variable in ds.variables.items():
        if variable.dims == ("run",):
            known[name] = variable.values
    return pd.DataFrame(known).set_index("run")


def run_table(ds: xr.Dataset) -> pd.DataFrame:
    """Return one row per planned run and replicate.

    Parameters
    ----------
    ds
        Results of a group.

    Returns
    -------
    pandas.DataFrame
        Columns ``run``, ``replicate``, those of `about`, and:

        - ``step``, ``test`` and ``validation``: optimizer steps and metrics at the record with the
          best validation metric, or at the last record if there is no validation part;
        - ``test_at_two_thirds``: as ``test``, for the first two thirds of the records;
        - ``last``: the test metric at the last record;
        - ``improving``: whether the validation metric (without a validation part, the test metric)
          was best at the last record;
        - ``completed``: whether the run completed.

        The values of a run that diverged before its first record are ``nan``.
    """
    records = ds.variables["records"]
    status = ds.variables["status"]
    validation = ds.variables["validation_metric"]
    validated = (first_records(ds, records) & np.isfinite(validation)).any("record")
    score = xr.where(validated, validation, ds.variables["test_metric"])
    score = score.where(ds.variables["metric"] == "accuracy", -score)

    def best_record(among: xr.Variable) -> xr.Variable:
        known = first_records(ds, among) & np.isfinite(score)
        return score.where(known, -np.inf).argmax("record")

    def value_at(name: str, record: xr.Variable) -> xr.Variable:
        return ds.variables[name].isel(record=record).where(records > 0)

    best = best_record(records)
    last = (records - 1).clip(0)
    chosen = best.where(validated, last)
    two_thirds = -(-2 * records // 3)  # rounded up
    earlier = best_record(two_thirds).where(validated, (two_thirds - 1).clip(0))
    columns = {
        "step": value_at("step", chosen),
        "test": value_at("test_metric", chosen),
        "validation": value_at("validation_metric", chosen),
        "last": value_at("test_metric", last),
        "test_at_two_thirds": value_at("test_metric", earlier),
        "improving": (best == last) & (last > 0),
        "completed": status == COMPLETED,
    }
    return by_run(ds, columns, status != NOT_PLANNED).join(about(ds), on="run")


def first_records(ds: xr.Dataset, count: xr.Variable) -> xr.Variable:
    """Return which records are among the first of a run.

    Parameters
    ----------
    ds
        Results of a group.
    count
        Number of records, by run and replicate.

    Returns
    -------
    xarray.Variable
        bool, by run, replicate and record.
    """
    return count > xr.Variable("record", np.arange(ds.sizes["record"]))


def by_run(ds: xr.Dataset, columns: dict[str, xr.Variable], chosen: xr.Variable) -> pd.DataFrame:
    """Return a table with one row per chosen run and replicate.

    Parameters
    ----------
    ds
        Results of a group.
    columns
        Variables with the dimensions run and replicate, by name.
    chosen
        Whether each run and replicate gets a row.

    Returns
    -------
    pandas.DataFrame
        Columns ``run``, ``replicate`` and those of `columns`.
    """
    whole = xr.Dataset(columns | {"chosen": chosen}, ds[["run", "replicate"]].indexes)
    frame = whole.to_dataframe(dim_order=["run", "replicate"]).reset_index()
    return frame[frame.pop("chosen")].reset_index(drop=True)
