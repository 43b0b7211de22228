"""The smallest and the largest of several estimates, which decide claims about all of them."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from scipy import stats

from study.claims.estimates import TAIL, Cause, Estimate, unable


def smallest(estimates: Iterable[Estimate]) -> Estimate:
    """Return the smallest of several quantities: it exceeds a bound if all of them do.

    "All exceed it" rests on the smallest lower end, and errs no more often than a test of a
    single quantity (an intersection-union test). "One does not" could be any of them, so the
    upper ends are widened after Bonferroni.

    Parameters
    ----------
    estimates
        Estimates in the same unit.

    Returns
    -------
    Estimate
        With the estimates as its `parts`. If one of them is unknown, so is the smallest.
    """
    return _extreme(list(estimates), -1)


def largest(estimates: Iterable[Estimate]) -> Estimate:
    """Return the largest of several quantities, as `smallest` does.

    It stays below a bound if all of them do.

    Parameters
    ----------
    estimates
        Estimates in the same unit.

    Returns
    -------
    Estimate
        With the estimates as its `parts`. If one of them is unknown, so is the largest.
    """
    return _extreme(list(estimates), 1)


def _extreme(estimates: list[Estimate], sign: int) -> Estimate:
    """Return the largest (sign 1) or the smallest (sign -1) of some estimates."""
    if not estimates:
        return unable("nothing was measured", Cause.NO_DATA)
    for estimate in estimates:
        if math.isnan(estimate.low):
            return estimate
    outer = []
    inner = []
    for estimate in estimates:
        outer.append(estimate.high if sign > 0 else estimate.low)
        inner.append(_bonferroni_end(estimate, len(estimates), sign))
    ends = [_extreme_number(outer, sign), _extreme_number(inner, sign)]
    deciding = max(estimates, key=lambda estimate: sign * estimate.value)
    data = dict.fromkeys(one.scale.data for one in estimates if one.scale.data)
    steps = [one.scale.steps for one in estimates if one.scale.steps is not None]
    scale = replace(
        deciding.scale,
        data=", ".join(data) or None,
        steps=min(steps, default=None),
        at_edge=_joined(one.scale.at_edge for one in estimates) or None,
        at_chance=_joined(one.scale.at_chance for one in estimates) or None,
    )
    parts: list[Estimate] = []
    for estimate in estimates:
        parts.extend(estimate.parts or (estimate,))
    trials = [estimate.n for estimate in estimates]
    return Estimate(
        deciding.value,
        min(ends),
        max(ends),
        scale,
        n=None if None in trials else min(trials),
        note=_joined(one.note for one in estimates),
        ratio=all(estimate.ratio for estimate in estimates),
        parts=tuple(parts),
        df=deciding.df,
        sampled=deciding.sampled,
        chance=_joint_chance(estimates),
    )


def _joined(texts: Iterable[str | None]) -> str:
    """Join texts of entries separated by semicolons into one, with each entry once."""
    entries: dict[str, None] = {}
    for text in texts:
        entries.update(dict.fromkeys((text or "").split("; ")))
    return "; ".join(entry for entry in entries if entry)


def _extreme_number(values: list[float], sign: int) -> float:
    return sign * max(sign * value for value in values)


def _bonferroni_end(estimate: Estimate, count: int, sign: int) -> float:
    """Return the inner end of an interval, widened for `count` simultaneous intervals."""
    end = estimate.low if sign > 0 else estimate.high
    value = estimate.value
    wider = stats.t.isf(TAIL / count, estimate.df) / stats.t.isf(TAIL, estimate.df)
    if estimate.ratio and value > 0:  # widened on the scale of the logarithm
        return value * (end / value) ** wider
    return value - wider * (value - end)


def _joint_chance(estimates: list[Estimate]) -> Callable[..., float] | None:
    """Return the chance that all agree, if each of them says its own."""
    chances = [estimate.chance for estimate in estimates]
    if not all(chances):
        return None

    def chance(*arguments: object) -> float:
        return math.prod(one(*arguments) for one in chances)

    return chance
