"""How often training ends in a numerical error (dissertation, Table 1.7)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from lib.analysis.attempts import TASK

CONFIDENCE = 0.95


def error_rates(attempts: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the share of attempts that diverged, among those that entered, for each group.

    Parameters
    ----------
    attempts
        One row per attempt with ``status``, as `lib.analysis.attempts.attempts` returns it.
    by
        Columns that form the groups; they keep their order of appearance.

    Returns
    -------
    pandas.DataFrame
        `by`, then ``entered``, ``diverged``, ``missing`` (counts), ``error_rate`` and the ends ``low`` and
        ``high`` of its 95% interval. A group in which no attempt entered has no rate.

    Notes
    -----
    The interval is Wilson's: it stays within 0 and 1 and has a width even where no attempt failed. It treats
    attempts as independent, which replicates of one treatment are not quite.
    """
    frame = attempts.assign(
        entered=attempts["status"] != "missing",
        diverged=attempts["status"] == "diverged",
        missing=attempts["status"] == "missing",
    )
    table = frame.groupby(list(by), sort=False)[["entered", "diverged", "missing"]].sum()
    entered = table["entered"].where(table["entered"] > 0)
    table["error_rate"] = table["diverged"] / entered
    low, high = proportion_confint(
        table["diverged"], table["entered"].clip(lower=1), alpha=1 - CONFIDENCE, method="wilson"
    )
    # Rounding may leave an end of 1e-18 where the formula has 0: then no rate of 0 would lie inside.
    table["low"] = low.mask(table["diverged"] == 0, 0.0).where(entered.notna())
    table["high"] = high.mask(table["diverged"] == entered, 1.0).where(entered.notna())
    return table.reset_index()


def compare_error_rates(attempts: pd.DataFrame) -> pd.DataFrame:
    """Test for each architecture whether its error rate is the same at all tasks.

    The text makes no test of this behaviour. This is Pearson's of a table of tasks by outcome; because most counts of
    diverged attempts are small, its p value is the share of 9,999 tables drawn with the same sums that deviate as much.

    Parameters
    ----------
    attempts
        One row per attempt of the design with ``status``, as `lib.analysis.attempts.attempts` returns it.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``tasks`` and ``attempts`` (that entered), ``diverged``, ``statistic``, ``df``, ``p_value``,
        ``p_bonferroni`` (family: the architectures tested), ``rejected`` (corrected) and ``cause``: why there is no test.
        Where no attempt diverged, or every one, rates are equal without a test.
    """
    rates = error_rates(attempts, by=["architecture", *TASK])
    rows = []
    for architecture, part in rates[rates["entered"] > 0].groupby("architecture", sort=False):
        table = np.stack([part["diverged"], part["entered"] - part["diverged"]])
        cause = _no_test(table)
        statistic, p_value = (np.nan, np.nan) if cause else _pearson(table)
        rows.append(
            {
                "architecture": architecture,
                "tasks": len(part),
                "attempts": int(table.sum()),
                "diverged": int(table[0].sum()),
                "statistic": statistic,
                "df": np.nan if cause else len(part) - 1,
                "p_value": p_value,
                "cause": cause,
            }
        )
    table = pd.DataFrame(rows)
    corrected = (table["p_value"] * table["p_value"].count()).clip(upper=1)
    rejected = (corrected < 1 - CONFIDENCE).where(corrected.notna())
    table = table.assign(p_bonferroni=corrected, rejected=rejected)
    return table[[name for name in table if name != "cause"] + ["cause"]]


def _no_test(table: np.ndarray) -> str:
    if table.shape[1] < 2:
        return "attempts entered at one task; a comparison needs two"
    if not table[0].any():
        return "no attempt diverged"
    return "" if table[1].any() else "every attempt diverged"


def _pearson(table: np.ndarray) -> tuple[float, float]:
    draws = stats.MonteCarloMethod(n_resamples=9999, rng=np.random.default_rng(0))
    found = stats.chi2_contingency(table, correction=False, method=draws)
    return float(found.statistic), float(found.pvalue)
