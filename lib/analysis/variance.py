r"""First-order behaviour *variance of task accuracy*: the tests that are called Brown and Forsythe's (Table 1.6).

Two tests go by that name, and the text's Table 1.6 has the hypothesis of one and the numbers of the other.

``levene``
    Levene's test of **equal variances** (1.9) with deviations from the group's median, :math:`z_{ij} = |y_{ij} -
    \tilde y_i|`: an analysis of variance of z, with :math:`k-1` and :math:`N-k` degrees of freedom, whole numbers. This
    is the test of the paper that the text cites (Brown and Forsythe, JASA 1974).
``f_star``
    The :math:`F^*` test of **equal means** under unequal variances,

    .. math::

        F^* = \frac{\sum_i n_i (\bar y_i - \bar y)^2}{\sum_i (1 - n_i/N) s_i^2}, \qquad
        \frac1f = \sum_i \frac{c_i^2}{n_i - 1}, \quad
        c_i = \frac{(1 - n_i/N) s_i^2}{\sum_j (1 - n_j/N) s_j^2},

    with :math:`k-1` and f degrees of freedom, f after Satterthwaite and seldom whole (Brown and Forsythe,
    Technometrics 1974).
``f_star_of_deviations``
    :math:`F^*` of the z: equal variances again, with denominators after Satterthwaite.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.oneway import anova_generic

from lib.analysis.accuracy import LEVEL, entered
from lib.analysis.attempts import TASK

NO_NOISE = "none"
r"""Noise orientation of the tasks of :math:`\mathcal T_o`."""


def compare_variances(frame: pd.DataFrame) -> pd.DataFrame:
    r"""Make every test of this module for every architecture, over the tasks of :math:`\mathcal T_o`.

    Parameters
    ----------
    frame
        All attempts of the design, those that are not at h* marked as left out (`lib.analysis.accuracy.at_best`).

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``test``, ``tasks`` (groups that entered), ``tasks_left_out`` (with too few attempts),
        ``attempts``, ``statistic``, ``df_between``, ``df_within``, ``p_value``, ``p_bonferroni`` (times the number of
        architectures tested), ``rejected`` (``p_value`` below 0.05, uncorrected as in the text) and ``cause``: why a test was
        not made.
    """
    rows = entered(frame)
    rows = rows[rows["noise"] == NO_NOISE]
    tasks = frame.loc[frame["noise"] == NO_NOISE, list(TASK)].drop_duplicates()
    found = []
    for architecture in frame["architecture"].unique():
        own = rows[rows["architecture"] == architecture]
        groups = [
            part.to_numpy(float) for _, part in own.groupby(list(TASK), sort=False)["task_accuracy"]
        ]
        for name, (test, least) in TESTS.items():
            inside = [group for group in groups if len(group) >= least]
            cause = _cause(inside, least, len(tasks))
            numbers = dict(zip(_NUMBERS, test(inside) if not cause else [np.nan] * 4, strict=True))
            if not cause and not np.isfinite(numbers["statistic"]):
                cause, numbers = "no variation within the tasks", dict.fromkeys(_NUMBERS, np.nan)
            found.append(
                {
                    "architecture": architecture,
                    "test": name,
                    "tasks": len(inside),
                    "tasks_left_out": len(tasks) - len(inside),
                    "attempts": sum(map(len, inside)),
                    **numbers,
                    "cause": cause,
                }
            )
    table = pd.DataFrame(found)
    family = table.groupby("test")["p_value"].transform("count")
    table["p_bonferroni"] = (table["p_value"] * family).clip(upper=1)
    table["rejected"] = (table["p_value"] < LEVEL).where(table["p_value"].notna())
    return table[[name for name in table if name != "cause"] + ["cause"]]


def levene(groups: list[np.ndarray]) -> tuple[float, float, float, float]:
    """Return the statistic, both degrees of freedom and the p value of the median-centred Levene test."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = stats.levene(*groups, center="median")
    freedom = sum(map(len, groups)) - len(groups)
    return float(found.statistic), len(groups) - 1, freedom, float(found.pvalue)


