"""How often training ends in a numerical error (dissertation, Table 1.7)."""

from collections.abc import Sequence

import pandas as pd
from statsmodels.stats.proportion import proportion_confint


def error_rates(attempts: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the share of attempts that diverged, among those that entered, for each group.

    `attempts` has one row per attempt with ``status`` (`lib.analysis.attempts.attempts`); the columns `by` form the groups and keep their order of appearance. Columns: `by`, then
    ``entered``, ``diverged``, ``missing`` (counts), ``error_rate`` and the ends ``low`` and ``high`` of its 95% interval. A group in which no attempt entered has no rate.

    The interval is Wilson's: it stays within 0 and 1 and has a width even where no attempt failed. It treats
    attempts as independent, which replicates of one treatment are not quite.
    """
    ends = {name: attempts["status"] == name for name in ("diverged", "missing")}
    frame = attempts.assign(entered=~ends["missing"], **ends)
    table = frame.groupby(list(by), sort=False)[["entered", *ends]].sum()
    entered = table["entered"].where(table["entered"] > 0)
    table["error_rate"] = table["diverged"] / entered
    low, high = proportion_confint(
        table["diverged"], table["entered"].clip(lower=1), alpha=0.05, method="wilson"
    )
    # Rounding may leave an end of 1e-18 where the formula has 0: then no rate of 0 would lie inside.
    table["low"] = low.mask(table["diverged"] == 0, 0.0).where(entered.notna())
    table["high"] = high.mask(table["diverged"] == entered, 1.0).where(entered.notna())
    return table.reset_index()
