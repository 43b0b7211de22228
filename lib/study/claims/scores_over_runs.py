"""How the score of a network varies over runs: the estimators deviation and trend."""

import math
from typing import NamedTuple

from scipy.stats import chi2

from study.claims.claim import NetworkRef
from study.claims.estimates import Cause, Estimate, Exact, not_testable
from study.claims.experiment_sizes import scale_of_networks
from study.claims.intervals import correlation
from study.claims.networks import Networks
from study.claims.region import Region
from study.claims.sampling import sampling_variance
from study.stats.power import CONFIDENCE, TAIL

WITH_SAMPLING = (
    "the spread includes that from the draw of the test sequences, which could not be separated"
)
"""Note on a standard deviation over runs."""


class _Spread(NamedTuple):
    """A sample variance over runs, and the standard deviation that it estimates.

    The sample variance over the true one, times `df`, has a chi-squared distribution. The true
    variance is that of the deviation plus the known `noise`.

    Attributes
    ----------
    variance
        The sample variance.
    df
        Its degrees of freedom.
    noise
        The variance that comes from the finite test set.
    factor
        Factor of the deviation, which scales it to the paper's accuracy.
    """

    variance: float
    df: int
    noise: float
    factor: float

    def deviation(self, variance: float) -> float:
        """Return the deviation that a variance leaves after the noise is subtracted."""
        return self.factor * math.sqrt(max(0.0, variance - self.noise))

    def variance_of(self, deviation: float) -> float:
        """Return the variance of scores whose deviation is this one."""
        return (deviation / self.factor) ** 2 + self.noise

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the confidence interval of the deviation."""
        tail = (1 - confidence) / 2
        upper_quantile, lower_quantile = chi2.ppf([1 - tail, tail], self.df)
        low = self.deviation(self.variance * self.df / upper_quantile)
        high = self.deviation(self.variance * self.df / lower_quantile)
        return low, high

    def p_value(self, null: float) -> float:
        """Return the two-sided p-value of a deviation."""
        true_variance = self.variance_of(null)
        if not true_variance:
            return float(self.variance == 0)
        ratio = self.df * self.variance / true_variance
        return 2 * float(min(chi2.cdf(ratio, self.df), chi2.sf(ratio, self.df)))

    def power_at(self, region: Region, truth: float) -> float:
        """Return the probability that the interval lies in the region if `truth` is true."""
        upper_quantile, lower_quantile = chi2.ppf([1 - TAIL, TAIL], self.df)
        true_variance = self.variance_of(truth)
        least = 0.0
        if region.above > 0:
            least = upper_quantile * self.variance_of(region.above) / true_variance
        most = lower_quantile * self.variance_of(region.below) / true_variance
        return max(0.0, float(chi2.cdf(most, self.df) - chi2.cdf(least, self.df)))


def deviation(
    networks: Networks, name: NetworkRef, paper_accuracy: float | None = None
) -> Estimate:
    """Estimate the standard deviation of a network's score over runs.

    The variance that comes from the finite test set is subtracted, if it is known
    (`study.claims.sampling.sampling_variance`).

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.
    paper_accuracy
        The paper's accuracy in percent. Accuracies near 100% leave less room to vary, so the
        deviation is multiplied by the ratio of the binomial deviations at this accuracy and at
        ours. None for the deviation as it is.

    Returns
    -------
    Estimate
        In the unit of the score, with the chi-squared interval for normal values. A note says so if
        the variance of the test set was not subtracted.
    """
    scores = networks.scores(name)
    scale = scale_of_networks(networks, name)
    if len(scores) < 2:
        return not_testable("a spread needs at least two runs", Cause.NO_SEEDS, scale)
    noise = sampling_variance(networks, name)
    notes = ()
    if noise is None:
        noise = 0.0
        notes = (WITH_SAMPLING,)
    factor = 1.0
    if paper_accuracy is not None:
        ours = scores.mean()
        factor = math.sqrt(paper_accuracy * (100 - paper_accuracy) / (ours * (100 - ours)))
    spread = _Spread(float(scores.var(ddof=1)), len(scores) - 1, noise, factor)
    low, high = spread.interval(CONFIDENCE)
    return Estimate(
        spread.deviation(spread.variance),
        low,
        high,
        scale,
        notes=notes,
        ratio=True,
        exact=Exact(spread.interval, spread.p_value),
        power_at=spread.power_at,
    )


def trend(networks: Networks, name: NetworkRef, factor: str) -> Estimate:
    """Estimate the rank correlation of a network's score with a factor, over runs.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.
    factor
        Name of the factor, a numeric column of `Networks.rows`.

    Returns
    -------
    Estimate
        Spearman's correlation, between -1 and 1.
    """
    rows = networks.runs(name)
    return correlation(rows[factor], rows["score"], scale_of_networks(networks, name))
