"""The rules that choose the attempts of Figure 3.4 and the treatments of Figure 3.5."""

import numpy as np
import pandas as pd

from study.results.factorial import TREATMENT
from study.stats.regimes import VANISHED, regimes

FIGURE_35 = {"rnn": ("imdb", "sequential", "none"), "exponential": ("mnist", "permuted", "uniform")}
"""Architecture and task (data set, order, noise) of the treatments that Figure 3.5 shows."""


def nearest_zero(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for each architecture, the row whose adjoint metric is nearest to zero.

    Parameters
    ----------
    frame
        Attempts with ``architecture`` and ``metric``; rows without a metric do not compete.

    Returns
    -------
    pandas.DataFrame
        One row per architecture, in the order of their first appearance.
    """
    return first_of_each(frame.assign(distance=frame["metric"].abs()), ["distance"])


def first_of_each(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return, for each architecture, the row that comes first when sorted.

    Parameters
    ----------
    frame
        Attempts with ``architecture``.
    by
        Columns to sort by, which are dropped; rows without the first do not compete.

    Returns
    -------
    pandas.DataFrame
        One row per architecture, in the order of their first appearance.
    """
    ranked = frame[frame[by[0]].notna()].sort_values(by, kind="stable")
    chosen = ranked.drop_duplicates("architecture").drop(columns=by)
    names = frame["architecture"].drop_duplicates()
    order = {name: position for position, name in enumerate(names)}
    return chosen.sort_values("architecture", key=lambda key: key.map(order), ignore_index=True)


def choose_treatment(
    frame: pd.DataFrame, architecture: str, task: tuple[str, str, str], threshold: float
) -> tuple[pd.DataFrame, str]:
    """Choose the treatment whose replicates differ most in the adjoint metric.

    A candidate has at least two completed replicates with a finite metric, and their accuracies are
    not all equal. As in the paper, candidates with replicates both inside and outside the vanishing
    regime are preferred. Four scopes are searched until one has a candidate: the paper's
    architecture and task; its architecture, order and noise; its architecture; all treatments.

    Parameters
    ----------
    frame
        Terminal iterates.
    architecture
        The paper's architecture.
    task
        The paper's data set, order and noise.
    threshold
        Threshold of the vanishing regime, in orders of magnitude.

    Returns
    -------
    rows
        All completed replicates of the treatment, including those with an infinite metric; empty if
        there is no candidate.
    reason
        Why the treatment was chosen, in words.
    """
    table = _candidates(frame, threshold)
    if table.empty:
        return frame.iloc[:0], "no treatment has two of finite metric and different accuracy"
    dataset, order, noise = task
    same = table["architecture"] == architecture
    varied = same & (table["order"] == order) & (table["noise"] == noise)
    scopes = {
        "the architecture and task of the paper": varied & (table["dataset"] == dataset),
        f"{dataset} offers none: the same architecture, order and noise elsewhere": varied,
        "its task offers none: the same architecture on any task": same,
        "its architecture offers none: any treatment": np.full(len(table), True),
    }
    scope, inside = next((scope, inside) for scope, inside in scopes.items() if inside.any())
    best = table[inside].sort_values(["mixed", "spread"], ascending=False).iloc[0]
    rows = frame[(frame[list(TREATMENT)] == best[list(TREATMENT)].tolist()).all(axis=1)]
    regime = "all replicates in one regime"
    if best["mixed"]:
        regime = "replicates in both regimes"
    reason = f"{scope}; largest spread of the metric; {regime}"
    return rows.reset_index(drop=True), reason


def _candidates(frame: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Return the candidates of `choose_treatment`."""
    groups = frame.assign(
        finite=frame["metric"].where(np.isfinite(frame["metric"])),
        vanished=regimes(frame["metric"], threshold) == VANISHED,
    ).groupby(list(TREATMENT), sort=True)
    table = groups.agg(
        replicates=("finite", "count"),
        low=("finite", "min"),
        high=("finite", "max"),
        vanished=("vanished", "mean"),
        accuracies=("accuracy", "nunique"),
    ).reset_index()
    table = table[(table["replicates"] >= 2) & (table["accuracies"] >= 2)]
    table["spread"] = table["high"] - table["low"]
    table["mixed"] = table["vanished"].between(0, 1, inclusive="neither")
    return table
