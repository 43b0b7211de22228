"""Estimates with their 95% intervals: proportions, odds, means, differences, correlations."""

import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

import numpy as np
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from study.claims.estimates import Cause, Estimate, Exact, Scale, not_testable
from study.claims.region import Region
from study.stats.power import CONFIDENCE, Z


def proportion(successes: int, trials: int, scale: Scale | None = None) -> Estimate:
    """Return a proportion with its exact binomial interval (Clopper and Pearson, 1934).

    Parameters
    ----------
    successes, trials
        Counts; the claim is not testable without a trial.
    scale
        Size of the experiment.

    Returns
    -------
    Estimate
        The proportion, between 0 and 1.
    """
    if not trials:
        return not_testable("there were no trials", Cause.NO_DATA, scale)

    def interval(confidence: float) -> tuple[float, float]:
        low, high = proportion_confint(successes, trials, 1 - confidence, "beta")
        return float(low), float(high)

    def p_value(share: float) -> float:
        drawn = stats.binom(trials, share)
        return _two_sided(drawn.cdf(successes), drawn.sf(successes - 1))

    low, high = interval(CONFIDENCE)
    exact = Exact(interval, p_value)
    return Estimate(successes / trials, low, high, scale or Scale(), trials, exact=exact)


def _two_sided(up_to_count: float, from_count: float) -> float:
    """Return the p-value that belongs to an interval with equal tails.

    The arguments are the probabilities of counts up to the observed one, and from it on.
    """
    return min(1.0, 2 * float(min(up_to_count, from_count)))


def odds_ratio(
    first: tuple[int, int], second: tuple[int, int], scale: Scale | None = None
) -> Estimate:
    """Return the ratio of two odds with its exact interval, given the margins (Fisher, 1935).

    Parameters
    ----------
    first, second
        Successes and trials of each group; the claim is not testable without a trial in one, or
        without both a success and a failure.
    scale
        Size of the experiment.

    Returns
    -------
    Estimate
        The odds of success in the first group over those in the second.
    """
    successes = (first[0], second[0])
    failures = (first[1] - first[0], second[1] - second[0])
    if not first[1] or not second[1]:
        return not_testable("one of the two groups is empty", Cause.NO_DATA, scale)
    if not sum(successes) or not sum(failures):
        return not_testable("all trials of both groups have the same outcome", Cause.PREMISE, scale)
    value, low, high = _conditional_odds(first, second)

    def interval(confidence: float) -> tuple[float, float]:
        _, below, above = _conditional_odds(first, second, confidence)
        return below, above

    def p_value(ratio: float) -> float:
        total = first[1] + second[1]
        drawn = stats.nchypergeom_fisher(total, first[1], sum(successes), ratio)
        return _two_sided(drawn.cdf(first[0]), drawn.sf(first[0] - 1))

    def ends(count: int) -> tuple[float, float]:
        """Return the ends of the interval if the first group had this many successes."""
        _, below, above = _conditional_odds((count, first[1]), second)
        return below, above

    def power_at(region: Region, truth: float) -> float:
        """Return the probability that the interval lies in the region if `truth` is the ratio."""
        counts = range(first[1] + 1)
        # Both ends rise with the count, so the counts that agree are neighbors.
        least = bisect_left(counts, True, key=lambda count: ends(count)[0] > region.above)
        beyond = bisect_left(counts, True, key=lambda count: ends(count)[1] > region.below)
        odds = truth * second[0] / max(failures[1], 0.5)
        drawn = stats.binom(first[1], odds / (1 + odds))
        return max(0.0, float(drawn.cdf(beyond - 1) - drawn.cdf(least - 1)))

    exact = Exact(interval, p_value)
    return Estimate(value, low, high, scale or Scale(), ratio=True, exact=exact, power_at=power_at)


