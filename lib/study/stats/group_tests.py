r"""Tests of whether several groups of numbers have equal means, variances or distributions.

Two tests are named after Brown and Forsythe. The paper's Table 1.6 states the hypothesis of one and
prints the numbers of the other:

``levene``
    Levene's test of **equal variances** with deviations from the group's median, :math:`z_{ij} =
    |y_{ij} - \tilde y_i|`: an analysis of variance of z, with :math:`k-1` and :math:`N-k` degrees
    of freedom, which are integers (Brown and Forsythe, JASA 1974, which the paper cites).
``f_star``
    The :math:`F^*` test of **equal means** under unequal variances,

    .. math::

        F^* = \frac{\sum_i n_i (\bar y_i - \bar y)^2}{\sum_i (1 - n_i/N) s_i^2}, \qquad
        \frac1f = \sum_i \frac{c_i^2}{n_i - 1}, \quad
        c_i = \frac{(1 - n_i/N) s_i^2}{\sum_j (1 - n_j/N) s_j^2},

    with :math:`k-1` and f degrees of freedom, where f is Satterthwaite's and rarely an integer
    (Brown and Forsythe, Technometrics 1974).
``f_star_of_deviations``
    :math:`F^*` of the z: equal variances again, with Satterthwaite's denominator.

Statistics come from `scipy.stats` and `statsmodels.stats.oneway`. The p values of `kruskal` and
`pearson` come from random permutations and tables with a fixed seed, because the groups are too
small for the asymptotic distributions.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats
from statsmodels.stats.oneway import anova_oneway

DRAWS = 9_999
"""Number of random permutations or tables behind a p value."""


class GroupTest(NamedTuple):
    """The result of one test."""

    statistic: float
    df_between: float
    """Degrees of freedom between groups."""
    df_within: float
    """Degrees of freedom within groups; nan if the test has none."""
    p_value: float


NOT_TESTED = GroupTest(np.nan, np.nan, np.nan, np.nan)
"""The numbers of a test that was not made."""


def levene(groups: list[np.ndarray]) -> GroupTest:
    """Test whether variances are equal, by Levene's test with medians (`scipy.stats.levene`).

    Parameters
    ----------
    groups
        The numbers of each of k groups.

    Returns
    -------
    GroupTest
        The test.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        result = stats.levene(*groups, center="median")
    df_within = sum(len(group) for group in groups) - len(groups)
    return GroupTest(float(result.statistic), len(groups) - 1, df_within, float(result.pvalue))


def f_star(groups: list[np.ndarray]) -> GroupTest:
    """Test whether means are equal, by the F* test (statsmodels' `anova_oneway`).

    The p value uses the original degrees of freedom of the numerator, k - 1, as in the paper. By
    default, statsmodels uses Mehrotra's.

    Parameters
    ----------
    groups
        The numbers of each of k groups.

    Returns
    -------
    GroupTest
        The test.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        result = anova_oneway(groups, use_var="bf")
    return GroupTest(
        float(result.statistic), result.df_num2, float(result.df_denom), float(result.pvalue2)
    )


def f_star_of_deviations(groups: list[np.ndarray]) -> GroupTest:
    """Test whether variances are equal, by the F* test of absolute deviations from the median.

    Parameters
    ----------
    groups
        The numbers of each of k groups.

    Returns
    -------
    GroupTest
        The test.
    """
    return f_star([np.abs(group - np.median(group)) for group in groups])


def kruskal(groups: list[np.ndarray]) -> GroupTest:
    """Test whether distributions are equal, by Kruskal and Wallis's test of ranks.

    Two attempts per task are too few for the chi-squared p value, so the p value is that of a
    permutation test (`scipy.stats.permutation_test`).

    Parameters
    ----------
    groups
        The numbers of each of k groups.

    Returns
    -------
    GroupTest
        The test, without degrees of freedom within groups.
    """
    sizes = np.array([len(group) for group in groups])
    starts = np.cumsum(sizes) - sizes
    ranks = stats.rankdata(np.concatenate(groups))

    def between_groups(permuted: np.ndarray, axis: int) -> np.ndarray:
        """Return the part of the Kruskal-Wallis statistic that permutations change."""
        rank_sums = np.add.reduceat(permuted, starts, axis)
        return (rank_sums**2 / sizes).sum(axis)

    permutations = stats.permutation_test(
        (ranks,),
        between_groups,
        permutation_type="pairings",
        vectorized=True,
        alternative="greater",
        n_resamples=DRAWS,
        rng=np.random.default_rng(0),
    )
    statistic = float(stats.kruskal(*groups).statistic)
    return GroupTest(statistic, len(groups) - 1, np.nan, float(permutations.pvalue))


def pearson(counts: list[np.ndarray]) -> GroupTest:
    """Test whether shares are equal, by Pearson's test of a contingency table.

    The p value is the share of drawn tables with the same sums that deviate at least as much
    (`scipy.stats.chi2_contingency` with a Monte Carlo method), because most counts are small.

    Parameters
    ----------
    counts
        Counts of each outcome in each of k groups.

    Returns
    -------
    GroupTest
        The test, without degrees of freedom within groups.
    """
    method = stats.MonteCarloMethod(n_resamples=DRAWS, rng=np.random.default_rng(0))
    table = np.column_stack(counts)
    result = stats.chi2_contingency(table, correction=False, method=method)
    return GroupTest(float(result.statistic), len(counts) - 1, np.nan, float(result.pvalue))
