"""What the factorial experiment says of chapter 1's claims: whether behaviours carry over from task to task.

A pair of tasks counts as different where the tests with the model's standard errors and with robust ones both reject, after
correction. Shares of pairs are not independent of each other, because every task is in many of them: their intervals come from leaving out
one task at a time (the jackknife of a statistic of pairs).
"""

from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from lib.analysis import comparisons, generalisation, task_models, variance
from lib.analysis.accuracy import at_best, grade
from lib.analysis.attempts import TASK, attempts
from lib.analysis.claims_tenet import scale_of
from lib.analysis.errors import error_rates
from lib.analysis.linear import CONFIDENCE
from lib.results.claims import Finding, Judges, Scale, largest, share, smallest, unable
from lib.results.factorial import ATTEMPT, COMPLETED, DIVERGED, empty

LARGE = 0.7
"""Explained variance that the text calls substantial."""
ROBUST = ("exponential", "antisymmetric", "unicornn")
"""The architectures that the text found to have hardly any error."""

judges = Judges("factorial")


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
        """The same, those that are not at h* marked as left out."""
        return at_best(self.frame)

    @cached_property
    def first(self) -> task_models.TaskFits:
        """Fits of (1.8)."""
        return task_models.fit_first_order(self.frame, reference=self.reference)

    @cached_property
    def second(self) -> task_models.TaskFits:
        """Fits of (1.11)."""
        return task_models.fit_second_order(self.frame, reference=self.reference)

    @cached_property
    def second_pairs(self) -> pd.DataFrame:
        """Pairwise tests of (1.11)."""
        return comparisons.compare_tasks(self.second.coefficients)

    def rates(self, architectures: tuple[str, ...], by: list[str]) -> list[Finding]:
        """Return the error rates of architectures."""
        design = attempts(self.ds)
        table = error_rates(
            design[design["architecture"].isin(architectures)], by=[*by, "architecture"]
        )
        return [share(row.diverged, row.entered, self.scale) for row in table.itertuples()]


def _judge(claim: str, *, false: Callable[[np.random.Generator], Evidence]):
    """Make a function of `Evidence` the judge of a claim."""

    def register(function: Callable[[Evidence], Finding]) -> Callable:
        def judge(evidence: xr.Dataset | Evidence) -> Finding:
            evidence = evidence if isinstance(evidence, Evidence) else Evidence(evidence)
            try:
                return function(evidence)
            except ValueError as refusal:  # nothing to fit, and the message says why
                return unable(str(refusal), evidence.scale)

        judges.add(claim, judge, false=false)
        return function

    return register


def _share_of_pairs(pairs: pd.DataFrame, scale: Scale) -> Finding:
    """Return the share of pairs that differ, mean over coefficients, with the interval of the jackknife over tasks."""
    if pairs.empty:
        return unable("no pair of tasks could be tested", scale)
    tasks = [
        pd.MultiIndex.from_frame(pairs[[f"{name}_{side}" for name in TASK]]) for side in (1, 2)
    ]
    codes, known = pd.factorize(tasks[0].append(tasks[1]))
    first, second = codes[: len(pairs)], codes[len(pairs) :]
    differs = (pairs["rejected"] & pairs["robust_rejected"]).to_numpy(float)
    term = pairs.groupby(comparisons.TERM, sort=False).ngroup().to_numpy()

    def mean(keep: np.ndarray) -> float:
        counts = np.bincount(term[keep], minlength=term.max() + 1)
        found = np.bincount(term[keep], weights=differs[keep], minlength=term.max() + 1)
        return float(np.mean(found[counts > 0] / counts[counts > 0]))

    whole = mean(np.ones(len(pairs), bool))
    if len(known) < 4:
        return unable(f"{len(known)} tasks are too few for an interval", scale)
    without = np.array([mean((first != t) & (second != t)) for t in range(len(known))])
    error = np.sqrt((len(known) - 1) * np.mean((without - without.mean()) ** 2))
    reach = stats.t.isf((1 - CONFIDENCE) / 2, len(known) - 1) * error
    return Finding(whole, whole - reach, whole + reach, scale)


