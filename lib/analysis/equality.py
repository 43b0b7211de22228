r"""Whether a behaviour of an architecture is the same at all tasks: one test for each architecture, or the cause why there is none.

*Variance of task accuracy* (1.9, Table 1.6). Two tests are called Brown and Forsythe's, and the text's table has the hypothesis of one and the numbers of the other:

``levene``
    Levene's test of **equal variances** with deviations from the group's median, :math:`z_{ij} = |y_{ij} - \tilde y_i|`: an analysis of
    variance of z, with :math:`k-1` and :math:`N-k` degrees of freedom, whole numbers (Brown and Forsythe, JASA 1974, which the text cites).
``f_star``
    The :math:`F^*` test of **equal means** under unequal variances,

    .. math::

        F^* = \frac{\sum_i n_i (\bar y_i - \bar y)^2}{\sum_i (1 - n_i/N) s_i^2}, \qquad
        \frac1f = \sum_i \frac{c_i^2}{n_i - 1}, \quad
        c_i = \frac{(1 - n_i/N) s_i^2}{\sum_j (1 - n_j/N) s_j^2},

    with :math:`k-1` and f degrees of freedom, f after Satterthwaite and seldom whole (Brown and Forsythe, Technometrics 1974).
``f_star_of_deviations``
    :math:`F^*` of the z: equal variances again, with denominators after Satterthwaite.

*Convergence time* gets Kruskal and Wallis's test, of ranks, because epochs are whole numbers with many ties at the end of the window. *Training error rate*
gets Pearson's of a table of tasks by outcome, whose p value is the share of 9,999 tables drawn with the same sums that deviate as much, because most counts of
diverged attempts are small. The text tests neither.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.oneway import anova_generic

from lib.analysis.accuracy import LEVEL, entered
from lib.analysis.attempts import TASK, error_rates

NO_NOISE = "none"
r"""Noise orientation of the tasks of :math:`\mathcal T_o`."""
NEVER, ALWAYS = "no attempt diverged", "every attempt diverged"
"""Causes for which error rates are equal without a test."""
Numbers = tuple[float, float, float, float]
"""The statistic, degrees of freedom between and within groups, and the p value."""


def levene(groups: list[np.ndarray]) -> Numbers:
    """Return the median-centred Levene test."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = stats.levene(*groups, center="median")
    freedom = sum(map(len, groups)) - len(groups)
    return float(found.statistic), len(groups) - 1, freedom, float(found.pvalue)


