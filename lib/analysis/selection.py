"""Which replicates Figure 3.5 shows, and which attempts of each architecture Figure 3.4, by rules that can be stated in one sentence."""

import numpy as np
import pandas as pd

from lib.analysis.attempts import TREATMENT
from lib.analysis.regimes import VANISHED, regimes

FIGURE_35 = {"rnn": ("imdb", "sequential", "none"), "exponential": ("mnist", "permuted", "uniform")}
"""Architecture and task (data set, order, noise) of the treatments that Figure 3.5 shows."""


def nearest_zero(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for each architecture, the row whose adjoint metric is nearest to zero; rows of undefined metric do not compete."""
    return first_of_each(frame.assign(distance=frame["metric"].abs()), ["distance"])


def first_of_each(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return for each architecture the row that comes first in the order of the columns `by`, which are dropped; rows without the first do not compete."""
    ranked = frame[frame[by[0]].notna()].sort_values(by, kind="stable")
    chosen = ranked.drop_duplicates("architecture").drop(columns=by)
    order = {name: place for place, name in enumerate(frame["architecture"].drop_duplicates())}
    return chosen.sort_values("architecture", key=lambda names: names.map(order), ignore_index=True)


def choose_treatment(
    frame: pd.DataFrame, architecture: str, task: tuple[str, str, str], border: float
) -> tuple[pd.DataFrame, str]:
    """Return the replicates of one treatment that spread most in the adjoint metric, and the reason for the choice.

    Candidates are treatments with at least two completed replicates of finite metric whose accuracies are not
    all equal: equal ones have no order to compare. Those with replicates both inside and outside the vanishing regime of `border` go first, as in the text; among them the
    largest spread (maximum less minimum) of the metric wins. The candidates are sought in the text's
    `architecture` and `task` (data set, order, noise), then in its architecture, order and noise, then in its architecture, then everywhere.

    `frame` has terminal iterates; the result has all completed replicates of the treatment, those of infinite metric included, and is empty where none qualifies.
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
    own = table["architecture"] == architecture
    varied = own & (table["order"] == order) & (table["noise"] == noise)
    scopes = {
        "the architecture and task of the text": varied & (table["dataset"] == dataset),
        f"{dataset} offers none: the same architecture, order and noise elsewhere": varied,
        "its task offers none: the same architecture on any task": own,
        "its architecture offers none: any treatment": np.full(len(table), True),
    }
    for scope, inside in scopes.items():
        found = table[inside].sort_values(["mixed", "spread"], ascending=False, kind="stable")
        if len(found):
            best = found.iloc[0]
            rows = frame[(frame[list(TREATMENT)] == best[list(TREATMENT)].tolist()).all(axis=1)]
            regime = (
                "replicates in both regimes" if best["mixed"] else "all replicates in one regime"
            )
            return rows.reset_index(drop=True), f"{scope}; largest spread of the metric; {regime}"
    return frame.iloc[:0], "no treatment has two replicates of finite metric and different accuracy"
