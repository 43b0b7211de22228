r"""Whether a coefficient is the same at every task: tests of all pairs of tasks (chapter 1).

Every pair of tasks is compared (1.4), with Bonferroni's correction over the pairs of one
coefficient:

.. math::

    H_0 : \beta^{(t)} = \beta^{(t')} \quad \text{vs.} \quad H_A : \beta^{(t)} \ne \beta^{(t')},
    \qquad T = \frac{\hat\beta^{(t)} - \hat\beta^{(t')}}{\sqrt{s_t^2 + s_{t'}^2}} \quad (1.4)

The fits of two tasks share no attempt, so their variances add. The paper does not print its
statistic. Here T is compared with Student's distribution, whose degrees of freedom are
Satterthwaite's, :math:`(s_t^2 + s_{t'}^2)^2 / (s_t^4/\nu_t + s_{t'}^4/\nu_{t'})`, which allows
tasks of different residual variance. Within a task, the model's standard error assumes one variance
for all attempts; the robust one (HC3) does not. All standard errors get the model's degrees of
freedom.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from study.results.factorial import TASK
from study.stats.accuracy import SIGNIFICANCE
from study.stats.power import detectable

TERM = ["term", "architecture"]
"""The columns that identify a coefficient."""
REJECTED = ("rejected", "robust_rejected", "weighted_rejected")
"""Whether a test rejects, by each of three standard errors: the model's, the robust one, and the
one with the binomial variance of accuracies.
"""


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
    half_width = stats.t.isf(SIGNIFICANCE / (2 * tests), model.df) * model.se
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
        rejected=model.p_bonferroni < SIGNIFICANCE,
        detectable=detectable(model.se, tests=tests, df=model.df),
        robust_p=robust.p_bonferroni,
        robust_rejected=robust.p_bonferroni < SIGNIFICANCE,
        weighted_p=weighted.p_bonferroni,
        weighted_rejected=weighted.p_bonferroni < SIGNIFICANCE,
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
        error), ``tests``, ``untested`` (pairs of the family's tasks in which one lacks these), the
        counts `REJECTED`, ``share`` (rejected over tests; nan without a test) and ``detectable``
        (median over the tests).
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
