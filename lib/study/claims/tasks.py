"""Claims about behaviors that differ between tasks (chapter 1), and on what accuracy depends (3.1).

How much an effect differs between tasks is measured by its spread, not by the number of rejected
tests: a small experiment rejects nothing, which refutes nothing.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import brentq

from study.claims.estimates import Cause, Estimate, not_testable
from study.claims.factorial import Evidence, judges_of
from study.claims.intervals import proportion
from study.results.factorial import TASK
from study.stats import comparisons, convergence, task_models, task_pairs
from study.stats.accuracy import ENTERED, SIGNIFICANCE
from study.stats.covariates import COVARIATES
from study.stats.observations import FLOAT32
from study.stats.power import TAIL
from study.stats.resample import interval, resample
from study.stats.tenet import fit_model
from study.stats.tenet_models import MODELS

LARGE = 0.7
"""Explained variance that the paper calls substantial."""
RATE_TERMS = (
    "log_rate",
    "log_rate_squared",
    "architecture:log_rate",
    "architecture:log_rate_squared",
)
"""Terms of the learning rate in the models of chapter 3."""
OF_ARCHITECTURE, OF_SETTINGS, CROSSED = task_models.EFFECTS
ATTEMPTS = comparisons.TESTS["levene"].attempts
"""Smallest number of attempts at a task that show how much accuracy varies there.

Two attempts deviate equally from their median, so the variance within tasks would be zero.
"""
DECADES = 4
"""Decades that the paper's learning rates span (Table 1.2).

Over much fewer decades, hyperparameters hardly have an effect that could differ.
"""


def spread_over_tasks(evidence: Evidence, fits: task_models.TaskFits, effect: str) -> Estimate:
    """Estimate how much coefficients differ between tasks beyond their standard errors.

    For each coefficient, the standard deviation of its true values over tasks is estimated as Paule
    and Mandel (1982) do, with the Q-profile interval (Viechtbauer, 2007). Estimates and intervals
    are averaged over coefficients, as if their errors moved together, so the result is too wide
    rather than too narrow. Each coefficient has three standard errors: the model's, the
    robust one, and the one that includes the binomial error of accuracies. The largest of the three
    is used, except that the upper end is also computed from the smallest, and the larger result
    counts.

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
        _, _, high_by_smallest = _between_tasks(estimates, errors["min"][known].to_numpy())
        interval = np.array([low, value, max(high, high_by_smallest)])
        spreads.append(_half_range_of(term, units) * interval)
    if not spreads:
        return not_testable("no coefficient is known at three tasks", Cause.TOO_SMALL)
    low, value, high = np.mean(spreads, axis=0)
    return Estimate(float(value), float(low), float(high))


def _half_ranges(evidence: Evidence) -> dict[str, float]:
    """Return half the range of each covariate, by name."""
    half_range = np.ptp(np.log(evidence.ds["learning_rate"].values)) / 2
    units = {"log_rate": half_range, "log_rate_squared": half_range**2}
    for name in ("width", "training_length"):
        units[name] = np.ptp(evidence.ds[name].values) / 2
    return units


def _half_range_of(term: str, half_ranges: dict[str, float]) -> float:
    """Return half the range of the covariate in a term; 1 for a term without a covariate."""
    for name, half_range in half_ranges.items():
        if term.endswith(COVARIATES[name].label):
            return half_range
    return 1.0


