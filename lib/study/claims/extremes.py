"""The smallest and the largest of several estimates, which decide claims about all of them."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from scipy import stats

from study.claims.estimates import Cause, Estimate, Scale, gather, not_testable
from study.claims.region import Region
from study.stats.power import CONFIDENCE, TAIL


def smallest(estimates: Iterable[Estimate]) -> Estimate:
    """Estimate the smallest of several quantities, for claims that all of them exceed a threshold.

    The lower end of the interval is the smallest of the lower ends. If it exceeds the threshold,
    all quantities do, with the error rate of a single test (an intersection-union test). The upper
    end is the smallest of the upper ends. If it is below the threshold, at least one quantity is.
    Since that could be any of them, the upper ends are first widened by Bonferroni's correction.

    Parameters
    ----------
    estimates
        Estimates in the same unit.

    Returns
    -------
    Estimate
        With the given estimates as its `parts`. The first estimate without an interval, if there
        is one, because then the extreme is unknown.
    """
    return _extreme(list(estimates), -1)


def largest(estimates: Iterable[Estimate]) -> Estimate:
    """Estimate the largest of several quantities, for claims that all stay below a threshold.

    See `smallest`, with lower and upper ends exchanged.

    Parameters
    ----------
    estimates
        Estimates in the same unit.

    Returns
    -------
    Estimate
        With the given estimates as its `parts`. The first estimate without an interval, if there
        is one, because then the extreme is unknown.
    """
    return _extreme(list(estimates), 1)


def _extreme(estimates: list[Estimate], sign: int) -> Estimate:
    """Return the largest (sign 1) or the smallest (sign -1) of some estimates."""
    if not estimates:
        return not_testable("nothing was measured", Cause.NO_DATA)
    for estimate in estimates:
        if math.isnan(estimate.low):
            return estimate
    outer = []  # ends on the side of the extreme
    inner = []  # ends on the other side
    for estimate in estimates:
        if sign > 0:
            outer.append(estimate.high)
        else:
            outer.append(estimate.low)
        inner.append(_bonferroni_end(estimate, len(estimates), sign))
    ends = [_extreme_number(outer, sign), _extreme_number(inner, sign)]
    deciding = max(estimates, key=lambda estimate: sign * estimate.value)
    parts: list[Estimate] = []
    for estimate in estimates:
        parts.extend(estimate.parts or (estimate,))
    about = None
    if len(estimates) > 1:  # of a single comparison the claim itself says what it is about
        about = deciding.about
    trials = [estimate.n for estimate in estimates]
    smallest_n = None
    if None not in trials:
        smallest_n = min(trials)
    return Estimate(
        deciding.value,
        min(ends),
        max(ends),
        _joint_scale(deciding.scale, [estimate.scale for estimate in estimates]),
        n=smallest_n,
        notes=gather(*(estimate.notes for estimate in estimates)),
        ratio=all(estimate.ratio for estimate in estimates),
        about=about,
        parts=tuple(parts),
        df=deciding.df,
        sampled=deciding.sampled,
        power_at=_joint_power(estimates),
    )


def _joint_scale(deciding: Scale, scales: list[Scale]) -> Scale:
    """Return the size of the deciding experiment, with the data and remarks of all of them."""
    data = dict.fromkeys(scale.data for scale in scales if scale.data)
    steps = [scale.steps for scale in scales if scale.steps is not None]
    return replace(
        deciding,
        data=", ".join(data) or None,
        steps=min(steps, default=None),
        at_edge=gather(*(scale.at_edge for scale in scales)),
        at_chance=gather(*(scale.at_chance for scale in scales)),
    )


def _extreme_number(values: list[float], sign: int) -> float:
    return sign * max(sign * value for value in values)


def _bonferroni_end(estimate: Estimate, count: int, sign: int) -> float:
    """Return the inner end of an interval, widened for `count` simultaneous intervals."""
    if estimate.exact:
        low, high = estimate.exact.interval(1 - (1 - CONFIDENCE) / count)
        return _inner_end(low, high, sign)
    end = _inner_end(estimate.low, estimate.high, sign)
    value = estimate.value
    wider = stats.t.isf(TAIL / count, estimate.df) / stats.t.isf(TAIL, estimate.df)
    if estimate.ratio and value > 0:  # widened on the scale of the logarithm
        return value * (end / value) ** wider
    return value - wider * (value - end)


def _inner_end(low: float, high: float, sign: int) -> float:
    """Return the end of an interval on the side of the other quantities."""
    if sign > 0:
        return low
    return high


def _joint_power(estimates: list[Estimate]) -> Callable[..., float] | None:
    """Return the product of the functions `Estimate.power_at`; None if one estimate has none.

    It is the probability that all estimates agree, if they are independent.
    """
    powers = [estimate.power_at for estimate in estimates]
    if not all(powers):
        return None

    def power_at(region: Region, truth: float) -> float:
        return math.prod(power_of_part(region, truth) for power_of_part in powers)

    return power_at
