"""Claims about behaviors over tasks (chapter 1).

That an effect differs between tasks is measured by how much it differs, not by how many tests
reject: a small experiment rejects nothing, and that refutes nothing.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import brentq

from study.claims.estimates import Cause, Estimate, not_testable
from study.claims.estimators import TAIL, proportion
from study.claims.factorial import Evidence, judge_of
from study.claims.judging import Judges
from study.stats import comparisons, convergence, task_models, task_pairs
from study.stats.accuracy import ENTERED, LEVEL
from study.stats.attempts import TASK
from study.stats.covariates import COVARIATES

LARGE = 0.7
"""Explained variance that the paper calls substantial."""
OF_ARCHITECTURE, OF_SETTINGS, CROSSED = task_models.EFFECTS
DECADES = 4
"""Powers of ten that the paper's learning rates cover (Table 1.2).

Over much fewer, hyper-parameters have hardly an effect that could differ.
"""


def spread_over_tasks(evidence: Evidence, fits: task_models.TaskFits, effect: str) -> Estimate:
    """Estimate how much coefficients differ between tasks beyond their errors.

    It is the standard deviation of the true coefficients (Paule and Mandel, 1982), mean over
    coefficients, with the interval of the Q profile (Viechtbauer, 2007), computed from the largest
    of three standard errors: the model's, the robust one, and the one that includes the binomial
    error of accuracies. Its upper end is computed from the smallest of the three as well.

    Parameters
    ----------
    evidence
        The tables of the factorial.
    fits
        Models by task.
    effect
        One of `study.stats.task_models.EFFECTS`.

    Returns
    -------
    Estimate
        In units of task accuracy; a slope is multiplied by half the range of its covariate.
    """
    in_effect = task_models.effect_of(fits.coefficients) == effect
    # The intercept is a level, not what an architecture changes.
    table = fits.coefficients[in_effect & (fits.coefficients["term"] != "intercept")]
    units = _half_ranges(evidence)
    spreads = []
    for (term, _), rows in table.groupby(task_pairs.TERM, sort=False):
        errors = rows[["se", "robust_se", "weighted_se"]].agg(["max", "min"], axis=1)
        known = (errors["min"] > 0) & rows["robust_se"].notna()
        if known.sum() <= 2:
            continue
        estimates = rows["estimate"][known].to_numpy()
        low, value, high = _between_tasks(estimates, errors["max"][known].to_numpy())
        _, _, high_of_smallest = _between_tasks(estimates, errors["min"][known].to_numpy())
        unit = next((units[n] for n in units if term.endswith(COVARIATES[n].label)), 1.0)
        spreads.append(unit * np.array([low, value, max(high, high_of_smallest)]))
    if not spreads:
        return not_testable("no coefficient is known at three tasks", Cause.TOO_SMALL)
    low, value, high = np.mean(spreads, axis=0)
    return Estimate(float(value), float(low), float(high))


def _half_ranges(evidence: Evidence) -> dict[str, float]:
    """Return half the range of each covariate, by name."""
    reach = np.ptp(np.log(evidence.ds["learning_rate"].values)) / 2
    units = {"log_rate": reach, "log_rate_squared": reach**2}
    for name in ("width", "training_length"):
        units[name] = np.ptp(evidence.ds[name].values) / 2
    return units


def _between_tasks(estimate: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return low end, value, and high end of the standard deviation of the true effects."""

    def q(variance: float) -> float:
        weight = 1 / (error**2 + variance)
        middle = np.average(estimate, weights=weight)
        return float(weight @ (estimate - middle) ** 2)

    df = len(estimate) - 1
    targets = (stats.chi2.isf(TAIL, df), df, stats.chi2.ppf(TAIL, df))
    variances = []
    for target in targets:
        top = np.var(estimate) + error.max() ** 2
        while q(top) > target:
            top *= 4
        above = q(0.0) > target
        variances.append(brentq(lambda v, t=target: q(v) - t, 0.0, top) if above else 0.0)
    return np.sqrt(variances)


def _first_order(evidence: Evidence) -> Estimate:
    return spread_over_tasks(evidence, evidence.first_order, OF_ARCHITECTURE)


