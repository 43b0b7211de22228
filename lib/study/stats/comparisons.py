r"""Whether a coefficient or a behaviour of an architecture is the same at every task (chapter 1).

If a comparison was not tested, its table gives the cause.

*Coefficients* are compared in pairs of tasks (1.4), with Bonferroni's correction over the pairs of
one coefficient:

.. math::

    H_0 : \beta^{(t)} = \beta^{(t')} \quad \text{vs.} \quad H_A : \beta^{(t)} \ne \beta^{(t')},
    \qquad T = \frac{\hat\beta^{(t)} - \hat\beta^{(t')}}{\sqrt{s_t^2 + s_{t'}^2}} \quad (1.4)

The fits of two tasks share no attempt, so their variances add. The paper does not print its
statistic. Here T is compared with Student's distribution, whose degrees of freedom are
Satterthwaite's, :math:`(s_t^2 + s_{t'}^2)^2 / (s_t^4/\nu_t + s_{t'}^4/\nu_{t'})`, which allows
tasks of different residual variance. Within a task, the model's standard error assumes one variance
for all attempts; the robust one (HC3) does not.

*Convergence time* :math:`Y_\text{epochs}` is "the number of training epochs completed prior to the
RNN attaining its maximum task accuracy". The paper's values run from 1 to 25, so the epoch that
attains the maximum is counted too. The paper looks at the first 25 epochs of each attempt, the
shorter of its training lengths; here it is the shortest of the design. Kruskal and Wallis's test of
ranks is used, because epochs are integers with many ties at the end of the window.

*Variance of task accuracy* (1.9, Table 1.6) gets each of the `TESTS`, explained in
`study.stats.group_tests`.

*Training error rate* gets Pearson's test of a table of tasks by outcome. The paper tests neither
convergence times nor error rates.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from study.results.factorial import ATTEMPT
from study.stats.accuracy import CELL, LEVEL, cells, entered
from study.stats.attempts import TASK, error_rates
from study.stats.group_tests import (
    NOT_TESTED,
    GroupTest,
    f_star,
    f_star_of_deviations,
    kruskal,
    levene,
    pearson,
)
from study.stats.power import detectable

TERM = ["term", "architecture"]
"""The columns that identify a coefficient."""
REJECTED = ("rejected", "robust_rejected", "weighted_rejected")
"""Whether a test rejects, by each of three standard errors: the model's, the robust one, and the
one with the binomial variance of accuracies.
"""
NO_NOISE = "none"
r"""Noise orientation of the tasks of :math:`\mathcal T_o`."""
NEVER = "no attempt diverged"
"""Why error rates are equal without a test."""
ALWAYS = "every attempt diverged"
"""Why error rates are equal without a test."""


# coefficients, in pairs of tasks


def compare_tasks(coefficients: pd.DataFrame) -> pd.DataFrame:
    """Test every pair of tasks for every coefficient.

    Parameters
    ----------
    coefficients
        Rows of `study.stats.task_models.TaskFits.coefficients`, of the tasks that form the family.
        A task whose estimate or standard error is nan enters no pair.

    Returns
    -------
    pandas.DataFrame
        One row per coefficient and pair: ``term``, ``architecture``, the two tasks (``dataset_1``
        to ``noise_2``), ``difference``, ``se``, ``df``, ``low`` and ``high`` (ends of the 95%
        intervals that hold together for all pairs of the coefficient), ``p_value``,
        ``p_bonferroni``, ``rejected``, ``detectable`` (the difference that the test detects with 80
        % power), ``robust_p`` (corrected, from robust errors), ``robust_rejected``, ``weighted_p``
        and ``weighted_rejected`` (from the fits with the binomial variance of each accuracy).
    """
    usable = coefficients[_is_usable(coefficients)]
    tables = []
    for _, rows in usable.groupby(TERM, sort=False, observed=True):
        if len(rows) > 1:
            tables.append(_compare_pairs(rows))
    if not tables:
        return _compare_pairs(usable.iloc[:0])
    return pd.concat(tables, ignore_index=True)


def _is_usable(coefficients: pd.DataFrame) -> pd.Series:
    return coefficients["estimate"].notna() & (coefficients["se"] > 0)


class _Difference(NamedTuple):
    """The differences of all pairs of one coefficient."""

    value: pd.Series
    se: pd.Series
    df: pd.Series
    p_value: pd.Series
    p_bonferroni: pd.Series


def _compare_pairs(coefficients: pd.DataFrame) -> pd.DataFrame:
    """Return the tests of all pairs of tasks for one coefficient."""
    first_rows, second_rows = np.triu_indices(len(coefficients), 1)
    first = coefficients.iloc[first_rows].reset_index(drop=True)
    second = coefficients.iloc[second_rows].reset_index(drop=True)
    tests = max(len(first), 1)
    model = _subtract(first, second, "estimate", "se")
    robust = _subtract(first, second, "estimate", "robust_se")
    weighted = _subtract(first, second, "weighted", "weighted_se")
    half_width = stats.t.isf(LEVEL / (2 * tests), model.df) * model.se
    first_task = first[list(TASK)].add_suffix("_1")
    second_task = second[list(TASK)].add_suffix("_2")
    return pd.concat([first[TERM], first_task, second_task], axis=1).assign(
        difference=model.value,
        se=model.se,
        df=model.df,
        low=model.value - half_width,
        high=model.value + half_width,
        p_value=model.p_value,
        p_bonferroni=model.p_bonferroni,
        rejected=model.p_bonferroni < LEVEL,
        detectable=detectable(model.se, tests=tests, df=model.df),
        robust_p=robust.p_bonferroni,
        robust_rejected=robust.p_bonferroni < LEVEL,
        weighted_p=weighted.p_bonferroni,
        weighted_rejected=weighted.p_bonferroni < LEVEL,
    )


def _subtract(first: pd.DataFrame, second: pd.DataFrame, estimate: str, error: str) -> _Difference:
    """Return the differences of `estimate` with Satterthwaite's degrees of freedom."""
    value = first[estimate] - second[estimate]
    first_variance = first[error] ** 2
    second_variance = second[error] ** 2
    variance = first_variance + second_variance
    se = np.sqrt(variance)
    df = variance**2 / (first_variance**2 / first["df"] + second_variance**2 / second["df"])
    p_value = pd.Series(2 * stats.t.sf(np.abs(value) / se, df), first.index)
    tests = max(len(first), 1)
    return _Difference(value, se, df, p_value, (p_value * tests).clip(upper=1))


