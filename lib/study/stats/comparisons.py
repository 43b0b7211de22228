r"""Whether a behavior of an architecture is the same at every task: one test per architecture.

If a comparison was not tested, its table gives the cause. Coefficients are compared in pairs of
tasks (`study.stats.task_pairs`).

*Convergence time* (`study.stats.convergence`) gets Kruskal and Wallis's test of ranks, because
epochs are integers with many ties at the end of the window.

*Variance of task accuracy* (1.9, Table 1.6) gets each of the `TESTS`, explained in
`study.stats.group_tests`.

*Training error rate* gets Pearson's test of a table of tasks by outcome. The paper tests neither
convergence times nor error rates.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from study.results.factorial import TASK
from study.stats.accuracy import SIGNIFICANCE, entered
from study.stats.attempts import error_rates
from study.stats.group_tests import (
    NOT_TESTED,
    GroupTest,
    f_star,
    f_star_of_deviations,
    kruskal,
    levene,
    pearson,
)

NO_NOISE = "none"
r"""Noise orientation of the tasks of :math:`\mathcal T_o`."""
NEVER = "no attempt diverged"
"""Why error rates are equal without a test."""
ALWAYS = "every attempt diverged"
"""Why error rates are equal without a test."""


class VarianceTest(NamedTuple):
    """A test of first-order variances."""

    function: Callable[[list[np.ndarray]], GroupTest]
    attempts: int
    """Smallest number of attempts in a group."""


TESTS = {
    "f_star": VarianceTest(f_star, 2),
    "levene": VarianceTest(levene, 3),
    "f_star_of_deviations": VarianceTest(f_star_of_deviations, 3),
}
"""Tests of first-order variances. Two attempts deviate equally from their median, so tests of
deviations need three.
"""


def compare_variances(frame: pd.DataFrame) -> pd.DataFrame:
    r"""Run each of `TESTS` for every architecture, over the tasks of :math:`\mathcal T_o`.

    Parameters
    ----------
    frame
        All attempts of the design; those not at h* are marked as left out
        (`study.stats.accuracy.at_best`).

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``test``, ``tasks`` (with enough attempts), ``tasks_left_out`` (with too
        few), ``attempts``, ``statistic``, ``df_between``, ``df_within``, ``p_value``,
        ``p_bonferroni`` (over the architectures tested), ``rejected`` (``p_value`` below 0.05,
        uncorrected as in the paper) and ``cause``: why a test was not made.
    """
    plain = frame[frame["noise"] == NO_NOISE]
    tasks = len(plain[list(TASK)].drop_duplicates())
    lines = []
    for architecture in frame["architecture"].unique():
        rows = entered(plain[plain["architecture"] == architecture])
        by_task = rows.groupby(list(TASK), sort=False)["task_accuracy"]
        groups = [accuracies.to_numpy(float) for _, accuracies in by_task]
        for name, test in TESTS.items():
            line = _test_variances(test, groups, tasks)
            lines.append({"architecture": architecture, "test": name, **line})
    return _correct(lines, deciding="p_value")


def _test_variances(test: VarianceTest, groups: list[np.ndarray], tasks: int) -> dict:
    """Return the numbers of one test, or the cause why it was not made."""
    large = [group for group in groups if len(group) >= test.attempts]
    result = NOT_TESTED
    cause = ""
    if tasks < 2:
        cause = f"the design has {tasks} task without noise; a comparison needs two"
    elif len(large) < 2:
        cause = (
            f"{len(large)} of {tasks} tasks have {test.attempts} attempts; "
            "a comparison needs two such tasks"
        )
    else:
        result = test.function(large)
        if not np.isfinite(result.statistic):
            cause = "no variation within the tasks"
            result = NOT_TESTED
    return {
        "tasks": len(large),
        "tasks_left_out": tasks - len(large),
        "attempts": sum(len(group) for group in large),
        **result._asdict(),
        "cause": cause,
    }


def compare_times(
    frame: pd.DataFrame, times: pd.DataFrame, by: Sequence[str] = TASK
) -> pd.DataFrame:
    """Test for each architecture whether convergence time has one distribution in all groups.

    Parameters
    ----------
    frame
        All attempts of the design.
    times
        Convergence times (`convergence_times`).
    by
        Columns that form the groups; tasks by default.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``tasks`` (groups), ``attempts``, ``statistic``, ``df``, ``p_value``,
        ``p_bonferroni``, ``rejected`` (corrected) and ``cause``: why the test was not made.
    """
    lines = []
    for architecture in frame["architecture"].unique():
        rows = times[times["architecture"] == architecture]
        groups = [epochs.to_numpy() for _, epochs in rows.groupby(list(by), sort=False)["epochs"]]
        cause = ""
        if len(groups) < 2:
            cause = "attempts entered at fewer than two tasks"
        elif rows["epochs"].nunique() == 1:
            cause = f"every attempt took {rows['epochs'].iloc[0]} epochs"
        elif len(rows) == len(groups):
            cause = "one attempt at each task, so tasks and replicates cannot be distinguished"
        result = NOT_TESTED
        if not cause:
            result = kruskal(groups)
        lines.append(
            {
                "architecture": architecture,
                "tasks": len(groups),
                "attempts": len(rows),
                **result._asdict(),
                "cause": cause,
            }
        )
    return _correct_without_df_within(lines)


def compare_error_rates(attempts: pd.DataFrame) -> pd.DataFrame:
    """Test for each architecture whether its error rate is the same at all tasks.

    Parameters
    ----------
    attempts
        Attempts with their ``status``; tasks at which none entered do not count.

    Returns
    -------
    pandas.DataFrame
        As `compare_times`, and ``diverged``. If no attempt diverged, or every one, the rates are
        equal without a test, and the cause is `NEVER` or `ALWAYS`.
    """
    rates = error_rates(attempts, by=["architecture", *TASK])
    lines = []
    for architecture, rows in rates[rates["entered"] > 0].groupby("architecture", sort=False):
        entries = rows["entered"].to_numpy()
        diverged = rows["diverged"].to_numpy()
        cause = ""
        if len(rows) < 2:
            cause = "attempts entered at one task; a comparison needs two"
        elif not diverged.any():
            cause = NEVER
        elif diverged.sum() == entries.sum():
            cause = ALWAYS
        result = NOT_TESTED
        if not cause:
            result = pearson(list(np.column_stack([diverged, entries - diverged])))
        lines.append(
            {
                "architecture": architecture,
                "tasks": len(rows),
                "attempts": entries.sum(),
                "diverged": diverged.sum(),
                **result._asdict(),
                "cause": cause,
            }
        )
    return _correct_without_df_within(lines)


def _correct(lines: list[dict], *, deciding: str) -> pd.DataFrame:
    """Return tests as a table, with Bonferroni's correction over the tests made of each kind.

    `deciding` names the p value that decides ``rejected``.
    """
    table = pd.DataFrame(lines)
    kind = np.zeros(len(table))  # one kind of test
    if "test" in table:
        kind = table["test"]
    family_size = table.groupby(kind)["p_value"].transform("count")
    table["p_bonferroni"] = (table["p_value"] * family_size).clip(upper=1)
    table["rejected"] = (table[deciding] < SIGNIFICANCE).where(table[deciding].notna())
    table["cause"] = table.pop("cause")
    return table


def _correct_without_df_within(lines: list[dict]) -> pd.DataFrame:
    """Return tests that have one number of degrees of freedom, corrected."""
    table = _correct(lines, deciding="p_bonferroni")
    return table.drop(columns="df_within").rename(columns={"df_between": "df"})