def _second_order(evidence: Evidence, effect: str) -> Estimate:
    decades = np.ptp(np.log10(evidence.ds["learning_rate"].values))
    if decades < DECADES / 2:
        reason = f"learning rates cover {decades:.1f} decades; the paper's cover {DECADES}"
        return not_testable(reason, Cause.TOO_SMALL)
    return spread_over_tasks(evidence, evidence.second_order, effect)


def _share_of_tests(table: pd.DataFrame) -> Estimate:
    tested = table[table["p_value"].notna()]
    if tested.empty:
        return not_testable(table["cause"].iloc[0], Cause.TOO_SMALL)
    rejected = proportion(int((tested["p_bonferroni"] < LEVEL).sum()), len(tested))
    # A test that does not reject refutes nothing, and its power is not known in general.
    return replace(rejected, high=1.0, chance=lambda *_: np.nan)


def spread_of_deviations(frame: pd.DataFrame) -> Estimate:
    """Estimate how much the variability of an accuracy differs between tasks beyond sampling.

    As in the test of Brown and Forsythe (1974), the variability at a task is the mean absolute
    deviation from the task's median, here in units of the architecture's mean. The estimate is the
    standard deviation of the true values over tasks, pooled over architectures, with the interval
    of a variance component (Searle, Casella and McCulloch, 1992, section 3.6). A count of rejected
    tests, as in Table 1.6, would depend on the number of attempts more than on the tasks.

    Parameters
    ----------
    frame
        Attempts at the best hyper-parameters; those that are ``left_out`` do not count.

    Returns
    -------
    Estimate
        A ratio: 0.5 if the variability at a task typically differs by half of the mean.
    """
    rows = frame[(frame["left_out"] == ENTERED) & (frame["noise"] == comparisons.NO_NOISE)]
    between = within = 0.0  # sums of squares
    df_between = df_within = 0
    sizes = []
    for _, part in rows.groupby("architecture", observed=True):
        task = part[list(TASK)].astype(str).agg(" ".join, axis=1)
        accuracy = part["task_accuracy"]
        deviation = (accuracy - accuracy.groupby(task).transform("median")).abs()
        if task.nunique() < 2 or len(part) == task.nunique() or not deviation.any():
            continue
        deviation = deviation / deviation.mean()
        by_task = deviation.groupby(task)
        counts = by_task.size()
        between += (counts * (by_task.mean() - 1) ** 2).sum()
        within += ((deviation - by_task.transform("mean")) ** 2).sum()
        df_between += len(counts) - 1
        df_within += len(part) - len(counts)
        sizes.append(stats.hmean(counts))
    if not sizes:
        return not_testable("no architecture has two attempts at two tasks", Cause.NO_SEEDS)
    between /= df_between
    within /= df_within
    size = np.mean(sizes)

    def end_of_interval(quantile: float) -> float:
        ratio = between / within / stats.f.ppf(quantile, df_between, df_within)
        return math.sqrt(max(0.0, (ratio - 1) * within / size))

    value = math.sqrt(max(0.0, (between - within) / size))
    return Estimate(value, end_of_interval(1 - TAIL), end_of_interval(TAIL))


def _times(evidence: Evidence) -> Estimate:
    times = convergence.convergence_times(evidence.ds, evidence.best)
    return _share_of_tests(comparisons.compare_times(evidence.frame, times, by=("dataset",)))


def _share_explained(fits: task_models.TaskFits) -> Estimate:
    explained = fits.summary["adj_r2"].dropna()
    return proportion(int((explained > LARGE).sum()), len(explained))


_QUANTITIES = {
    "diss-1.4-first-order-accuracy": _first_order,
    "diss-1.4-variance": lambda evidence: spread_of_deviations(evidence.best),
    "diss-1.4-convergence": _times,
    "diss-1.4-second-order-architecture": partial(_second_order, effect=OF_ARCHITECTURE),
    "diss-1.4-second-order-hyperparameters": partial(_second_order, effect=OF_SETTINGS),
    "diss-1.4-second-order-interactions": partial(_second_order, effect=CROSSED),
    "diss-1.5.1-variance-explained": lambda evidence: _share_explained(evidence.first_order),
    "diss-1.5.2-variance-explained": lambda evidence: _share_explained(evidence.second_order),
}
judge_tasks = Judges({claim: judge_of(quantity) for claim, quantity in _QUANTITIES.items()})
"""The judges of chapter 1."""
