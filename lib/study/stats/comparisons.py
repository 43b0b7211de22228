r"""Whether a coefficient or a behaviour of an architecture is the same at every task, or the
cause why that was not tested (chapter 1).

Coefficients are compared in pairs of tasks (1.4), with Bonferroni's correction over the pairs of
one coefficient:

.. math::

    H_0 : \beta^{(t)} = \beta^{(t')} \quad \text{vs.} \quad H_A : \beta^{(t)} \ne \beta^{(t')},
    \qquad T = \frac{\hat\beta^{(t)} - \hat\beta^{(t')}}{\sqrt{s_t^2 + s_{t'}^2}} \quad (1.4)

The fits of two tasks share no attempt, so their variances add. The paper does not print its
statistic; here T is compared with Student's distribution, whose degrees of freedom are
Satterthwaite's, :math:`(s_t^2 + s_{t'}^2)^2 / (s_t^4/\nu_t + s_{t'}^4/\nu_{t'})`, which allows
tasks of different residual variance. Within a task a standard error of the model has one variance
for all attempts; the robust one (HC3) does not.

*Convergence time* :math:`Y_\text{epochs}` is "the number of training epochs completed prior to the
RNN attaining its maximum task accuracy". The paper's values run from 1 to 25, so the epoch that
attains the maximum is counted too. It looks at the first 25 epochs of each attempt: the shorter of
its training lengths, and here the shortest of the design. It gets Kruskal and Wallis's test, of
ranks, because epochs are whole numbers with many ties at the end of the window.

*Variance of task accuracy* (1.9, Table 1.6). Two tests are called Brown and Forsythe's, and the
text's table has the hypothesis of one and the numbers of the other:

``levene``
    Levene's test of **equal variances** with deviations from the group's median, :math:`z_{ij} =
    |y_{ij} - \tilde y_i|`: an analysis of variance of z, with :math:`k-1` and :math:`N-k` degrees
    of freedom, whole numbers (Brown and Forsythe, JASA 1974, which the paper cites).
``f_star``
    The :math:`F^*` test of **equal means** under unequal variances,

    .. math::

        F^* = \frac{\sum_i n_i (\bar y_i - \bar y)^2}{\sum_i (1 - n_i/N) s_i^2}, \qquad
        \frac1f = \sum_i \frac{c_i^2}{n_i - 1}, \quad
        c_i = \frac{(1 - n_i/N) s_i^2}{\sum_j (1 - n_j/N) s_j^2},

    with :math:`k-1` and f degrees of freedom, f after Satterthwaite and seldom whole (Brown and
    Forsythe, Technometrics 1974).
``f_star_of_deviations``
    :math:`F^*` of the z: equal variances again, with denominators after Satterthwaite.

*Training error rate* gets Pearson's of a table of tasks by outcome, whose p value is the share of
9,999 tables drawn with the same sums that deviate as much, because most counts of diverged attempts
are small. The paper tests neither.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats
from statsmodels.stats.oneway import anova_oneway

from study.results.factorial import ATTEMPT
from study.stats.accuracy import CELL, LEVEL, cells, entered
from study.stats.attempts import TASK, error_rates
from study.stats.power import detectable

TERM = ["term", "architecture"]
REJECTED = ("rejected", "robust_rejected", "weighted_rejected")
"""Whether a test rejects, by each of the three standard errors: the model's, the robust one, and
the one that knows the binomial error of accuracies.
"""


def compare_tasks(coefficients: pd.DataFrame) -> pd.DataFrame:
    """Test every pair of tasks for every coefficient.

    `coefficients` are rows of `study.stats.task_models.TaskFits.coefficients`, of those tasks that
    form the family. One row per coefficient and pair: ``term``, ``architecture``, the two tasks
    (``dataset_1`` to ``noise_2``), ``difference``, ``se``, ``df``, ``low`` and ``high`` (ends of
    the intervals that hold together for all pairs of the coefficient, 95%), ``p_value``,
    ``p_bonferroni``, ``rejected``, ``detectable`` (the difference that this test would find with a
    probability of 0.8), ``robust_p`` (corrected, from robust errors) and ``robust_rejected``, and
    ``weighted_p`` and ``weighted_rejected`` (from the fits that know the binomial error of each
    accuracy). A task whose estimate or standard error is empty enters no pair.
    """
    known = coefficients[_usable(coefficients)]
    groups = known.groupby(TERM, sort=False, observed=True)
    parts = [_pairs(part) for _, part in groups if len(part) > 1]
    return pd.concat(parts or [_pairs(known.iloc[:0])], ignore_index=True)


def _usable(coefficients: pd.DataFrame) -> pd.Series:
    return coefficients["estimate"].notna() & (coefficients["se"] > 0)


def _pairs(part: pd.DataFrame) -> pd.DataFrame:
    one, two = (part.iloc[rows].reset_index(drop=True) for rows in np.triu_indices(len(part), 1))
    tests = max(len(one), 1)

    def welch(estimate: str, error: str) -> tuple[pd.Series, ...]:
        """Return difference, standard error, degrees of freedom, p value and its correction for
        every pair.
        """
        difference, (own, other) = one[estimate] - two[estimate], (one[error] ** 2, two[error] ** 2)
        se = np.sqrt(own + other)
        df = (own + other) ** 2 / (own**2 / one["df"] + other**2 / two["df"])
        p = pd.Series(2 * stats.t.sf(np.abs(difference) / se, df), one.index)
        return difference, se, df, p, (p * tests).clip(upper=1)

    difference, se, df, p_value, corrected = welch("estimate", "se")
    half = stats.t.isf(LEVEL / (2 * tests), df) * se
    tasks = one[[*TASK]].add_suffix("_1"), two[[*TASK]].add_suffix("_2")
    table = pd.concat([one[TERM], *tasks], axis=1).assign(
        difference=difference,
        se=se,
        df=df,
        low=difference - half,
        high=difference + half,
        p_value=p_value,
        p_bonferroni=corrected,
        rejected=corrected < LEVEL,
        detectable=detectable(se, tests=tests, df=df),
    )
    for kind, estimate in (("robust", "estimate"), ("weighted", "weighted")):
        table[f"{kind}_p"] = welch(estimate, f"{kind}_se")[-1]
        table[f"{kind}_rejected"] = table[f"{kind}_p"] < LEVEL
    return table


def count_rejections(coefficients: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Count the rejected tests of each coefficient (Table 1.5, Figure 1.4); `pairs` is
    `compare_tasks` of `coefficients`.

    Columns: ``term``, ``architecture``, ``tasks`` (with an estimate and its error), ``tests``,
    ``untested`` (pairs of the family's tasks that lack one of them), the counts `REJECTED`,
    ``share`` (rejected of the tests; empty where none was made) and ``detectable`` (median over the
    tests).
    """
    usable = _usable(coefficients).groupby([coefficients[name] for name in TERM], sort=False)
    table = usable.agg(tasks="sum", planned="size")
    found = pairs.groupby(TERM, sort=False)
    table["tests"] = found.size().reindex(table.index, fill_value=0)
    table["untested"] = table["planned"] * (table["planned"] - 1) // 2 - table["tests"]
    for name in REJECTED:
        table[name] = found[name].sum().reindex(table.index, fill_value=0).astype(int)
    table["share"] = table["rejected"] / table["tests"].where(table["tests"] > 0)
    table["detectable"] = found["detectable"].median().reindex(table.index).astype(float)
    return table.drop(columns="planned").reset_index()


