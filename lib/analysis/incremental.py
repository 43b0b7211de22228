"""The incremental RNN's tables and figures: its readings side by side, and the sizes that its text prints."""

import json
import re
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.analysis.networks import beside_published, curves, in_measure, outcomes, trainings
from lib.plotting import colour
from lib.results.claims import mean
from lib.results.published import load_published

READINGS = {
    "others": "other networks",
    "adopted": "adopted: from the last state",
    "minus": "minus: the remark's sign",
    "printed": "printed: from zero",
}
"""How iRNN's equations are read, by what a label ends with; a label without an ending is the adopted reading."""
FLOAT = 4
"""Bytes of a number."""
_INNER = {1: ":", 2: "-.", 3: "-.", 5: "--", 10: "-"}
_SECOND = ("0.001",)
"""What the label of the second of two networks of one architecture ends with."""


def reading(label: str) -> str:
    """Return which of `READINGS` a network belongs to.

    >>> reading("iRNN K=5"), reading("iRNN K=5, printed"), reading("LSTM")
    ('adopted', 'printed', 'others')
    """
    if not label.startswith("iRNN"):
        return "others"
    return label.rpartition(", ")[2] if label.endswith(("minus", "printed")) else "adopted"


def inner_steps(label: str) -> int:
    """Return the K that a label names, 0 where it names none."""
    found = re.search(r"K=(\d+)", label)
    return int(found[1]) if found else 0


def plot_readings(
    frame: pd.DataFrame, draw: Callable[[Axes], object] = lambda ax: None, **axes: object
) -> Figure:
    """Draw curves, as `lib.analysis.networks.curves` returns them, in a panel for each reading that there is.

    A line is the mean over trainings; `draw` adds to each panel, and `axes` are its settings.
    """
    frame = frame.assign(reading=frame["label"].map(reading))
    there = [name for name in READINGS if (frame["reading"] == name).any()]
    rows = (len(there) + 1) // 2
    fig, panels = plt.subplots(
        rows, 2, sharex=True, sharey=True, squeeze=False, figsize=(9, 2.9 * rows)
    )
    for ax, name in zip(panels.flat, there, strict=False):
        for label, rows_of in frame[frame["reading"] == name].groupby("label", sort=False):
            line = rows_of.groupby("step")["value"].mean()
            dash = _INNER.get(inner_steps(label), "--" if label.endswith(_SECOND) else "-")
            short = label.removesuffix(f", {name}")
            ax.plot(
                line.index, line, dash, color=colour(rows_of["architecture"].iloc[0]), label=short
            )
        draw(ax)
        ax.set(title=READINGS[name], **axes)
        ax.legend(fontsize=8)
    for ax in panels.flat[len(there) :]:
        ax.set_visible(False)
    for ax in panels.flat[max(len(there) - 2, 0) : len(there)]:  # the lowest of each column
        ax.set_xlabel("training step")
        ax.tick_params(labelbottom=True)
    return fig


def gains(ds: xr.Dataset) -> pd.DataFrame:
    """Return the recorded norms in long form, log10: `curves` with ``ratio``, ``first``, ``last`` and ``loss`` for ``value``.

    ``first`` is that of dh_T/dh_1, ``last`` of dh_T/dh_(T-1), ``ratio`` the first less the last, ``loss`` that of dL/dh_1. Networks of which
    nothing was recorded are left out.
    """
    frame = curves(ds, "gain_first").rename(columns={"value": "first"})
    for name, variable in (("last", "gain_last"), ("loss", "adjoint_first")):
        frame[name] = curves(ds, variable)["value"]
    frame = frame[frame["first"].notna()]
    with np.errstate(invalid="ignore"):
        return frame.assign(ratio=frame["first"] - frame["last"])


def sizes(artefact: str) -> pd.DataFrame:
    """Return the printed numbers of parameters beside what the printed model sizes amount to.

    Returns
    -------
    pandas.DataFrame
        ``task``, ``network``, ``parameters`` and ``kilobytes`` as printed, ``numbers``, the float32 numbers that so many KB hold, and ``ratio``, these over the
        parameters.
    """
    table = load_published(artefact).dropna(subset=["kilobytes"])
    numbers = table["kilobytes"] * 1024 / FLOAT
    table = table.assign(numbers=numbers.round(), ratio=numbers / table["parameters"])
    return table[["task", "network", "parameters", "kilobytes", "numbers", "ratio"]]


def numbers_an_inner_step(artefact: str) -> pd.Series:
    """Return by how many float32 numbers iRNN's printed size grows with each inner step, by task.

    One step size for each inner step and round would make it T, one for each inner step 1.
    """
    table = sizes(artefact)
    table = table[table["network"].str.startswith("iRNN")]
    table = table.assign(K=table["network"].map(inner_steps))

    def slope(rows: pd.DataFrame) -> float:
        return float(np.polyfit(rows["K"], rows["numbers"], 1)[0])

    return table.groupby("task", sort=False)[["K", "numbers"]].apply(slope)


