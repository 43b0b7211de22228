"""The power of an experiment: how often one of its size would agree if the paper is right."""

import math

import numpy as np
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from study.claims.estimates import Estimate
from study.claims.region import Region
from study.stats.power import CONFIDENCE, TAIL


def power_to_agree(estimate: Estimate, region: Region, published: float) -> float:
    """Return the probability that an experiment of this size agrees if `published` is the truth.

    Parameters
    ----------
    estimate
        The experiment's estimate. Only the width of its interval counts, or its own function
        `power_at` if it has one.
    region
        Where the quantity lies if the claim is true.
    published
        The paper's value; ``nan`` if it gives none. A proportion without a published value counts
        as 1 or 0, whichever favors the claim.

    Returns
    -------
    float
        Between 0 and 1; ``nan`` if there is no published value, if it contradicts the claim, or
        if nothing was measured.
    """
    if estimate.n is not None and math.isnan(published):
        published = 0.0
        if region.below > 1:
            published = 1.0
    if not region.contains(published, published) or not math.isfinite(estimate.high):
        return math.nan
    takes_all = not estimate.parts or needs_all_parts(estimate, region, inside=True)
    if estimate.power_at and takes_all:
        return estimate.power_at(region, published)
    if estimate.n is not None:
        return power_of_proportion(estimate.n, region, published)
    return normal_power(estimate, region, published)


def power_of_proportion(trials: int, region: Region, truth: float) -> float:
    """Return the probability that a proportion agrees.

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


def arm_in_errors(estimate: Estimate) -> float:
    """Return how many standard errors each arm of an estimate's interval has.

    Parameters
    ----------
    estimate
        Its degrees of freedom count.

    Returns
    -------
    float
        The quantile of Student's t distribution: 2.8 for five runs, 1.96 for very many.
    """
    return float(stats.t.isf(TAIL, estimate.df))


def normal_power(estimate: Estimate, region: Region, truth: float) -> float:
    """Return the probability that a normal estimate with an interval of this width agrees.

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
    below = value - low
    if estimate.low == 0 and estimate.ratio:  # no lower end, and minus infinity as a logarithm
        below = above
    error = (below + above) / 2 / arm_in_errors(estimate)
    if not error:
        return 1.0
    # The interval lies inside if the estimate is far enough from both ends of the region.
    least, most = np.add(ends, [below, -above])
    probability = stats.norm.cdf(most, truth, error) - stats.norm.cdf(least, truth, error)
    return max(0.0, float(probability))


def to_symmetric_scale(
    estimate: Estimate, region: Region, *more: float
) -> tuple[np.ndarray, np.ndarray]:
    """Transform an estimate to the scale on which its interval is symmetric.

    Parameters
    ----------
    estimate
        A ratio is transformed to its logarithm, and a share of variance to its square root, which
        keeps the sign of a negative number.
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
    """Return whether a verdict on an extreme of several quantities takes all of them.

    The smallest quantity exceeds a threshold only if all of them do, and it stays below if a single
    one does. The largest exceeds a threshold if a single quantity does, and it stays below only if
    all do.

    Parameters
    ----------
    estimate
        The smallest or the largest of several quantities.
    region
        Where the claim is true.
    inside
        Whether the verdict is that the extreme lies inside the region.

    Returns
    -------
    bool
        False if one of the quantities suffices.
    """
    smallest_part = min((part.value for part in estimate.parts), default=math.inf)
    is_largest = estimate.value > smallest_part
    one_suffices_inside = is_largest and region.below == math.inf
    if inside:
        return not one_suffices_inside
    return one_suffices_inside


def distance(estimate: Estimate, region: Region) -> float:
    """Return how many standard errors an estimate is from the nearest threshold.

    Parameters
    ----------
    estimate
        The estimate.
    region
        Its ends are the thresholds.

    Returns
    -------
    float
        In standard errors. An arm of the interval is `arm_in_errors` of them long.
    """
    (low, value, high), thresholds = to_symmetric_scale(estimate, region)
    arms = np.where(thresholds < value, value - low, high - value)
    with np.errstate(divide="ignore", invalid="ignore"):
        distances_in_se = arm_in_errors(estimate) * np.abs(value - thresholds) / arms
        distances = np.where(thresholds == value, 0.0, distances_in_se)
        return float(np.nanmin(distances))