def f_star(groups: list[np.ndarray]) -> Numbers:
    """Return the F* test of equal means; its p value has the original numerator k - 1, as in the text, where statsmodels' own has Mehrotra's."""
    means, variances, counts = (
        np.array([of(group) for group in groups]) for of in (np.mean, lambda g: g.var(ddof=1), len)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        found = anova_generic(means, variances, counts, use_var="bf")
    return float(found.statistic), found.df_num2, float(found.df_denom), float(found.pvalue2)


def f_star_of_deviations(groups: list[np.ndarray]) -> Numbers:
    """Return `f_star` of the absolute deviations from each group's median."""
    return f_star([np.abs(group - np.median(group)) for group in groups])


TESTS: dict[str, tuple[Callable, int]] = {
    "f_star": (f_star, 2),
    "levene": (levene, 3),
    "f_star_of_deviations": (f_star_of_deviations, 3),
}
"""Tests of first-order variances, and the attempts they need in a group: two attempts deviate equally from their median."""


def _kruskal(groups: list[np.ndarray]) -> Numbers:
    found = stats.kruskal(*groups)
    return float(found.statistic), len(groups) - 1, np.nan, float(found.pvalue)


def _pearson(groups: list[np.ndarray]) -> Numbers:
    draws = stats.MonteCarloMethod(n_resamples=9999, rng=np.random.default_rng(0))
    found = stats.chi2_contingency(np.column_stack(groups), correction=False, method=draws)
    return float(found.statistic), len(groups) - 1, np.nan, float(found.pvalue)


def _line(about: dict, cause: str, test: Callable[[list], Numbers], groups: list) -> dict:
    numbers = [np.nan] * 4 if cause else test(groups)
    names = ("statistic", "df_between", "df_within", "p_value")
    return {**about, **dict(zip(names, numbers, strict=True)), "cause": cause}


def _corrected(lines: list[dict], *, first: str) -> pd.DataFrame:
    """Return tests as a table with Bonferroni's correction over those of a kind that were made, and whether `first`, a p value, rejects."""
    table = pd.DataFrame(lines)
    kind = table["test"] if "test" in table else np.zeros(len(table))
    family = table.groupby(kind)["p_value"].transform("count")
    table["p_bonferroni"] = (table["p_value"] * family).clip(upper=1)
    table["rejected"] = (table[first] < LEVEL).where(table[first].notna())
    table["cause"] = table.pop("cause")
    return table


def compare_variances(frame: pd.DataFrame) -> pd.DataFrame:
    r"""Make each of `TESTS` for every architecture, over the tasks of :math:`\mathcal T_o`.

    `frame` has all attempts of the design, those that are not at h* marked as left out (`lib.analysis.accuracy.at_best`). Columns: ``architecture``, ``test``, ``tasks`` (groups that
    entered), ``tasks_left_out`` (with too few attempts), ``attempts``, ``statistic``, ``df_between``, ``df_within``, ``p_value``, ``p_bonferroni`` (over the architectures
    tested), ``rejected`` (``p_value`` below 0.05, uncorrected as in the text) and ``cause``: why a test was not made.
    """
    plain = frame[frame["noise"] == NO_NOISE]
    tasks, lines = len(plain[list(TASK)].drop_duplicates()), []
    for architecture in frame["architecture"].unique():
        own = entered(plain[plain["architecture"] == architecture])
        parts = own.groupby(list(TASK), sort=False)["task_accuracy"]
        groups = [part.to_numpy(float) for _, part in parts]
        for name, (test, least) in TESTS.items():
            inside = [group for group in groups if len(group) >= least]
            about = {
                "architecture": architecture,
                "test": name,
                "tasks": len(inside),
                "tasks_left_out": tasks - len(inside),
                "attempts": sum(map(len, inside)),
            }
            cause = ""
            if tasks < 2:
                cause = f"the design has {tasks} task without noise; a comparison needs two"
            elif len(inside) < 2:
                cause = f"{len(inside)} of {tasks} tasks have {least} attempts; a comparison needs two such tasks"
            line = _line(about, cause, test, inside)
            if not cause and not np.isfinite(line["statistic"]):
                line = _line(about, "no variation within the tasks", test, inside)
            lines.append(line)
    return _corrected(lines, first="p_value")


def compare_times(
    frame: pd.DataFrame, times: pd.DataFrame, by: Sequence[str] = TASK
) -> pd.DataFrame:
    """Test for each architecture of `frame` whether convergence time (`lib.analysis.comparisons.convergence_times`) has one distribution over what `by` tells apart.

    Columns: ``architecture``, ``tasks``, ``attempts``, ``statistic``, ``df``, ``p_value``, ``p_bonferroni``, ``rejected`` (corrected) and ``cause``.
    """
    lines = []
    for architecture in frame["architecture"].unique():
        own = times[times["architecture"] == architecture]
        groups = [part.to_numpy() for _, part in own.groupby(list(by), sort=False)["epochs"]]
        cause = ""
        if len(groups) < 2:
            cause = "attempts entered at fewer than two tasks"
        elif own["epochs"].nunique() == 1:
            cause = f"every attempt took {own['epochs'].iloc[0]} epochs"
        elif len(own) == len(groups):
            cause = "one attempt at each task: nothing tells tasks from replicates"
        about = {"architecture": architecture, "tasks": len(groups), "attempts": len(own)}
        lines.append(_line(about, cause, _kruskal, groups))
    return _one_freedom(lines)


def compare_error_rates(attempts: pd.DataFrame) -> pd.DataFrame:
    """Test for each architecture whether its error rate is the same at all tasks where attempts entered.

    Columns as in `compare_times`, and ``diverged``. Where no attempt diverged, or every one, rates are equal without a test (`NEVER`, `ALWAYS`).
    """
    rates, lines = error_rates(attempts, by=["architecture", *TASK]), []
    for architecture, part in rates[rates["entered"] > 0].groupby("architecture", sort=False):
        entries, diverged = part["entered"].to_numpy(), part["diverged"].to_numpy()
        cause = ""
        if len(part) < 2:
            cause = "attempts entered at one task; a comparison needs two"
        elif diverged.sum() in (0, entries.sum()):
            cause = ALWAYS if diverged.any() else NEVER
        about = {"architecture": architecture, "tasks": len(part), "attempts": entries.sum()}
        about["diverged"] = diverged.sum()
        counts = list(np.column_stack([diverged, entries - diverged]))
        lines.append(_line(about, cause, _pearson, counts))
    return _one_freedom(lines)


def _one_freedom(lines: list[dict]) -> pd.DataFrame:
    table = _corrected(lines, first="p_bonferroni")
    return table.drop(columns="df_within").rename(columns={"df_between": "df"})
