"""Which attempts a figure shows, by rules that can be stated in one sentence.

The text picks examples by hand from its own results. Other results may lack the data set, so each choice has a
fallback, and every function returns the reason beside the choice.
"""

import numpy as np
import pandas as pd

from lib.analysis.attempts import TASK, TREATMENT
from lib.analysis.regimes import VANISHED, regimes

FIGURE_35 = {
    "rnn": ("imdb", "sequential", "none"),
    "exponential": ("mnist", "permuted", "uniform"),
}
"""Architecture and task (data set, order, noise) of the treatments that Figure 3.5 shows."""


def choose_task(frame: pd.DataFrame, wanted: tuple[str, str, str]) -> tuple[dict[str, str], str]:
    """Return the task to show: the text's own where it is in the results, else the nearest one.

    Parameters
    ----------
    frame
        Terminal iterates of completed attempts.
    wanted
        Data set, order and noise that the text shows.

    Returns
    -------
    tuple
        The task as a dictionary of its factors, and the reason for the choice.

    Raises
    ------
    ValueError
        No attempt was completed.
    """
    if frame.empty:
        raise ValueError(
            "no attempt was completed, so there is no task to show; train more attempts"
        )
    counts = frame.groupby(list(TASK)).size().rename("count").reset_index()
    counts = counts.sort_values(["count", *TASK], ascending=[False, True, True, True])
    exact = counts[(counts[list(TASK)] == list(wanted)).all(axis=1)]
    if len(exact):
        return _task(exact), "the task of the text"
    same = counts[(counts[["order", "noise"]] == list(wanted[1:])).all(axis=1)]
    if len(same):
        return _task(same), (
            f"{wanted[0]} is not among the completed attempts: "
            "the same order and noise on the data set with the most of them"
        )
    return _task(counts), (
        f"{' '.join(wanted)} is not among the completed attempts: the task with the most of them"
    )


def nearest_zero(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for each architecture, the row whose adjoint metric is nearest to zero.

    Rows of undefined metric do not compete; one of infinite metric wins only where no other is left.
    """
    return _best(frame, frame["metric"].abs())


def most_accurate(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for each architecture, the row of the highest accuracy; among equals the one nearest to zero."""
    return _best(frame, -frame["accuracy"], frame["metric"].abs())


def choose_treatment(
    frame: pd.DataFrame, architecture: str, task: tuple[str, str, str], border: float
) -> tuple[pd.DataFrame, str]:
    """Return the replicates of one treatment that spread most in the adjoint metric.

    Candidates are treatments with at least two completed replicates of finite metric whose accuracies are not
    all equal: equal ones have no order to compare. Those with replicates both inside and outside the vanishing regime go first, as in the text; among them the
    largest spread (maximum less minimum) of the metric wins. The candidates are sought in the text's
    architecture and task, then in its architecture, order and noise, then in its architecture, then everywhere.

    Parameters
    ----------
    frame
        Terminal iterates of completed attempts.
    architecture, task
        What the text shows: architecture; data set, order and noise.
    border
        Border of the vanishing regime (3.7).

    Returns
    -------
    tuple
        All completed replicates of the chosen treatment, those of infinite metric included, and the
        reason for the choice. The table is empty where no treatment qualifies.
    """
    groups = frame.assign(
        finite=frame["metric"].where(np.isfinite(frame["metric"])),
        vanished=regimes(frame["metric"], border) == VANISHED,
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
    dataset, order, noise = task
    of_architecture = table["architecture"] == architecture
    same_variation = of_architecture & (table["order"] == order) & (table["noise"] == noise)
    scopes = (
        ("the architecture and task of the text", same_variation & (table["dataset"] == dataset)),
        (
            f"{dataset} offers none: the same architecture, order and noise elsewhere",
            same_variation,
        ),
        ("its task offers none: the same architecture on any task", of_architecture),
        ("its architecture offers none: any treatment", np.full(len(table), True)),
    )
    for scope, inside in scopes:
        candidates = table[inside].sort_values(
            ["mixed", "spread"], ascending=[False, False], kind="stable"
        )
        if len(candidates):
            best = candidates.iloc[0]
            rows = frame[(frame[list(TREATMENT)] == best[list(TREATMENT)].tolist()).all(axis=1)]
            regime = (
                "replicates in both regimes" if best["mixed"] else "all replicates in one regime"
            )
            return rows.reset_index(drop=True), f"{scope}; largest spread of the metric; {regime}"
    return frame.iloc[:0], "no treatment has two replicates of finite metric and different accuracy"


def _task(counts: pd.DataFrame) -> dict[str, str]:
    return {factor: str(counts.iloc[0][factor]) for factor in TASK}


def _best(frame: pd.DataFrame, score: pd.Series, ties: pd.Series | None = None) -> pd.DataFrame:
    """Return for each architecture the row of the smallest score; rows without a score do not compete."""
    ranked = frame.assign(score=score, ties=0.0 if ties is None else ties)
    ranked = ranked[ranked["score"].notna()].sort_values(["score", "ties"], kind="stable")
    chosen = ranked.drop_duplicates("architecture").drop(columns=["score", "ties"])
    order = {name: place for place, name in enumerate(frame["architecture"].drop_duplicates())}
    return chosen.sort_values("architecture", key=lambda names: names.map(order), ignore_index=True)