def _between_tasks(estimates: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return the standard deviation of the true effects, as (low end, value, high end).

    Cochran's Q decreases with the variance between tasks. At the true variance, it has a
    chi-squared distribution, so each number is the variance at which Q reaches a target: a quantile
    for the ends, the expectation for the value.
    """

    def cochran_q(variance: float) -> float:
        weights = 1 / (errors**2 + variance)
        center = np.average(estimates, weights=weights)
        return float(weights @ (estimates - center) ** 2)

    df = len(estimates) - 1
    targets = (stats.chi2.isf(TAIL, df), df, stats.chi2.ppf(TAIL, df))
    variances = []
    for target in targets:
        if cochran_q(0.0) <= target:
            variances.append(0.0)
            continue
        largest = np.var(estimates) + errors.max() ** 2
        while cochran_q(largest) > target:
            largest *= 4
        variances.append(brentq(lambda v, q=target: cochran_q(v) - q, 0.0, largest))
    return np.sqrt(variances)


def _first_order(evidence: Evidence) -> Estimate:
    return spread_over_tasks(evidence, evidence.first_order, OF_ARCHITECTURE)


def _second_order(evidence: Evidence, effect: str) -> Estimate:
    decades = np.ptp(np.log10(evidence.ds["learning_rate"].values))
    if decades < DECADES / 2:
        reason = f"learning rates span {decades:.1f} decades; the paper's span {DECADES}"
        return not_testable(reason, Cause.TOO_SMALL)
    return spread_over_tasks(evidence, evidence.second_order, effect)


def _share_rejected(table: pd.DataFrame) -> Estimate:
    """Estimate the share of tests that reject after Bonferroni's correction."""
    tested = table[table["p_value"].notna()]
    if tested.empty:
        return not_testable(table["cause"].iloc[0], Cause.TOO_SMALL)
    rejected = proportion(int((tested["p_bonferroni"] < SIGNIFICANCE).sum()), len(tested))
    # A test that does not reject refutes nothing, and its power is not known in general.
    return replace(rejected, high=1.0, exact=None, power_at=lambda *_: np.nan)


def spread_of_deviations(frame: pd.DataFrame) -> Estimate:
    """Estimate how much the variability of accuracy differs between tasks beyond sampling noise.

    As in the test of Brown and Forsythe (1974), the variability at a task is the mean absolute
    deviation from the task's median. It is divided by the mean over all tasks of the architecture.
    The estimate is the standard deviation of the true values over tasks, pooled over architectures,
    with the interval of a variance component (Searle, Casella and McCulloch, 1992, section 3.6).
    The number of rejected tests, as in Table 1.6, would depend more on the number of attempts than
    on the tasks.

    The interval is exact for normal values, which deviations are not. If the number of attempts is
    odd, one of them is the median and deviates by zero, which raises the variance within tasks. So
    the interval begins too low: with five normal attempts of 7 architectures at each of 8 tasks and
    equal variances, none of 1,500 intervals excluded zero; with four attempts, 2% did.

    Parameters
    ----------
    frame
        Attempts at the best hyperparameters; those that are ``left_out`` do not count, and neither
        do tasks with fewer than `ATTEMPTS` of an architecture.

    Returns
    -------
    Estimate
        A ratio: 0.5 if the variability at a task typically differs by half of the mean.
    """
    rows = frame[(frame["left_out"] == ENTERED) & (frame["noise"] == comparisons.NO_NOISE)]
    between = 0.0  # sum of squares between tasks
    within = 0.0  # sum of squares within tasks
    df_between = 0
    df_within = 0
    sizes = []
    for _, part in rows.groupby("architecture", observed=True):
        task = part[list(TASK)].astype(str).agg(" ".join, axis=1)
        enough = task.groupby(task).transform("size") >= ATTEMPTS
        task = task[enough]
        accuracy = part.loc[enough, "task_accuracy"]
        deviation = (accuracy - accuracy.groupby(task).transform("median")).abs()
        if task.nunique() < 2 or not deviation.any():
            continue
        deviation = deviation / deviation.mean()
        by_task = deviation.groupby(task)
        counts = by_task.size()
        between += (counts * (by_task.mean() - 1) ** 2).sum()
        within += ((deviation - by_task.transform("mean")) ** 2).sum()
        df_between += len(counts) - 1
        df_within += len(deviation) - len(counts)
        sizes.append(stats.hmean(counts))
    if not sizes:
        reason = f"no architecture has {ATTEMPTS} attempts at two tasks"
        return not_testable(reason, Cause.NO_SEEDS)
    mean_square_between = between / df_between
    mean_square_within = within / df_within
    size = np.mean(sizes)  # attempts per task

    def end_of_interval(quantile: float) -> float:
        f_quantile = stats.f.ppf(quantile, df_between, df_within)
        ratio = mean_square_between / mean_square_within / f_quantile
        return math.sqrt(max(0.0, (ratio - 1) * mean_square_within / size))

    value = math.sqrt(max(0.0, (mean_square_between - mean_square_within) / size))
    return Estimate(value, end_of_interval(1 - TAIL), end_of_interval(TAIL))


def _times(evidence: Evidence) -> Estimate:
    times = convergence.convergence_times(evidence.ds, evidence.best)
    return _share_rejected(comparisons.compare_times(evidence.frame, times, by=("dataset",)))


def _share_of_tasks_explained(fits: task_models.TaskFits) -> Estimate:
    """Estimate the share of tasks at which a model explains more than `LARGE` of the variance."""
    explained = fits.summary["adj_r2"].dropna()
    return proportion(int((explained > LARGE).sum()), len(explained))


def most_frequent_winner(frame: pd.DataFrame) -> Estimate:
    """Estimate the share of tasks on which the same architecture is the best.

    It is the architecture that is the best most often, which makes the share larger than that of an
    architecture named in advance. So the estimate errs against claims that none dominates.

    Parameters
    ----------
    frame
        Attempts at the best hyperparameters; those that are ``left_out`` do not count.

    Returns
    -------
    Estimate
        A share of the tasks.
    """
    rows = frame[frame["left_out"] == ENTERED]
    means = rows.groupby([*TASK, "architecture"], observed=True)["task_accuracy"].mean()
    by_task = means.unstack("architecture")
    best = by_task.idxmax(axis="columns")
    return proportion(int(best.value_counts().max()), len(best))


def variance_of_learning_rate(evidence: Evidence) -> Estimate:
    """Estimate how much variance of test accuracy the learning rate explains beyond other factors.

    Parameters
    ----------
    evidence
        The tables of the factorial.

    Returns
    -------
    Estimate
        Explained variance of Model 6 minus that of the model without `RATE_TERMS`.
    """
    model = MODELS[6]
    others = tuple(term for term in model.terms if term not in RATE_TERMS)
    observations = evidence.observations(model.rows, FLOAT32)
    without = fit_model(replace(model, terms=others), observations)
    gain = evidence.r2(model.number) - resample(without).r2
    return Estimate(*interval(gain), of_variance=True)


_QUANTITIES = {
    "diss-1.4-first-order-accuracy": _first_order,
    "diss-1.4-variance": lambda evidence: spread_of_deviations(evidence.best),
    "diss-1.4-convergence": _times,
    "diss-1.4-second-order-architecture": partial(_second_order, effect=OF_ARCHITECTURE),
    "diss-1.4-second-order-hyperparameters": partial(_second_order, effect=OF_SETTINGS),
    "diss-1.4-second-order-interactions": partial(_second_order, effect=CROSSED),
    "diss-1.5.1-variance-explained": lambda evidence: _share_of_tasks_explained(
        evidence.first_order
    ),
    "diss-1.5.2-variance-explained": lambda evidence: _share_of_tasks_explained(
        evidence.second_order
    ),
    "diss-3.1-no-single": lambda evidence: most_frequent_winner(evidence.best),
    "diss-3.1-learning-rate": variance_of_learning_rate,
}
judge_tasks = judges_of(_QUANTITIES)
"""The judges of chapter 1, and of section 3.1 on architectures and learning rates."""
