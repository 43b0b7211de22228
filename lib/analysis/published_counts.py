"""Whether the published Tables 3.4 and A4 to A7 agree with each other: what one says, the other must say too."""

import pandas as pd

from lib.analysis.attempts import TASK
from lib.analysis.quartiles import TOP
from lib.analysis.regimes import VANISHED
from lib.analysis.tables import TASK_TYPE, best_first
from lib.results.published import beside, load_published


def sums_of_a5() -> pd.DataFrame:
    """Return the sums of Table A5 over data sets and architectures (``ours``) beside Table 3.4 (``published``)."""
    summed = load_published("diss-tab-A5").groupby(TASK_TYPE, sort=False)["count"].sum()
    theirs = load_published("diss-tab-3.4")
    return best_first(beside(summed.reset_index(), theirs, on=TASK_TYPE, value="count"))


def shared_cells(by_quartile: str, by_regime: str) -> dict[str, float]:
    """Compare the cells that a table by quartile shares with one by regime: vanished and in the top quartile.

    Parameters
    ----------
    by_quartile, by_regime
        Such as ``"A4"`` and ``"A6"``.

    Returns
    -------
    dict
        ``cells`` that both have and how many are ``equal``; ``thresholds`` printed with both, how many are ``apart`` and
        the ``largest`` difference.
    """
    one, two = (load_published(f"diss-tab-{name}") for name in (by_quartile, by_regime))
    cells = one[one["quartile"] == TOP].merge(
        two[two["regime"] == VANISHED], on=[*TASK, "architecture"]
    )
    limits = [load_published(f"diss-tab-{name}-thresholds") for name in (by_quartile, by_regime)]
    both = limits[0].merge(limits[1], on=[*TASK, "quartile"])
    apart = (both["accuracy_x"] - both["accuracy_y"]).abs()
    return {
        "cells": len(cells),
        "equal": int((cells["count_x"] == cells["count_y"]).sum()),
        "thresholds": len(both),
        "apart": int((apart > 0).sum()),
        "largest": apart.max(),
    }


def busiest_task(table: str) -> int:
    """Return the largest sum of counts that a published table has for one task."""
    return int(load_published(f"diss-tab-{table}").groupby(list(TASK))["count"].sum().max())
