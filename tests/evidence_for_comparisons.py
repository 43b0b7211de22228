"""Groups of runs in which a claim of the list is true, or false.

A claim names its estimator (`study.claims.estimating.ESTIMATORS`). Each kind of estimator has its
own function here, which draws runs in which the estimated quantity has a given value.
"""

import math
import re
from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
import xarray as xr
from random_groups import MEASURES, RECORD, Measure, group_sampler
from study.claims.claim import Claim, Comparison, NetworkSelection
from study.results.networks import BIN_WIDTH

RATIOS = (
    "ratio",
    "longer",
    "share_of_chance",
    "memoryless",
    "deviation",
    "steps_needed",
    "span",
    "decay",
)
"""Estimators whose quantity is a ratio."""
OF_ERRORS = ("ratio", "steps_needed", "longer", "share_of_chance", "memoryless")
"""Estimators that are about errors if a claim names no measure."""
Levels = dict[NetworkSelection, float]
"""Mean scores of networks."""


class Case(NamedTuple):
    """A claim, and what its evidence is to say about it."""

    claim: Claim
    true: bool
    value: float
    """The claim's quantity: inside its region, or on its threshold or beyond."""
    measure: str
    rng: np.random.Generator
    replicates: int

    @property
    def comparison(self) -> Comparison:
        return self.claim.comparison

    @property
    def estimator(self) -> str:
        return self.claim.comparison.estimator

    @property
    def scale(self) -> Measure:
        return MEASURES[self.measure]

    @property
    def spread(self) -> float:
        """Standard deviation over runs; larger if the claim is false."""
        return self.scale.spread * (1 if self.true else 4)


def evidence(
    claim: Claim, rng: np.random.Generator, *, true: bool, replicates: int = 6
) -> xr.Dataset:
    """Draw a group in which a claim is true, or false, on its threshold or beyond.

    Parameters
    ----------
    claim
        One with a comparison.
    rng
        Source of all random numbers.
    true
        Whether the claim is true in the group.
    replicates
        Runs of each network.

    Returns
    -------
    xr.Dataset
        The group.
    """
    estimator = claim.comparison.estimator
    value = _quantity(claim, rng, true)
    measure = claim.comparison.measure
    if not measure:
        measure = "error" if estimator in OF_ERRORS else "accuracy"
    case = Case(claim, true, value, measure, rng, replicates)
    return DRAW.get(estimator, _draw_compared)(case)


def _quantity(claim: Claim, rng: np.random.Generator, true: bool) -> float:
    """Return a value well inside the claim's region, or on its threshold or beyond."""
    estimator = claim.comparison.estimator
    region = claim.region
    ratio = estimator in RATIOS
    if true and region.bounded:
        if ratio:
            return math.sqrt(region.above * region.below)
        return (region.above + region.below) / 2
    if math.isfinite(region.above):
        threshold = region.above
        sign = 1
    else:
        threshold = region.below
        sign = -1
    if not true:
        if region.bounded and rng.uniform() < 0.5:
            threshold = region.below
            sign = -1
        sign = -sign
    if estimator == "deviation":
        return threshold * (0.15 if true else rng.uniform(2, 4))
    if ratio:
        return threshold * math.exp(sign * (0.7 if true else rng.uniform(0, 0.5)))
    if estimator == "apart" and sign < 0:
        return 0.02 * threshold if true else threshold - rng.uniform(0, 0.5 * threshold)
    size = {"over_chance": 5.0, "gain": 1.0, "decades": 1.0}.get(estimator, 8.0)
    return threshold + sign * size * (1 if true else rng.uniform(0, 1))


# A group of given levels


def _draw_group(case: Case, levels: Levels, spread: float) -> xr.Dataset:
    """Draw a group whose networks have these mean scores on every task of the claim."""
    comparison = case.comparison
    tasks, lengths = _tasks(comparison)
    scores = _scores(levels, tasks, case.measure)
    for _, task in scores:
        lengths.setdefault(task, 100 * (len(lengths) + 1))
    if comparison.paper_length:
        lengths |= dict.fromkeys([task for _, task in scores], comparison.paper_length)
    settings = [_setting(label, comparison) for label, _ in scores]
    draw = group_sampler(
        scores,
        spread=spread,
        measure=case.measure,
        guess=case.scale.chance,
        time_steps=lengths,
        test_sequences=10**6 if case.true else 4000,
        padding=[8.0] * len(scores),
        dt=settings,
        alpha=settings,
        start=settings,
    )
    ds = draw(case.rng, case.replicates)
    return ds.assign(steps=ds["steps"].clip(np.nan_to_num(comparison.steps)))


def _tasks(comparison: Comparison) -> tuple[list[str], dict[str, int]]:
    """Return the names of tasks that a claim is about, and their lengths if it asks for them."""
    condition = comparison.tasks_where
    if condition is None:
        return list(comparison.tasks), {}
    if condition.column == "padding":
        return ["Pad8x", "Pad12x"], {}
    lengths = [2000, 5000] if math.isinf(condition.at_most) else [250, 500, 2000]
    return [f"N={n}" for n in lengths], {f"N={n}": n for n in lengths}