def beside(
    ds: xr.Dataset, artefact: str, tasks: tuple[str, ...] = (), labels: str = ""
) -> pd.DataFrame:
    """Return a published table with our networks, each reading a row of its own; see `lib.analysis.networks.beside_published`.

    Parameters
    ----------
    ds
        A group's results, at the best learning rates.
    artefact
        Whose published table.
    tasks
        Ours that are shown although the text has none of the name; all by default.
    labels
        A pattern of the networks that are shown; all by default.
    """
    ours = outcomes(ds)
    published = load_published(artefact)
    shown = ours["label"].map(lambda name: bool(re.search(labels, name))) & (
        ours["task_label"].isin([*published["task"], *tasks]) | (not tasks)
    )
    table = beside_published(ours[shown], published)
    names = table["network"].map(reading)
    return table.assign(reading=names.where(names != "others", ""))


def told(table: pd.DataFrame, *, higher: bool = True, digits: int = 1) -> list[str]:
    """Return a sentence for every task of a table made by `beside`: which network is best, and where iRNN's readings stand."""
    lines = []
    for task, rows in table.dropna(subset=["ours"]).groupby("task", sort=False):
        rows = rows.assign(reading=rows["network"].map(reading))
        order = rows.sort_values("ours", ascending=not higher)
        best = order.groupby("reading").first()
        parts = [
            f"{best.loc[name, 'network']} {best.loc[name, 'ours']:.{digits}f}"
            for name in READINGS
            if name in best.index
        ]
        guess, first = rows["guess"].iloc[0], order.iloc[0]
        away = sorted(
            rows.loc[(rows["ours"] <= guess) if higher else (rows["ours"] >= guess), "network"]
        )
        line = f"{task}: {first['network']} is best; best of each kind: {', '.join(parts)}; guess {guess:.{digits}f}"
        lines.append(line + (f"; no better than it: {', '.join(away)}" if away else ""))
    return lines


_PILOT = r"(?P<start>zero|previous) (?P<sign>[+-]) \((?P<form>[58])\) (?P<rank>full|low) K=(?P<K>\d+)(?:, (?P<other>.*))?"
FACTORS = {
    "start": ("zero", "previous"),
    "sign": ("+", "-"),
    "form": ("5", "8"),
    "rank": ("full", "low"),
    "K": ("1", "5"),
}
"""The two levels of each factor of the pilot, the printed or smaller one first."""


def pilot(ds: xr.Dataset) -> pd.DataFrame:
    """Return a row for each training of the pilot: its factors, ``other`` than these, ``task``, ``replicate``, ``score`` and ``diverged``.

    ``score`` is the last test error over that of guessing, both squared, where values are asked for; and the share of errors over that of
    guessing, where classes are. One that diverged scores as a guess at best.
    """
    rows = trainings(ds)
    factors = rows["label"].str.extract(_PILOT)
    values = rows["metric"] != "accuracy"
    error = np.where(
        values,
        (rows["last"] / rows["guess_metric"]) ** 2,
        (1 - rows["last"]) / (1 - rows["guess_metric"]),
    )
    known = np.nan_to_num(error, nan=1.0, posinf=1.0)
    return factors.assign(
        other=factors["other"].fillna(""),
        task=rows["task_label"],
        replicate=rows["replicate"],
        score=np.where(rows["completed"], known, np.maximum(known, 1.0)),
        diverged=~rows["completed"],
        label=rows["label"],
        run=rows["run"],
    )


def effects(table: pd.DataFrame) -> pd.DataFrame:
    """Return what each factor does to log10 of the score in the full factorial: mean of the pairs that differ in it alone.

    Returns
    -------
    pandas.DataFrame
        ``factor``, ``from``, ``to``, ``effect`` (negative where the second level errs less), ``low``, ``high`` (95 %, Student's, over pairs) and ``pairs``.
    """
    full = table[table["other"] == ""]
    full = full[full["task"] == full["task"].iloc[0]]
    full = full.assign(log=np.log10(full["score"].clip(lower=1e-6)))
    cells = full.groupby(list(FACTORS))["log"].mean()
    rows = []
    for factor, (one, two) in FACTORS.items():
        pairs = (cells.xs(two, level=factor) - cells.xs(one, level=factor)).dropna()
        found = mean(pairs)
        rows.append((factor, one, two, found.value, found.low, found.high, len(pairs)))
    return pd.DataFrame(rows, columns=["factor", "from", "to", "effect", "low", "high", "pairs"])


def with_perplexity(ds: xr.Dataset) -> xr.Dataset:
    """Return `ds` with the perplexity of language models as their metric in place of the share of words found."""
    models = [json.loads(text).get("task") == "language" for text in ds["task"].values]
    return in_measure(ds, "perplexity", ds["task_label"].values[models])
