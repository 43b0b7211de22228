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


def standings(table: pd.DataFrame, *, higher: bool = True) -> list[str]:
    """Return a sentence for every task of a table made by `beside`: the best network of each
    reading, and who is at the guess.
    """
    lines = []
    for task, rows in table.dropna(subset=["ours"]).groupby("task", sort=False):
        order = rows.sort_values("ours", ascending=not higher)
        named = order.assign(reading=order["reading"].replace("", "others"))
        best = named.drop_duplicates("reading").set_index("reading")
        best = best.loc[[reading for reading in READINGS if reading in best.index]]
        parts = [f"{row.network} {row.ours:.1f}" for row in best.itertuples()]
        guess = rows["guess"].iloc[0]
        poor = rows["ours"] <= guess if higher else rows["ours"] >= guess
        best = order["network"].iloc[0]
        line = f"{task}: {best} is best; best of each kind: {', '.join(parts)}; guess {guess:.1f}"
        away = ", ".join(sorted(rows.loc[poor, "network"]))
        lines.append(line + (f"; no better than it: {away}" if away else ""))
    return lines