def _scores(levels: Levels, tasks: list[str], measure: str) -> dict[tuple[str, str], float]:
    """Return the score of every run by label and task."""
    scores = {}
    for name, score in levels.items():
        for part in (name, *name.pooled):
            for task in [part.task] if part.task else tasks:
                if part.best:  # two settings, of which the first is worse
                    worse = score - 20 if measure == "accuracy" else 2 * score
                    scores[f"{part.label}, {part.best}=1", task] = worse
                    scores[f"{part.label}, {part.best}=2", task] = score
                else:
                    scores[part.label, task] = score
    return scores


def _setting(label: str, comparison: Comparison) -> float:
    """Return the number that a label gives a network, or the paper's time step for it."""
    named = re.search(r", (?:dt|alpha|start)=([\d.]+)", label)
    if named:
        return float(named[1])
    return comparison.paper_dt.get(label, 0.19)


def _networks(comparison: Comparison) -> list[NetworkSelection]:
    """Return the networks that a claim is about."""
    return list(comparison.networks) or [first for first, _ in comparison.pairs]


def _pairs(comparison: Comparison) -> list[tuple[NetworkSelection, NetworkSelection | None]]:
    """Return the networks that a claim compares; None stands for no second network."""
    if comparison.pairs:
        return list(comparison.pairs)
    others = comparison.others
    if others == "all":
        others = [NetworkSelection(label=name) for name in ("other", "another")]
    return list(product(comparison.networks, others or [None]))


def _paired_levels(case: Case) -> Levels:
    """Return scores such that each of a pair is `value` times, or so much above, the other."""
    ratio = case.estimator in ("ratio", "longer")
    step = case.value
    if not ratio:
        sign = 1 if case.measure == "accuracy" else -1
        step = sign * case.scale.unit * case.value
    levels = {}
    for first, second in _pairs(case.comparison):
        if first in levels and second not in levels:
            levels[second] = levels[first] / step if ratio else levels[first] - step
        levels.setdefault(second, case.scale.typical)
        levels.setdefault(first, levels[second] * step if ratio else levels[second] + step)
    levels.pop(None, None)
    return levels


# Each kind of estimator


def _draw_compared(case: Case) -> xr.Dataset:
    """Draw networks whose scores differ."""
    return _draw_group(case, _paired_levels(case), case.spread)


def _draw_spread(case: Case) -> xr.Dataset:
    """Draw networks whose runs differ."""
    level = case.comparison.paper_accuracy or case.scale.typical
    return _draw_group(case, dict.fromkeys(_networks(case.comparison), level), case.value)


def _draw_near_chance(case: Case) -> xr.Dataset:
    """Draw networks near chance, next to others that learned."""
    comparison = case.comparison
    chance = case.scale.chance
    learned = [name for name in (comparison.control, "another") if name not in ("", "any")]
    levels = {NetworkSelection(label=name): case.scale.typical for name in learned}
    level = chance + case.value if case.estimator == "over_chance" else chance * case.value
    levels |= dict.fromkeys(_networks(comparison), level)
    return _draw_group(case, levels, case.spread)


def _draw_near_chance_at_three_rates(case: Case) -> xr.Dataset:
    """Draw networks near chance, the same at three learning rates."""
    ds = _draw_near_chance(case)
    parts = []
    for rate in (0.03, 0.01, 0.1):
        part = ds.assign(learning_rate=("run", np.full(ds.sizes["run"], rate)))
        names = [f"{run}, {rate:g}" for run in ds["run"].values]
        parts.append(part.assign_coords(run=names))
    return xr.concat(parts, "run", data_vars="minimal")


def _draw_memoryless(case: Case) -> xr.Dataset:
    """Draw networks whose loss is `value` times that of an answer without memory."""
    ds = _draw_near_chance(case)
    loss = case.value * 10 * math.log(8) / ds["time_steps"] * (1 + 0 * ds["test_loss"])
    return ds.assign(test_loss=loss * case.rng.uniform(0.97, 1.03, loss.shape))


def _draw_equal(case: Case, levels: Mapping[NetworkSelection, float]) -> xr.Dataset:
    """Draw these networks with equal scores."""
    return _draw_group(case, dict.fromkeys(levels, case.scale.typical), case.spread)


def _draw_solving(case: Case) -> xr.Dataset:
    """Draw 200 records in which each network solves the adding problem at its own step."""
    levels = _paired_levels(case)
    ds = _draw_equal(case, levels)
    if case.estimator == "steps_needed":
        solved_at = np.full(ds.sizes["run"], case.value)
    else:
        solved_at = _steps_in_proportion(ds, levels)
    runs = ds.sizes["run"]
    replicates = ds.sizes["replicate"]
    shape = (runs, replicates, 200)
    step = np.broadcast_to(np.arange(1, 201) * max(solved_at.max() / 100, 1.0), shape)
    noise = 0.03 * case.rng.standard_normal((runs, replicates, 1))
    first = solved_at[:, None, None] * np.exp(noise)
    loss = np.where(step < first, 0.1, 0.002)
    records = {"step": (RECORD, step), "records": (RECORD[:2], np.full(shape[:2], 200))}
    for part in ("test", "validation"):
        records |= {f"{part}_loss": (RECORD, loss), f"{part}_metric": (RECORD, np.sqrt(loss))}
    return ds.drop_dims("record").assign(records | {"guess_metric": ("run", [1.0] * runs)})


