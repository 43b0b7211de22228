"""What the factorial experiment says of chapter 1's claims: whether behaviours carry over from task to task.

That an effect differs between tasks is measured by how much it does, and not by how many tests reject: a small experiment rejects nothing, and
that refutes nothing.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats
from scipy.optimize import brentq

from lib.analysis import comparisons, equality, task_models
from lib.analysis.accuracy import LEVEL, at_best, can_cross, grade
from lib.analysis.claims_tenet import made_instead, scale_of
from lib.analysis.design import CENTRE, COVARIATES
from lib.analysis.linear import CONFIDENCE
from lib.results.claims import Finding, Judges, Scale, share, unable
from lib.results.factorial import COMPLETED, empty

LARGE = 0.7
"""Explained variance that the text calls substantial."""
DECADES = 4
"""Powers of ten that the text's learning rates cover (Table 1.2): over much fewer, hyper-parameters have hardly an effect to differ."""

judges = Judges("factorial, by task")


class Evidence:
    """The tables of chapter 1 on one set of results, computed when they are asked for."""

    def __init__(self, ds: xr.Dataset) -> None:
        self.ds = ds
        self.scale: Scale = scale_of(ds)
        names = ds["architecture"].values.tolist()
        self.reference = task_models.choose_reference(names)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Every attempt with its task accuracy."""
        return grade(self.ds)

    @cached_property
    def best(self) -> pd.DataFrame:
        """The same, those that are not at h* marked as left out; h* is chosen on other replicates, where there are any."""
        return at_best(self.frame, crossed=can_cross(self.frame))

    @cached_property
    def first(self) -> task_models.TaskFits:
        """Fits of (1.8) to `best`."""
        return task_models.fit_tasks(self.best, task_models.FIRST, self.reference)

    @cached_property
    def second(self) -> task_models.TaskFits:
        """Fits of (1.11), with differences of architectures where networks are trained."""
        return task_models.fit_second_order(self.frame, reference=self.reference, centre=CENTRE)


def _judge(claim: str, *, false: Callable[[np.random.Generator], Evidence]):
    """Make a function of `Evidence` the judge of a claim."""

    def register(function: Callable[[Evidence], Finding]) -> Callable:
        def judge(evidence: xr.Dataset | Evidence) -> Finding:
            evidence = evidence if isinstance(evidence, Evidence) else Evidence(evidence)
            if instead := made_instead(evidence.ds):
                return unable(instead, evidence.scale)
            try:
                return function(evidence)
            except ValueError as refusal:  # nothing to fit, and the message says why
                return unable(str(refusal), evidence.scale)

        judges.add(claim, judge, false=false)
        return function

    return register


def _spread_over_tasks(fits: task_models.TaskFits, effect: str, evidence: Evidence) -> Finding:
    """Return by how much coefficients differ between tasks beyond their errors, mean over coefficients.

    It is the standard deviation of the true coefficients (Paule and Mandel) with the interval of the Q profile (Viechtbauer 2007), from the largest of the three
    standard errors (the model's, the robust one, and the one that knows the binomial error of accuracies), in units of task accuracy: a slope is taken over half the range of its covariate.
    """
    table = fits.coefficients[task_models.effect_of(fits.coefficients) == effect]
    reach = np.ptp(np.log(evidence.ds["learning_rate"].values)) / 2
    units = {"log_rate": reach, "log_rate_squared": reach**2}
    for name in ("width", "training_length"):
        units[name] = np.ptp(evidence.ds[name].values) / 2
    found = []
    for (term, _), rows in table.groupby(comparisons.TERM, sort=False):
        error = rows[["se", "robust_se", "weighted_se"]].max(axis=1)
        known = (error > 0) & rows["robust_se"].notna()
        unit = next((units[n] for n in units if term.endswith(COVARIATES[n].label)), 1.0)
        if known.sum() > 2:
            found.append(
                unit * _between(rows["estimate"][known].to_numpy(), error[known].to_numpy())
            )
    if not found:
        return unable("no coefficient is known at three tasks", evidence.scale)
    low, value, high = np.mean(found, axis=0)
    return Finding(float(value), float(low), float(high), evidence.scale)


def _between(estimate: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return low end, value and high end of the standard deviation of what `estimate` measures with `error`."""

    def q(variance: float) -> float:
        weight = 1 / (error**2 + variance)
        mean = np.average(estimate, weights=weight)
        return float(weight @ (estimate - mean) ** 2)

    free, tail, ends = len(estimate) - 1, (1 - CONFIDENCE) / 2, []
    for target in (stats.chi2.isf(tail, free), free, stats.chi2.ppf(tail, free)):
        top = np.var(estimate) + error.max() ** 2
        while q(top) > target:
            top *= 4
        ends.append(
            np.sqrt(brentq(lambda v, t=target: q(v) - t, 0.0, top)) if q(0.0) > target else 0.0
        )
    return np.array(ends)


def _share_of_tests(table: pd.DataFrame, scale: Scale) -> Finding:
    made = table[table["p_value"].notna()]
    if made.empty:
        return unable(table["cause"].iloc[0], scale)
    found = share(int((made["p_bonferroni"] < LEVEL).sum()), len(made), scale)
    # A test that does not reject refutes nothing.
    return replace(found, high=1.0)


def _share_explained(fits: task_models.TaskFits, scale: Scale) -> Finding:
    explained = fits.summary["adj_r2"].dropna()
    return share(int((explained > LARGE).sum()), len(explained), scale)


@lru_cache(maxsize=120)
def _drawn(seed: int) -> Evidence:
    """Draw results in which every behaviour is the same at all tasks, apart from noise."""
    levels = {
        "architecture": [
            "exponential",
            "antisymmetric",
            "unicornn",
            "rnn",
            "lstm",
            "gru",
            "lipschitz",
        ],
        "width": [8],
        "learning_rate": [0.001, 0.01, 0.1],
        "training_length": [4],
        "dataset": ["cifar10", "imdb", "mnist"],
        "order": ["sequential", "permuted"],
        "noise": ["none"],
        "replicate": [0, 1, 2, 3],
        "epoch": [1, 2, 3, 4],
    }
    ds = empty(levels, profile="drawn")
    rng = np.random.default_rng(seed)
    shape = ds["status"].shape
    ds["status"][:], ds["classes"][:], ds["examples"][:] = COMPLETED, 2, 1000
    ds["epochs_completed"][:] = 4
    # Noise differs from architecture to architecture, which is no difference between tasks.
    spread = rng.uniform(0.02, 0.06, (shape[0], *[1] * len(shape)))
    values = 0.75 + spread[..., None] * rng.standard_normal((*shape, 2, 4))
    ds["accuracy"][:] = np.clip(values, 0, 1)
    return Evidence(ds)


def _alike(rng: np.random.Generator) -> Evidence:
    return _drawn(int(rng.integers(2**31)))


@_judge("diss-1.4-first-order-accuracy", false=_alike)
def first_order(evidence: Evidence) -> Finding:
    return _spread_over_tasks(evidence.first, task_models.EFFECTS[0], evidence)


@_judge("diss-1.4-variance", false=_alike)
def variances(evidence: Evidence) -> Finding:
    table = equality.compare_variances(evidence.best)
    return _share_of_tests(table[table["test"] == "levene"], evidence.scale)


@_judge("diss-1.4-convergence", false=_alike)
def convergence(evidence: Evidence) -> Finding:
    times = comparisons.convergence_times(evidence.ds, evidence.best)
    table = equality.compare_times(evidence.frame, times, by=("dataset",))
    return _share_of_tests(table, evidence.scale)


def _second_order(evidence: Evidence, effect: str) -> Finding:
    rates = np.log10(evidence.ds["learning_rate"].values)
    if np.ptp(rates) < DECADES / 2:
        return unable(
            f"learning rates over {np.ptp(rates):.1f} decades; the text's cover {DECADES}",
            evidence.scale,
        )
    return _spread_over_tasks(evidence.second, effect, evidence)


for _name, _effect in zip(
    ("architecture", "hyperparameters", "interactions"), task_models.EFFECTS, strict=True
):
    _judge(f"diss-1.4-second-order-{_name}", false=_alike)(
        lambda evidence, effect=_effect: _second_order(evidence, effect)
    )


@_judge("diss-1.5.1-variance-explained", false=_alike)
def first_order_explains(evidence: Evidence) -> Finding:
    return _share_explained(evidence.first, evidence.scale)


@_judge("diss-1.5.2-variance-explained", false=_alike)
def second_order_explains(evidence: Evidence) -> Finding:
    return _share_explained(evidence.second, evidence.scale)
