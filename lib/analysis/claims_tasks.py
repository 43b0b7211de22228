"""What the factorial experiment says of chapter 1's claims: whether behaviours carry over from task to task.

That an effect differs between tasks is measured by how much it does, and not by how many tests reject: a small experiment rejects nothing, and
that refutes nothing.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import brentq

from lib.analysis import comparisons, equality, task_models
from lib.analysis.accuracy import LEVEL
from lib.analysis.claims_tenet import Evidence, judge_of
from lib.analysis.design import COVARIATES
from lib.analysis.linear import CONFIDENCE
from lib.results.claims import Finding, Judges, share, unable

LARGE = 0.7
"""Explained variance that the text calls substantial."""
DECADES = 4
"""Powers of ten that the text's learning rates cover (Table 1.2): over much fewer, hyper-parameters have hardly an effect to differ."""


def spread_over_tasks(e: Evidence, fits: task_models.TaskFits, effect: str) -> Finding:
    """Return by how much coefficients differ between tasks beyond their errors, mean over coefficients.

    It is the standard deviation of the true coefficients (Paule and Mandel) with the interval of the Q profile (Viechtbauer 2007), from the largest of the three
    standard errors (the model's, the robust one, and the one that knows the binomial error of accuracies), in units of task accuracy: a slope is taken over half the range of its covariate.
    """
    table = fits.coefficients[task_models.effect_of(fits.coefficients) == effect]
    reach = np.ptp(np.log(e.ds["learning_rate"].values)) / 2
    units = {"log_rate": reach, "log_rate_squared": reach**2}
    units |= {name: np.ptp(e.ds[name].values) / 2 for name in ("width", "training_length")}
    found = []
    for (term, _), rows in table.groupby(comparisons.TERM, sort=False):
        error = rows[["se", "robust_se", "weighted_se"]].max(axis=1)
        known = (error > 0) & rows["robust_se"].notna()
        unit = next((units[n] for n in units if term.endswith(COVARIATES[n].label)), 1.0)
        if known.sum() > 2:
            estimates, errors = rows["estimate"][known].to_numpy(), error[known].to_numpy()
            found.append(unit * _between(estimates, errors))
    if not found:
        return unable("no coefficient is known at three tasks")
    low, value, high = np.mean(found, axis=0)
    return Finding(float(value), float(low), float(high))


def _between(estimate: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return low end, value and high end of the standard deviation of what `estimate` measures with `error`."""

    def q(variance: float) -> float:
        weight = 1 / (error**2 + variance)
        middle = np.average(estimate, weights=weight)
        return float(weight @ (estimate - middle) ** 2)

    free, tail, ends = len(estimate) - 1, (1 - CONFIDENCE) / 2, []
    for target in (stats.chi2.isf(tail, free), free, stats.chi2.ppf(tail, free)):
        top = np.var(estimate) + error.max() ** 2
        while q(top) > target:
            top *= 4
        ends.append(
            np.sqrt(brentq(lambda v, t=target: q(v) - t, 0.0, top)) if q(0.0) > target else 0.0
        )
    return np.array(ends)


def _second_order(e: Evidence, effect: str) -> Finding:
    decades = np.ptp(np.log10(e.ds["learning_rate"].values))
    if decades < DECADES / 2:
        return unable(f"learning rates over {decades:.1f} decades; the text's cover {DECADES}")
    return spread_over_tasks(e, e.second, effect)


def _share_of_tests(table: pd.DataFrame) -> Finding:
    made = table[table["p_value"].notna()]
    if made.empty:
        return unable(table["cause"].iloc[0])
    # A test that does not reject refutes nothing.
    return replace(share(int((made["p_bonferroni"] < LEVEL).sum()), len(made)), high=1.0)


def _variances(e: Evidence) -> Finding:
    table = equality.compare_variances(e.best)
    return _share_of_tests(table[table["test"] == "levene"])


def _times(e: Evidence) -> Finding:
    times = comparisons.convergence_times(e.ds, e.best)
    return _share_of_tests(equality.compare_times(e.frame, times, by=("dataset",)))


def _share_explained(fits: task_models.TaskFits) -> Finding:
    explained = fits.summary["adj_r2"].dropna()
    return share(int((explained > LARGE).sum()), len(explained))


_TASKS = {
    "diss-1.4-first-order-accuracy": lambda e: spread_over_tasks(
        e, e.first, task_models.EFFECTS[0]
    ),
    "diss-1.4-variance": _variances,
    "diss-1.4-convergence": _times,
    **{
        f"diss-1.4-second-order-{name}": partial(_second_order, effect=effect)
        for name, effect in zip(
            ("architecture", "hyperparameters", "interactions"), task_models.EFFECTS, strict=True
        )
    },
    "diss-1.5.1-variance-explained": lambda e: _share_explained(e.first),
    "diss-1.5.2-variance-explained": lambda e: _share_explained(e.second),
}
judges = Judges({claim: judge_of(quantity) for claim, quantity in _TASKS.items()})
