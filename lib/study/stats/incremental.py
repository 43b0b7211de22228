"""Tables of the incremental RNN: its readings, and the model sizes that its paper prints."""

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
import xarray as xr

from study.results.networks import READINGS, compare_with_published, curves, outcomes
from study.results.published import load_published
from study.results.runs import about

BYTES_PER_NUMBER = 4
"""Bytes of a float32 number."""


def with_readings(ds: xr.Dataset) -> xr.Dataset:
    """Add the reading of the paper's equations that each network follows.

    Parameters
    ----------
    ds
        Results of a group of networks.

    Returns
    -------
    xarray.Dataset
        `ds` with the coordinate ``reading`` along run, one of `READINGS`.
    """
    table = about(ds)
    empty = pd.Series("", table.index)
    start = table.get("inner_start", empty)
    sign = table.get("sign", empty)
    conditions = [table["architecture"] != "irnn", sign == -1, start == "previous"]
    reading = np.select(conditions, ["others", "minus", "adopted"], "printed")
    return ds.assign_coords(reading=("run", reading.astype(object)))


def gains(ds: xr.Dataset) -> pd.DataFrame:
    """Return the recorded norms of Jacobians and gradients in long form, log10.

    Parameters
    ----------
    ds
        Results with the coordinate ``reading`` (`with_readings`).

    Returns
    -------
    pandas.DataFrame
        The columns of `study.results.networks.curves` without ``value``, and ``reading``,
        ``inner_steps``, ``first`` (norm of dh_T/dh_1), ``last`` (of dh_T/dh_(T-1)), ``loss`` (of
        dL/dh_1) and ``ratio`` (first less last). Networks without a record are left out.
    """
    frame = curves(ds, "gain_first", "reading", "inner_steps").rename(columns={"value": "first"})
    frame["last"] = curves(ds, "gain_last")["value"]
    frame["loss"] = curves(ds, "adjoint_first")["value"]
    frame = frame[frame["first"].notna()]
    with np.errstate(invalid="ignore"):
        return frame.assign(ratio=frame["first"] - frame["last"])


def sizes(artifact: str) -> pd.DataFrame:
    """Compare the published numbers of parameters with the published model sizes.

    Parameters
    ----------
    artifact
        Id of the published table.

    Returns
    -------
    pandas.DataFrame
        ``task``, ``network``, ``parameters`` and ``kilobytes`` as printed, ``numbers`` (float32
        numbers that fill so many KB) and ``ratio`` (numbers over parameters).
    """
    table = load_published(artifact).dropna(subset=["kilobytes"])
    numbers = _float32_numbers(table["kilobytes"])
    table = table.assign(numbers=numbers.round(), ratio=numbers / table["parameters"])
    return table[["task", "network", "parameters", "kilobytes", "numbers", "ratio"]]


def _float32_numbers(kilobytes: pd.Series) -> pd.Series:
    return kilobytes * 1024 / BYTES_PER_NUMBER


def numbers_per_inner_step(artifact: str) -> pd.Series:
    """Return the float32 numbers that each inner step adds to iRNN's published size.

    The number is T if each inner step has its own step size for every time step, and 1 if it has a
    single step size.

    Parameters
    ----------
    artifact
        Id of the published table.

    Returns
    -------
    pandas.Series
        Task: slope of a least-squares line.
    """
    table = load_published(artifact).dropna(subset=["inner_steps", "kilobytes"])
    table = table.assign(numbers=_float32_numbers(table["kilobytes"]).round())

    def slope(rows: pd.DataFrame) -> float:
        return float(np.polyfit(rows["inner_steps"], rows["numbers"], 1)[0])

    return table.groupby("task", sort=False)[["inner_steps", "numbers"]].apply(slope)


def compare_networks(
    ds: xr.Dataset,
    artifact: str,
    tasks: tuple[str, ...] = (),
    *,
    same_data: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return a published table next to our networks, with one row per reading.

    Parameters
    ----------
    ds
        Results with the coordinate ``reading`` (`with_readings`).
    artifact
        Id of the published table.
    tasks
        Our tasks to show in addition to the paper's; all of ours by default.
    same_data
        Tasks of ours that share the data of a published task, by name; they get its published
        numbers, too.

    Returns
    -------
    pandas.DataFrame
        The table of `study.results.networks.compare_with_published`, and ``reading`` (empty for
        networks that are not iRNNs).
    """
    ours = outcomes(ds)
    published = _repeat_published(load_published(artifact), ours["task"], same_data or {})
    if tasks:
        ours = ours[ours["task"].isin([*published["task"], *tasks])]
    readings = ours.drop_duplicates("label").set_index("label")["reading"]
    table = compare_with_published(ours, published)
    reading = table["network"].map(readings)
    return table.assign(reading=reading.replace("others", "").fillna(""))


def _repeat_published(
    published: pd.DataFrame, our_tasks: pd.Series, same_data: Mapping[str, str]
) -> pd.DataFrame:
    """Repeat the rows of published tasks under the names of our tasks with the same data."""
    parts = []
    for task, rows in published.groupby("task", sort=False):
        parts.append(rows)
        for ours, theirs in same_data.items():
            if theirs == task and ours in set(our_tasks):
                parts.append(rows.assign(task=ours))
    return pd.concat(parts, ignore_index=True)


def best_by_reading(
    table: pd.DataFrame, at_chance: Mapping[str, Collection[str]], *, higher: bool = True
) -> pd.DataFrame:
    """Return the best network of each reading on each task.

    Parameters
    ----------
    table
        Our networks and the paper's (`compare_networks`); rows without our result are left out.
    at_chance
        The networks that do no better than chance, by task. Means don't tell: one of five runs
        lifts a mean above the chance level.
    higher
        Whether a higher score is better.

    Returns
    -------
    pandas.DataFrame
        ``task``, ``reading`` (``others`` for other networks than iRNN), ``network`` and ``ours`` of
        the best, ``networks`` (number compared), ``at_chance`` (number of them at chance) and
        ``guess`` (chance level).
    """
    rows = table.dropna(subset=["ours"]).sort_values("ours", ascending=not higher, kind="stable")
    pairs = zip(rows["task"], rows["network"], strict=True)
    guessing = [network in at_chance[task] for task, network in pairs]
    readings = rows["reading"].replace("", "others")
    rows = rows.assign(reading=readings, at_chance=guessing)
    best = rows.groupby(["task", "reading"]).agg(
        network=("network", "first"),
        ours=("ours", "first"),
        networks=("network", "size"),
        at_chance=("at_chance", "sum"),
        guess=("guess", "first"),
    )
    tasks = list(dict.fromkeys(table["task"]))
    order = [(task, reading) for task in tasks for reading in READINGS]
    return best.reindex([pair for pair in order if pair in best.index]).reset_index()