def _share_of_tests(table: pd.DataFrame, scale: Scale) -> Finding:
    made = table[table["p_value"].notna()]
    if made.empty:
        return unable(table["cause"].iloc[0], scale)
    return share(int((made["p_bonferroni"] < comparisons.LEVEL).sum()), len(made), scale)


def _share_explained(fits: task_models.TaskFits, scale: Scale) -> Finding:
    explained = fits.summary["adj_r2"].dropna()
    return share(int((explained > LARGE).sum()), len(explained), scale)


@lru_cache(maxsize=120)
def _drawn(seed: int, failing: tuple[str, ...]) -> Evidence:
    """Draw results in which every behaviour is the same at all tasks, apart from noise, and some architectures fail."""
    levels = {
        "architecture": [*ROBUST, "rnn", "lstm", "gru", "lipschitz"],
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
    fails = np.isin(ds["architecture"].values, failing).reshape(-1, *[1] * (len(shape) - 1))
    status = np.where(fails & (rng.random(shape) < 0.15), DIVERGED, COMPLETED)
    ds["status"][:], ds["classes"][:] = status, 2
    ds["epochs_completed"][:] = np.where(
        status == COMPLETED,
        ds["training_length"].broadcast_like(ds["status"]).transpose(*ATTEMPT),
        0,
    )
    # Noise differs from architecture to architecture, which is no difference between tasks.
    spread = rng.uniform(0.02, 0.06, (shape[0], *[1] * len(shape)))
    values = 0.75 + spread[..., None] * rng.standard_normal((*shape, 2, 4))
    reached = (ds["epoch"] <= ds["epochs_completed"]).transpose(*ATTEMPT, "epoch")
    ds["accuracy"][:] = np.where(reached.values[..., None, :], np.clip(values, 0, 1), np.nan)
    return Evidence(ds)


def _alike(rng: np.random.Generator) -> Evidence:
    return _drawn(int(rng.integers(2**31)), ())


def _robust_fail(rng: np.random.Generator) -> Evidence:
    return _drawn(int(rng.integers(2**31)), ROBUST)


@_judge("diss-1.4-first-order-accuracy", false=_alike)
def first_order(evidence: Evidence) -> Finding:
    effects = evidence.first.coefficients
    return _share_of_pairs(comparisons.compare_tasks(effects), evidence.scale)


@_judge("diss-1.4-variance", false=_alike)
def variances(evidence: Evidence) -> Finding:
    table = variance.compare_variances(evidence.best)
    return _share_of_tests(table[table["test"] == "levene"], evidence.scale)


@_judge("diss-1.4-convergence", false=_alike)
def convergence(evidence: Evidence) -> Finding:
    times = comparisons.convergence_times(evidence.ds, evidence.best)
    return _share_of_tests(comparisons.compare_times(evidence.frame, times), evidence.scale)


def _of_effect(effect: str) -> Callable[[Evidence], Finding]:
    def judge(evidence: Evidence) -> Finding:
        pairs = evidence.second_pairs
        return _share_of_pairs(pairs[generalisation.effect_of(pairs) == effect], evidence.scale)

    return judge


for _name, _effect in zip(
    ("architecture", "hyperparameters", "interactions"), generalisation.EFFECTS, strict=True
):
    _judge(f"diss-1.4-second-order-{_name}", false=_alike)(_of_effect(_effect))


@_judge("diss-1.4-error-rate", false=_robust_fail)
def failures_by_task(evidence: Evidence) -> Finding:
    return largest(evidence.rates(ROBUST, list(TASK)))


@_judge("diss-1.5.1-variance-explained", false=_alike)
def first_order_explains(evidence: Evidence) -> Finding:
    return _share_explained(evidence.first, evidence.scale)


@_judge("diss-1.5.2-variance-explained", false=_alike)
def second_order_explains(evidence: Evidence) -> Finding:
    return _share_explained(evidence.second, evidence.scale)


@_judge("diss-1.5.2-robust", false=_robust_fail)
def robust(evidence: Evidence) -> Finding:
    return largest(evidence.rates(ROBUST, []))


@_judge("diss-1.5.2-fragile", false=_alike)
def fragile(evidence: Evidence) -> Finding:
    others = tuple(
        name for name in evidence.ds["architecture"].values.tolist() if name not in ROBUST
    )
    return smallest(evidence.rates(others, []))