@cache
def _conditional_odds(
    first: tuple[int, int], second: tuple[int, int], confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Return the conditional maximum-likelihood odds ratio and the ends of its interval."""
    successes = [first[0], second[0]]
    failures = [first[1] - first[0], second[1] - second[0]]
    result = stats.contingency.odds_ratio(np.array([successes, failures]))
    interval = result.confidence_interval(confidence)
    return float(result.statistic), float(interval.low), float(interval.high)


def mean(values: Iterable[float], scale: Scale | None = None) -> Estimate:
    """Return the mean of independent values with Student's t interval.

    Parameters
    ----------
    values
        At least two finite numbers; with fewer the claim is not testable.
    scale
        Size of the experiment.

    Returns
    -------
    Estimate
        In the unit of the values.
    """
    values = np.asarray(list(values), float)
    refusal = _refuse_interval(scale, values)
    if refusal:
        return refusal
    value = float(values.mean())
    if np.ptp(values) == 0:
        return Estimate(value, value, value, scale or Scale(), df=len(values) - 1)
    test = _run_quietly(stats.ttest_1samp, values, 0.0)
    low, high = test.confidence_interval(CONFIDENCE)
    return Estimate(value, float(low), float(high), scale or Scale(), df=float(test.df))


def geometric_mean(values: Iterable[float], scale: Scale | None = None) -> Estimate:
    """Return the geometric mean of positive values with the interval of their logarithms.

    Parameters
    ----------
    values
        At least two positive numbers.
    scale
        Size of the experiment.

    Returns
    -------
    Estimate
        A ratio.
    """
    with np.errstate(divide="ignore"):  # the logarithm of zero is refused with a reason
        logs = np.log(np.asarray(list(values), float))
    return exponential(mean(logs, scale))


def difference(
    first: Iterable[float], second: Iterable[float], scale: Scale | None = None
) -> Estimate:
    """Return the difference of two means with Welch's interval.

    Parameters
    ----------
    first, second
        At least two finite values each.
    scale
        Size of the experiment.

    Returns
    -------
    Estimate
        Mean of `first` minus mean of `second`.
    """
    first = np.asarray(list(first), float)
    second = np.asarray(list(second), float)
    refusal = _refuse_interval(scale, first, second)
    if refusal:
        return refusal
    value = float(first.mean() - second.mean())
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return Estimate(value, value, value, scale or Scale())
    test = _run_quietly(stats.ttest_ind, first, second, equal_var=False)
    low, high = test.confidence_interval(CONFIDENCE)
    return Estimate(value, float(low), float(high), scale or Scale(), df=float(test.df))


def correlation(
    first: Iterable[float], second: Iterable[float], scale: Scale | None = None
) -> Estimate:
    """Return Spearman's rank correlation with an interval.

    Parameters
    ----------
    first, second
        At least five pairs of numbers that vary.
    scale
        Size of the experiment.

    Returns
    -------
    Estimate
        Between -1 and 1, with Fisher's interval, widened for ranks (Bonett and Wright, 2000).
    """
    first = np.asarray(list(first), float)
    second = np.asarray(list(second), float)
    if np.isnan([first, second]).any():
        return not_testable("some points have a missing value", Cause.NO_DATA, scale)
    if len(first) < 5 or np.ptp(first) == 0 or np.ptp(second) == 0:
        reason = f"a correlation needs at least five points that vary, got {len(first)}"
        return not_testable(reason, Cause.TOO_SMALL, scale)
    rho = float(stats.spearmanr(first, second).statistic)
    transformed = math.atanh(np.clip(rho, -0.999999, 0.999999))
    error = math.sqrt((1 + rho**2 / 2) / (len(first) - 3))

    def interval(confidence: float) -> tuple[float, float]:
        half = error * stats.norm.isf((1 - confidence) / 2)
        return math.tanh(transformed - half), math.tanh(transformed + half)

    def p_value(null: float) -> float:
        if abs(null) >= 1:
            return 0.0
        return float(2 * stats.norm.sf(abs(transformed - math.atanh(null)) / error))

    low, high = interval(CONFIDENCE)
    return Estimate(rho, low, high, scale or Scale(), exact=Exact(interval, p_value))


def _run_quietly(test: Callable, *samples: object, **options: object):
    """Run a t-test without scipy's warning about nearly equal values, which are legitimate here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        return test(*samples, **options)


def _refuse_interval(scale: Scale | None, *sides: np.ndarray) -> Estimate | None:
    """Return an estimate without a value if these values give no interval; None if they do."""
    if min(len(side) for side in sides) < 2:
        return not_testable("an interval needs at least two runs", Cause.NO_SEEDS, scale)
    values = np.concatenate(sides)
    bad = int((~np.isfinite(values)).sum())
    if bad:
        reason = f"{bad} of {len(values)} runs gave no finite value"
        return not_testable(reason, Cause.PREMISE, scale)
    return None


def exponential(logarithm: Estimate) -> Estimate:
    """Exponentiate an estimate on the log scale, which makes it a ratio.

    Parameters
    ----------
    logarithm
        An estimate of a logarithm.

    Returns
    -------
    Estimate
        A ratio.
    """
    return replace(
        logarithm,
        value=math.exp(logarithm.value),
        low=math.exp(logarithm.low),
        high=math.exp(logarithm.high),
        ratio=True,
    )


def add_standard_error(estimate: Estimate, error: float) -> Estimate:
    """Widen the interval of an estimate by an additional, known standard error.

    Parameters
    ----------
    estimate
        An estimate whose interval covers only the variation between runs.
    error
        Standard error from the finite test set, in the unit of the estimate.

    Returns
    -------
    Estimate
        Its degrees of freedom are those of Welch and Satterthwaite, with infinitely many for
        `error`.
    """
    below = math.hypot(estimate.value - estimate.low, Z * error)
    above = math.hypot(estimate.high - estimate.value, Z * error)
    sampled = 0.0
    if error:
        sampled = float((2 * Z * error / (below + above)) ** 2)
    df = estimate.df / max(1 - sampled, 1e-9) ** 2
    low = estimate.value - below
    high = estimate.value + above
    return replace(estimate, low=low, high=high, sampled=sampled, df=df)