def _steps_in_proportion(ds: xr.Dataset, levels: Levels) -> np.ndarray:
    """Return the step at which each run solves its task: 100 for the lowest level."""
    lowest = min(levels.values())
    longest = ds["time_steps"].values.max()
    steps = np.full(ds.sizes["run"], 100.0)
    for run, label in enumerate(ds["label"].values):
        length = "longest" if ds["time_steps"].values[run] == longest else "shortest"
        names = [NetworkSelection(label=label), NetworkSelection(label=label, length=length)]
        known = [levels[name] for name in names if name in levels]
        if known:
            steps[run] = 100 * known[0] / lowest
    return steps


def _draw_gains(case: Case) -> xr.Dataset:
    """Draw networks whose losses differ in the gain of their gradients."""
    ((first, second),) = _pairs(case.comparison)
    ds = _draw_equal(case, _paired_levels(case))
    lower = 0.5 if second else 0.0
    higher = lower * case.value if second and case.estimator == "decay" else lower + case.value
    gains = {first.label: higher}
    if second:
        gains[second.label] = lower
    gain = np.array([gains.get(label, 0.0) for label in ds["label"].values])[:, None, None]
    noise = case.rng.normal(0, 0.02, (2, *ds["test_loss"].shape))
    return ds.assign(gain_first=(RECORD, gain + noise[0]), gain_last=(RECORD, noise[1]))


def _draw_alike(case: Case) -> xr.Dataset:
    """Draw the networks of a claim with equal scores."""
    return _draw_equal(case, dict.fromkeys(_networks(case.comparison), 0.0))


def _draw_trend(case: Case) -> xr.Dataset:
    """Draw networks whose accuracy rises with the length of the task, or does not."""
    ds = _draw_alike(case)
    rise = 30 if case.true else 0
    slope = ds["time_steps"] / ds["time_steps"].max() * rise
    noise = 0.02 * case.rng.standard_normal(ds["test_metric"].shape)
    metric = ds["test_metric"] + noise + slope / 100
    return ds.assign(test_metric=metric.transpose(*RECORD))


def _draw_stepping(case: Case) -> xr.Dataset:
    """Draw networks whose time steps, of two kinds, have shares by class that follow a law."""
    ds = _draw_alike(case)
    decade = np.round(np.arange(-6, 1, BIN_WIDTH), 1)
    time_step = 10 ** (decade + BIN_WIDTH / 2)
    law = _shares(case, time_step, largest=float(ds["dt"].max()))
    untrained = (time_step > 0.3) & (time_step < 0.5)
    shape = (ds.sizes["run"], ds.sizes["replicate"], 1, 2, len(decade))
    stages = [stage * case.rng.uniform(0.9, 1.1, shape) for stage in (untrained, law)]
    shares = np.concatenate(stages, axis=2)
    dims = ("run", "replicate", "stage", "scale", "decade")
    ds = ds.assign(time_step_share=(dims, shares / shares.sum(-1, keepdims=True)))
    return ds.assign_coords(stage=["untrained", "trained"], scale=[0, 1], decade=decade)


def _shares(case: Case, time_step: np.ndarray, largest: float) -> np.ndarray:
    """Return the weight of each class of time steps after training."""
    low = -3.0
    high = 0.3
    if case.estimator == "span":
        low = np.log10(largest / case.value)
        high = np.log10(largest)
    if case.estimator == "decades":
        low = -case.value
        high = 0.0
    inside = (np.log10(time_step) > low) & (np.log10(time_step) < high)
    if case.estimator == "peak":
        peak = np.exp(-(np.log10(time_step / 0.02) ** 2) / 0.02)
        return inside * (0.1 * time_step + case.true * peak)
    if case.estimator == "power_law":
        fall = time_step**-1.5 if case.true else np.exp(-5 * time_step)
        return inside * time_step * fall
    return inside.astype(float)


DRAW = {
    "deviation": _draw_spread,
    "over_chance": _draw_near_chance_at_three_rates,
    "share_of_chance": _draw_near_chance_at_three_rates,
    "memoryless": _draw_memoryless,
    "steps_needed": _draw_solving,
    "longer": _draw_solving,
    "gain": _draw_gains,
    "decay": _draw_gains,
    "trend": _draw_trend,
    "peak": _draw_stepping,
    "span": _draw_stepping,
    "decades": _draw_stepping,
    "power_law": _draw_stepping,
}
"""The function for each estimator; all others compare networks."""