def count_rejections(coefficients: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Count the rejected tests of each coefficient (Table 1.5, Figure 1.4).

    Parameters
    ----------
    coefficients
        Coefficients of the tasks.
    pairs
        Their tests, `compare_tasks(coefficients)`.

    Returns
    -------
    pandas.DataFrame
        One row per coefficient: ``term``, ``architecture``, ``tasks`` (with an estimate and its
        error), ``tests``, ``untested`` (pairs of the family's tasks of which one lacks these), the
        counts `REJECTED`, ``share`` (rejected over tests; nan if there is no test) and
        ``detectable`` (median over the tests).
    """
    usable = _is_usable(coefficients)
    by_term = usable.groupby([coefficients[name] for name in TERM], sort=False)
    table = by_term.agg(tasks="sum", planned="size")
    tests = pairs.groupby(TERM, sort=False)
    table["tests"] = tests.size().reindex(table.index, fill_value=0)
    planned_pairs = table["planned"] * (table["planned"] - 1) // 2
    table["untested"] = planned_pairs - table["tests"]
    for name in REJECTED:
        table[name] = tests[name].sum().reindex(table.index, fill_value=0).astype(int)
    table["share"] = table["rejected"] / table["tests"].where(table["tests"] > 0)
    table["detectable"] = tests["detectable"].median().reindex(table.index).astype(float)
    return table.drop(columns="planned").reset_index()


# convergence times


def window(ds: xr.Dataset) -> int:
    """Return the number of epochs in which convergence is looked for.

    Parameters
    ----------
    ds
        Results of the factorial experiment.

    Returns
    -------
    int
        The shortest training length of the design.
    """
    return int(ds["training_length"].min())


def convergence_times(ds: xr.Dataset, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the convergence time of every attempt that entered.

    Parameters
    ----------
    ds
        Results of the factorial experiment.
    frame
        Their attempts; those not at h* are marked as left out (`study.stats.accuracy.at_best`).

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, ``replicate`` and ``epochs``, from 1 to `window`: the first
        epoch with the largest test accuracy. Task accuracy (1.5) has its maximum in the same epoch.
    """
    accuracy = ds["accuracy"].sel(split="test", epoch=slice(window(ds))).fillna(-np.inf)
    best_epoch = accuracy.idxmax("epoch", skipna=False).transpose(*ATTEMPT).values.ravel()
    inside = entered(frame)
    table = inside[[*CELL, "replicate"]].assign(epochs=best_epoch[inside.index])
    return table.reset_index(drop=True)


def summarise_times(frame: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Summarise convergence times by task and architecture (Table A2).

    Parameters
    ----------
    frame
        All attempts of the design.
    times
        Convergence times (`convergence_times`).

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, ``attempts``, ``median`` and ``deviation`` (epochs; the standard
        deviation is nan for a single attempt).
    """
    groups = times.groupby(list(CELL), sort=False)["epochs"]
    table = groups.agg(attempts="count", median="median", deviation="std").reset_index()
    table = cells(frame).merge(table, on=list(CELL), how="left")
    return table.assign(attempts=table["attempts"].fillna(0).astype(int))


# one test for each architecture


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
    r"""Make each of `TESTS` for every architecture, over the tasks of :math:`\mathcal T_o`.

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
    return _correct(lines, first="p_value")


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
            cause = "one attempt at each task: nothing tells tasks from replicates"
        result = NOT_TESTED if cause else kruskal(groups)
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


def _correct(lines: list[dict], *, first: str) -> pd.DataFrame:
    """Return tests as a table with Bonferroni's correction over the tests of one kind that were
    made; `first` is the p value that decides ``rejected``.
    """
    table = pd.DataFrame(lines)
    kind = table["test"] if "test" in table else np.zeros(len(table))
    family_size = table.groupby(kind)["p_value"].transform("count")
    table["p_bonferroni"] = (table["p_value"] * family_size).clip(upper=1)
    table["rejected"] = (table[first] < LEVEL).where(table[first].notna())
    table["cause"] = table.pop("cause")
    return table


def _correct_without_df_within(lines: list[dict]) -> pd.DataFrame:
    """Return tests that have one number of degrees of freedom, corrected."""
    table = _correct(lines, first="p_bonferroni")
    return table.drop(columns="df_within").rename(columns={"df_between": "df"})
