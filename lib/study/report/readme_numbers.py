"""The numbers behind the results in README.md: stored in ``data/readme/``, and read from there.

They can be checked without running anything: the judged claims, the slopes of the one figure, the
results of our own experiment, and the cells. `study.report.readme` writes README.md.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from study.figures.style import use_style
from study.pipeline.files import write_text, write_whole
from study.report.contents import Artifact, ReportError
from study.report.inputs import load_artifacts, read_table
from study.report.intervention import EFFECTS
from study.report.slopes import (
    EXACT,
    PAPER,
    ROUNDED,
    SLOPE_LABELS,
    WITHIN_TASKS,
    slope_unit,
)
from study.report.verdicts import TEXT_COLUMNS, judge_claims
from study.stats.power import Z

SLOPES = "own-slope-model-5"
"""Artifact with the slopes of the figure."""
SLOPE_CLAIM = "diss-3.5-terminal-sign"
"""The claim whose estimate the figure shows as well."""
_COLUMNS = [
    *("id", "verdict", "cause", "counted", "corrected", "discovered"),
    *("estimate", "low", "high", "p", "at_half", "at_double", "null_is"),
    *("sequences", "time_steps", "epochs", "width", "replicates", "test_size", "data"),
    *("steps", "paper_steps", "decided_by", "decided_on", "caveat", "objection", "note"),
]
_ROWS = (PAPER, ROUNDED, EXACT)
"""Rows of the figure that the artifact's data has, by their name there."""
_WITHIN_TASKS = f"{SLOPE_LABELS[WITHIN_TASKS]} (finding 1)"
CELLS = "own-cells"
"""Notebook 50's table of cells and their engines."""
_OURS = ("o", "#0072B2")
_PAPER = ("D", "#D55E00")
"""Marker and color of a slope."""


def store_numbers(data: Path, stored: Path) -> None:
    """Keep the numbers behind README.md.

    Parameters
    ----------
    data : Path
        Folder of ``made/``, as the pipeline leaves it.
    stored : Path
        Folder that receives ``verdicts.csv``, ``slopes.csv``, ``intervention.csv``, ``cells.csv``
        and ``slopes.png``.

    Raises
    ------
    ReportError
        The stored reference of the slopes was not analyzed there, or notebook 50 was not run.
    """
    items = load_artifacts(data)
    judged = judge_claims(items)
    slopes = collect_slopes(items, judged)
    stored.mkdir(parents=True, exist_ok=True)
    tables = {
        "verdicts": judged.reindex(columns=_COLUMNS),
        "slopes": slopes,
        "intervention": _artifact_table(items, EFFECTS, "reference"),
        "cells": _artifact_table(items, CELLS, "rebuilt")[["cell", "engines"]],
    }
    for name, table in tables.items():
        write_text(stored / f"{name}.csv", table.to_csv(index=False, lineterminator="\n"))
    figure = draw_slopes(slopes)
    write_whole(
        stored / "slopes.png",
        lambda target: figure.savefig(
            target, dpi=200, format="png", metadata={"Software": None}, bbox_inches="tight"
        ),
    )
    plt.close(figure)


def collect_slopes(items: tuple[Artifact, ...], judged: pd.DataFrame) -> pd.DataFrame:
    """Return the slopes of the figure with their intervals.

    Parameters
    ----------
    items : tuple of Artifact
        Everything that the pipeline made.
    judged : pandas.DataFrame
        The claims with their verdicts.

    Returns
    -------
    pandas.DataFrame
        Columns ``gradients``, ``slope``, ``low`` and ``high``, in points of accuracy per order of
        magnitude.

    Raises
    ------
    ReportError
        The stored reference of the slopes was not analyzed.
    """
    table = _artifact_table(items, SLOPES, "reference").set_index("variances")
    rows = []
    for name in _ROWS:
        slope = 100 * table.loc[name, "estimate"]
        half = 100 * Z * table.loc[name, "error"]
        rows.append((SLOPE_LABELS[name], slope, slope - half, slope + half))
    claim = judged.set_index("id").loc[SLOPE_CLAIM]
    smaller = 100 * claim["estimate"], 100 * claim["low"], 100 * claim["high"]
    rows.insert(2, (_WITHIN_TASKS, *smaller))
    return pd.DataFrame(rows, columns=["gradients", "slope", "low", "high"])


def _artifact_table(items: tuple[Artifact, ...], artifact: str, result_set: str) -> pd.DataFrame:
    """Return the data of an artifact that was made of one set of results."""
    for item in items:
        if item.artifact == artifact and item.result_set == result_set:
            return read_table(item.path(".csv"))
    raise ReportError(f"no {artifact} of the results `{result_set}`; run `make repro` first")


def draw_slopes(slopes: pd.DataFrame) -> Figure:
    """Draw test accuracy per order of magnitude of gradient decay, ours and the paper's.

    Parameters
    ----------
    slopes : pandas.DataFrame
        As from `collect_slopes`.

    Returns
    -------
    matplotlib.figure.Figure
        A row per slope, with its 95% interval.
    """
    with plt.rc_context():
        use_style()
        figure, ax = plt.subplots(figsize=(7.0, 2.4))
        for position, row in enumerate(slopes.itertuples()):
            marker, color = _OURS
            if row.gradients == SLOPE_LABELS[PAPER]:
                marker, color = _PAPER
            width = [[row.slope - row.low], [row.high - row.slope]]
            ax.errorbar(row.slope, -position, xerr=width, fmt=marker, color=color)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_yticks([-position for position in range(len(slopes))], slopes["gradients"])
        ax.set(
            ylim=(0.6 - len(slopes), 0.5),
            xlabel=slope_unit("test accuracy"),
        )
    return figure


def read_stored(stored: Path) -> pd.DataFrame:
    """Read the stored verdicts.

    Parameters
    ----------
    stored : Path
        Folder that `store_numbers` wrote.

    Returns
    -------
    pandas.DataFrame
        The claims with their stored verdicts.
    """
    verdicts = read_table(stored / "verdicts.csv")
    empty = dict.fromkeys(TEXT_COLUMNS, "")
    verdicts = verdicts.astype(dict.fromkeys(empty, object)).fillna(empty)
    listed = judge_claims([])
    kept = listed[[name for name in listed if name == "id" or name not in _COLUMNS]]
    return kept.merge(verdicts, on="id", how="left", validate="one_to_one")
