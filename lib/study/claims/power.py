"""The power of an experiment: how often one of its size would agree if the paper were right."""

import math

import numpy as np
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from study.claims.estimates import Estimate
from study.claims.estimators import Z
from study.claims.region import Region
from study.stats.power import CONFIDENCE


def power(estimate: Estimate, region: Region, published: float) -> float:
    """Return the chance that an experiment of this size agrees if `published` is the truth.

    Parameters
    ----------
    estimate
        The experiment's estimate; only the width of its interval counts, or its own `chance`.
    region
        Where the quantity lies if the claim is true.
    published
        The paper's value; for a proportion without one, the best case counts (all, or none).

    Returns
    -------
    float
        Between 0 and 1; ``nan`` if the paper's own number contradicts the claim, or if nothing
        was measured.
    """
    if estimate.n is not None and math.isnan(published):
        published = 1.0 if region.below > 1 else 0.0
    if not region.contains(published, published) or not math.isfinite(estimate.high):
        return math.nan
    if estimate.chance and (not estimate.parts or needs_all_parts(estimate, region, inside=True)):
        return estimate.chance(region, published)
    if estimate.n is not None:
        return chance_of_share(estimate.n, region, published)
    return normal_chance(estimate, region, published)


def chance_of_share(trials: int, region: Region, truth: float) -> float:
    """Return the chance that a proportion agrees.

    Parameters
    ----------
    trials
        Number of trials.
    region
        Where the whole Clopper-Pearson interval must lie.
    truth
        The true proportion.

    Returns
    -------
    float
        Between 0 and 1.
    """
    successes = np.arange(trials + 1)
    low, high = proportion_confint(successes, trials, 1 - CONFIDENCE, "beta")
    agree = (region.above < low) & (high < region.below)
    return float(stats.binom.pmf(successes[agree], trials, truth).sum())


def normal_chance(estimate: Estimate, region: Region, truth: float) -> float:
    """Return the chance that a normal estimate with an interval as wide as this one agrees.

    Parameters
    ----------
    estimate
        Its interval gives the width.
    region
        Where the whole interval must lie.
    truth
        The true value.

    Returns
    -------
    float
        Between 0 and 1.
    """
    (low, value, high, truth), ends = to_symmetric_scale(estimate, region, truth)
    above = high - value
    # The lower end of a ratio may be open.
    below = above if estimate.low == 0 and estimate.ratio else value - low
    error = (below + above) / 2 / Z
    if not error:
        return 1.0
    margins = np.array([below, -above])
    cumulative = stats.norm.cdf(ends + margins - truth, scale=error)
    return float(np.diff(cumulative).clip(0)[0])


def to_symmetric_scale(
    estimate: Estimate, region: Region, *more: float
) -> tuple[np.ndarray, np.ndarray]:
    """Transform an estimate to the scale on which its interval is symmetric.

    Parameters
    ----------
    estimate
        A ratio is transformed to its logarithm, a share of variance to its root (negative for
        negative numbers).
    region
        Its ends are transformed too.
    more
        Further numbers to transform.

    Returns
    -------
    numbers
        Low end, value, high end, and `more`.
    ends
        Lower and upper end of the region.
    """
    numbers = np.array([estimate.low, estimate.value, estimate.high, *more])
    ends = np.array([region.above, region.below])
    if estimate.ratio:
        with np.errstate(divide="ignore"):
            numbers = np.log(numbers.clip(np.finfo(float).tiny))  # zero is a very small ratio
            ends = np.log(ends.clip(0))
    if estimate.of_variance:
        numbers = np.sign(numbers) * np.sqrt(np.abs(numbers))
        ends = np.sign(ends) * np.sqrt(np.abs(ends))
    return numbers, ends


def needs_all_parts(estimate: Estimate, region: Region, inside: bool) -> bool:
    """Return whether lying inside (or outside) the region takes every part of an extreme.

    The largest of several quantities exceeds a bound if one of them does, the smallest if all do.

    Parameters
    ----------
    estimate
        The smallest or the largest of several quantities.
    region
        Where the claim is true.
    inside
        Whether the verdict is that the quantity lies inside.

    Returns
    -------
    bool
    """
    smallest_part = min((part.value for part in estimate.parts), default=math.inf)
    is_largest = estimate.value > smallest_part
    one_suffices_inside = is_largest and region.below == math.inf
    return inside != one_suffices_inside


def distance(estimate: Estimate, region: Region) -> float:
    """Return how far an estimate is from the nearest threshold.

    Parameters
    ----------
    estimate
        The estimate.
    region
        Its ends are the thresholds.

    Returns
    -------
    float
        In standard errors of the estimate.
    """
    (low, value, high), ends = to_symmetric_scale(estimate, region)
    sides = np.where(ends < value, value - low, high - value)
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = np.where(ends == value, 0.0, Z * np.abs(value - ends) / sides)
        return float(np.nanmin(distances))