def window(ds: xr.Dataset) -> int:
    """Return how many epochs of each attempt are looked at: the design's shortest training
    length.
    """
    return int(ds["training_length"].min())


def convergence_times(ds: xr.Dataset, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the convergence time of every attempt that entered, others than those at h* being
    left out of `frame` (`study.stats.accuracy.at_best`).

    Columns: the task, ``architecture``, ``replicate`` and ``epochs``, from 1 to `window`: the first
    epoch with the largest test accuracy. Task accuracy (1.5) has its maximum in the same epoch.
    """
    accuracy = ds["accuracy"].sel(split="test", epoch=slice(window(ds))).fillna(-np.inf)
    first = accuracy.idxmax("epoch", skipna=False).transpose(*ATTEMPT).values.ravel()
    inside = entered(frame)
    return inside[[*CELL, "replicate"]].assign(epochs=first[inside.index]).reset_index(drop=True)


def summarise_times(frame: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Return ``attempts``, ``median`` and ``deviation`` (epochs) by task and architecture (Table
    A2); of one attempt there is no deviation.
    """
    found = times.groupby(list(CELL), sort=False)["epochs"]
    table = found.agg(attempts="count", median="median", deviation="std").reset_index()
    table = cells(frame).merge(table, on=list(CELL), how="left")
    return table.assign(attempts=table["attempts"].fillna(0).astype(int))


# one test for each architecture

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
    """Return the F* test of equal means; its p value has the original numerator k - 1, as in the
    text, where statsmodels' own has Mehrotra's.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = anova_oneway(groups, use_var="bf")
    return float(found.statistic), found.df_num2, float(found.df_denom), float(found.pvalue2)


def f_star_of_deviations(groups: list[np.ndarray]) -> Numbers:
    """Return `f_star` of the absolute deviations from each group's median."""
    return f_star([np.abs(group - np.median(group)) for group in groups])


TESTS: dict[str, tuple[Callable, int]] = {
    "f_star": (f_star, 2),
    "levene": (levene, 3),
    "f_star_of_deviations": (f_star_of_deviations, 3),
}
"""Tests of first-order variances, and the attempts they need in a group: two attempts deviate
equally from their median.
"""


def _kruskal(groups: list[np.ndarray]) -> Numbers:
    """Two attempts a task are too few for the chi-squared p value: ranks are dealt out anew."""
    sizes, ranks = np.array([*map(len, groups)]), stats.rankdata(np.concatenate(groups))

    def between(x: np.ndarray, axis: int) -> np.ndarray:
        return (np.add.reduceat(x, np.cumsum(sizes) - sizes, axis) ** 2 / sizes).sum(axis)

    draws = {"n_resamples": 9_999, "rng": np.random.default_rng(0)}
    how = {"permutation_type": "pairings", "vectorized": True, "alternative": "greater"}
    p = stats.permutation_test((ranks,), between, **how, **draws).pvalue
    return float(stats.kruskal(*groups).statistic), len(groups) - 1, np.nan, float(p)


def _pearson(groups: list[np.ndarray]) -> Numbers:
    draws = stats.MonteCarloMethod(n_resamples=9_999, rng=np.random.default_rng(0))
    found = stats.chi2_contingency(np.column_stack(groups), correction=False, method=draws)
    return float(found.statistic), len(groups) - 1, np.nan, float(found.pvalue)


def _line(about: dict, cause: str, test: Callable[[list], Numbers], groups: list) -> dict:
    numbers = [np.nan] * 4 if cause else test(groups)
    names = ("statistic", "df_between", "df_within", "p_value")
    return {**about, **dict(zip(names, numbers, strict=True)), "cause": cause}


def _corrected(lines: list[dict], *, first: str) -> pd.DataFrame:
    """Return tests as a table with Bonferroni's correction over those of a kind that were made,
    and whether `first`, a p value, rejects.
    """
    table = pd.DataFrame(lines)
    kind = table["test"] if "test" in table else np.zeros(len(table))
    family = table.groupby(kind)["p_value"].transform("count")
    table["p_bonferroni"] = (table["p_value"] * family).clip(upper=1)
    table["rejected"] = (table[first] < LEVEL).where(table[first].notna())
    table["cause"] = table.pop("cause")
    return table


def compare_variances(frame: pd.DataFrame) -> pd.DataFrame:
    r"""Make each of `TESTS` for every architecture, over the tasks of :math:`\mathcal T_o`.

    `frame` has all attempts of the design, those that are not at h* marked as left out
    (`study.stats.accuracy.at_best`). Columns: ``architecture``, ``test``, ``tasks`` (groups that
    entered), ``tasks_left_out`` (with too few attempts), ``attempts``, ``statistic``,
    ``df_between``, ``df_within``, ``p_value``, ``p_bonferroni`` (over the architectures tested),
    ``rejected`` (``p_value`` below 0.05, uncorrected as in the paper) and ``cause``: why a test was
    not made.
    """
    plain = frame[frame["noise"] == NO_NOISE]
    tasks, lines = len(plain[list(TASK)].drop_duplicates()), []
    for architecture in frame["architecture"].unique():
        own = entered(plain[plain["architecture"] == architecture])
        parts = own.groupby(list(TASK), sort=False)["task_accuracy"]
        groups = [part.to_numpy(float) for _, part in parts]
        for name, (test, least) in TESTS.items():
            inside = [group for group in groups if len(group) >= least]
            about = {"architecture": architecture, "test": name, "tasks": len(inside)}
            about |= {"tasks_left_out": tasks - len(inside), "attempts": sum(map(len, inside))}
            cause = ""
            if tasks < 2:
                cause = f"the design has {tasks} task without noise; a comparison needs two"
            elif len(inside) < 2:
                cause = (
                    f"{len(inside)} of {tasks} tasks have {least} attempts; "
                    "a comparison needs two such tasks"
                )
            line = _line(about, cause, test, inside)
            if not cause and not np.isfinite(line["statistic"]):
                line = _line(about, "no variation within the tasks", test, inside)
            lines.append(line)
    return _corrected(lines, first="p_value")


def compare_times(
    frame: pd.DataFrame, times: pd.DataFrame, by: Sequence[str] = TASK
) -> pd.DataFrame:
    """Test for each architecture of `frame` whether convergence time (`convergence_times`) has
    one distribution over what `by` tells apart.

    Columns: ``architecture``, ``tasks``, ``attempts``, ``statistic``, ``df``, ``p_value``,
    ``p_bonferroni``, ``rejected`` (corrected) and ``cause``.
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
    """Test for each architecture whether its error rate is the same at all tasks where attempts
    entered.

    Columns as in `compare_times`, and ``diverged``. Where no attempt diverged, or every one, rates
    are equal without a test (`NEVER`, `ALWAYS`).
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
