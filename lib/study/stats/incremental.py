"""The incremental RNN's tables: its readings side by side, and the sizes that its text prints."""

import numpy as np
import pandas as pd
import xarray as xr

from study.results.networks import READINGS, about, beside_published, curves, outcomes
from study.results.published import load_published

FLOAT = 4
"""Bytes of a number."""


def with_readings(ds: xr.Dataset) -> xr.Dataset:
    """Return `ds` with the coordinate ``reading`` along run, one of `READINGS`."""
    known = about(ds)
    empty = pd.Series("", known.index)
    start, sign = known.get("inner_start", empty), known.get("sign", empty)
    kind = np.where(sign == -1, "minus", np.where(start == "previous", "adopted", "printed"))
    irnn = known["architecture"] == "irnn"
    return ds.assign_coords(reading=("run", np.where(irnn, kind, "others").astype(object)))


def gains(ds: xr.Dataset) -> pd.DataFrame:
    """Return the recorded norms in long form, log10: `curves` with ``ratio``, ``first``,
    ``last`` and ``loss`` for ``value``.

    ``first`` is that of dh_T/dh_1, ``last`` of dh_T/dh_(T-1), ``ratio`` the first less the last,
    ``loss`` that of dL/dh_1; beside them ``reading`` and ``inner_steps``. Networks of which nothing
    was recorded are left out.
    """
    frame = curves(ds, "gain_first", "reading", "inner_steps").rename(columns={"value": "first"})
    for name, variable in (("last", "gain_last"), ("loss", "adjoint_first")):
        frame[name] = curves(ds, variable)["value"]
    frame = frame[frame["first"].notna()]
    with np.errstate(invalid="ignore"):
        return frame.assign(ratio=frame["first"] - frame["last"])


def sizes(artefact: str) -> pd.DataFrame:
    """Return the printed numbers of parameters beside what the printed model sizes amount to.

    ``task``, ``network``, ``parameters`` and ``kilobytes`` as printed, ``numbers``, the float32
    numbers that so many KB hold, and ``ratio``, these over the parameters.
    """
    table = load_published(artefact).dropna(subset=["kilobytes"])
    numbers = table["kilobytes"] * 1024 / FLOAT
    table = table.assign(numbers=numbers.round(), ratio=numbers / table["parameters"])
    return table[["task", "network", "parameters", "kilobytes", "numbers", "ratio"]]


def numbers_an_inner_step(artefact: str) -> pd.Series:
    """Return by how many float32 numbers iRNN's printed size grows with each inner step, by task.

    One step size for each inner step and round would make it T, one for each inner step 1.
    """
    table = load_published(artefact).dropna(subset=["inner_steps", "kilobytes"])
    table = table.assign(numbers=(table["kilobytes"] * 1024 / FLOAT).round())

    def slope(rows: pd.DataFrame) -> float:
        return float(np.polyfit(rows["inner_steps"], rows["numbers"], 1)[0])

    return table.groupby("task", sort=False)[["inner_steps", "numbers"]].apply(slope)


def beside(ds: xr.Dataset, artefact: str, tasks: tuple[str, ...] = ()) -> pd.DataFrame:
    """Return a published table with our networks (`beside_published`) and their ``reading``,
    each reading a row of its own.

    Of ours all tasks are shown; where `tasks` names some, these and the paper's alone.
    """
    ours, published = outcomes(ds), load_published(artefact)
    ours = ours[ours["task"].isin([*published["task"], *tasks]) | (not tasks)]
    readings = ours.drop_duplicates("label").set_index("label")["reading"]
    table = beside_published(ours, published)
    return table.assign(reading=table["network"].map(readings).replace("others", "").fillna(""))


def best_by_reading(table: pd.DataFrame, *, higher: bool = True) -> pd.DataFrame:
    """Return the best network of each reading on each task.

    Parameters
    ----------
    table
        `beside`; rows without a result of ours are left out.
    higher
        Whether a higher score is better.

    Returns
    -------
    pandas.DataFrame
        Columns ``task``, ``reading`` (``others`` if the network is not an iRNN), ``network`` and
        ``ours`` of the best, ``networks``, how many were compared, ``at_chance``, how many of
        these do no better than guessing, and ``guess``.
    """
    rows = table.dropna(subset=["ours"]).sort_values("ours", ascending=not higher, kind="stable")
    poor = rows["ours"] <= rows["guess"] if higher else rows["ours"] >= rows["guess"]
    rows = rows.assign(reading=rows["reading"].replace("", "others"), poor=poor)
    best = rows.groupby(["task", "reading"]).agg(
        network=("network", "first"),
        ours=("ours", "first"),
        networks=("network", "size"),
        at_chance=("poor", "sum"),
        guess=("guess", "first"),
    )
    tasks = list(dict.fromkeys(table["task"]))
    order = [(task, reading) for task in tasks for reading in READINGS]
    return best.reindex([pair for pair in order if pair in best.index]).reset_index()