def f_star(groups: list[np.ndarray]) -> tuple[float, float, float, float]:
    """Return the statistic, both degrees of freedom and the p value of the F* test of equal means.

    statsmodels' own p value uses Mehrotra's numerator; this is the original one, with k - 1, as the text has it.
    """
    means = np.array([group.mean() for group in groups])
    variances = np.array([group.var(ddof=1) for group in groups])
    counts = np.array([len(group) for group in groups])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = anova_generic(means, variances, counts, use_var="bf")
    return float(found.statistic), found.df_num2, float(found.df_denom), float(found.pvalue2)


def f_star_of_deviations(groups: list[np.ndarray]) -> tuple[float, float, float, float]:
    """Return `f_star` of the absolute deviations from each group's median."""
    return f_star([np.abs(group - np.median(group)) for group in groups])


TESTS: dict[str, tuple[Callable, int]] = {
    "f_star": (f_star, 2),
    "levene": (levene, 3),
    "f_star_of_deviations": (f_star_of_deviations, 3),
}
"""Each test, and the attempts it needs in a group: two attempts deviate equally from their median."""
_NUMBERS = ("statistic", "df_between", "df_within", "p_value")


def denominators(tasks: int, attempts: int) -> pd.DataFrame:
    r"""Return which denominator degrees of freedom each test can have, for groups of equal size.

    Parameters
    ----------
    tasks
        Number of groups k.
    attempts
        Attempts in each group n.

    Returns
    -------
    pandas.DataFrame
        ``test``, ``low`` and ``high``: Levene's :math:`k(n-1)` alone; :math:`F^*` from :math:`n-1`, where one group has all
        the variance, to :math:`k(n-1)`; and, for comparison, Welch's test of means, whose weights :math:`p_i` give
        :math:`(k^2-1)(n-1) / (3 \sum (1-p_i)^2)`, largest where they are equal.
    """
    whole = tasks * (attempts - 1)
    welch = (tasks**2 - 1) * (attempts - 1) / 3
    return pd.DataFrame(
        {
            "test": ["levene", "f_star", "welch"],
            "low": [whole, attempts - 1, welch / (tasks - 1)],
            "high": [whole, whole, welch / (tasks * (1 - 1 / tasks) ** 2)],
        }
    )


def largest_for_deviations(attempts: int) -> float:
    r"""Return what :math:`F^*` of normal deviations tends to where one group has all the variance.

    It is :math:`n\,\mathrm E[z]^2 / \mathrm{Var}[z]` with z half-normal, for n attempts a group: deviations from a
    median scatter nearly as much as they are large, so that their :math:`F^*` cannot reach hundreds.
    """
    mean, variance = stats.halfnorm.stats(moments="mv")
    return float(attempts * mean**2 / variance)


def _cause(groups: list[np.ndarray], least: int, tasks: int) -> str:
    if tasks < 2:
        return f"the design has {tasks} task without noise; a comparison needs two"
    if len(groups) < 2:
        return f"{len(groups)} of {tasks} tasks have {least} attempts; a comparison needs two such tasks"
    return ""


def spreads(frame: pd.DataFrame) -> pd.DataFrame:
    r"""Return the standard deviation of task accuracy of every group that the tests compare.

    Parameters
    ----------
    frame
        As for `compare_variances`.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, the task, ``attempts`` (two or more), ``deviation``, and ``low`` and ``high``, the ends of its 95%
        interval :math:`s\sqrt{\nu/\chi^2_\nu}` for normal accuracies.
    """
    rows = entered(frame)
    groups = rows[rows["noise"] == NO_NOISE].groupby(["architecture", *TASK], sort=False)
    table = groups["task_accuracy"].agg(attempts="count", deviation="std")
    table = table[table["attempts"] > 1].reset_index()
    freedom = table["attempts"] - 1
    for end, share in (("low", LEVEL / 2), ("high", 1 - LEVEL / 2)):
        table[end] = table["deviation"] * np.sqrt(freedom / stats.chi2.isf(share, freedom))
    return table
