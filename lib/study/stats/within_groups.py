r"""How two measurements are related within groups, such as accuracy and metric within tasks.

Each is replaced by its deviation from the mean of the group, so that differences between groups do
not count. With :math:`\tilde x = x - \bar x_g` and :math:`\tilde y = y - \bar y_g`, the slope is
:math:`\sum \tilde x \tilde y / \sum \tilde x^2`, that of a regression with an intercept for each
group, and the correlation :math:`\sum \tilde x \tilde y / \sqrt{\sum \tilde x^2 \sum \tilde y^2}`.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from study.stats.power import TAIL

_GROUPS = 4
"""Minimum number of groups for a bootstrap interval."""


class WithinGroups(NamedTuple):
    """The relation of two measurements within groups."""

    groups: int
    """Number of groups."""
    correlation: float
    """Pearson's correlation of the deviations."""
    low: float
    high: float
    """Ends of the 95% interval of the correlation."""
    rank_correlation: float
    """Spearman's correlation of the deviations."""
    slope: float
    """Change of y per unit of x."""


def correlate_within(
    x: np.ndarray, y: np.ndarray, group: np.ndarray, *, draws: int = 999
) -> WithinGroups:
    """Correlate two measurements within groups.

    Parameters
    ----------
    x, y
        The measurements, shape (N,).
    group
        Group of each, shape (N,).
    draws
        Number of bootstrap resamples behind the interval. Groups are resampled, because all
        deviations in a group share its mean.

    Returns
    -------
    WithinGroups
        The relation. Its numbers are nan if there are fewer than four groups, or if x or y is
        constant in every group. The interval is nan, too, if x or y varies in so few groups that a
        resample has none of them.
    """
    deviations = pd.DataFrame({"x": x, "y": y})
    deviations -= deviations.groupby(group).transform("mean")
    dx = deviations["x"].to_numpy()
    dy = deviations["y"].to_numpy()
    products = pd.DataFrame({"xx": dx * dx, "yy": dy * dy, "xy": dx * dy})
    sums = products.groupby(group).sum().to_numpy()
    groups = len(sums)
    if groups < _GROUPS or np.ptp(dx) == 0 or np.ptp(dy) == 0:
        return WithinGroups(groups, np.nan, np.nan, np.nan, np.nan, np.nan)
    total_xx, _, total_xy = sums.sum(0)
    times = np.random.default_rng(0).multinomial(groups, np.full(groups, 1 / groups), draws)
    correlations = _correlation(np.vstack([sums.sum(0), times @ sums]))
    low, high = np.quantile(correlations[1:], [TAIL, 1 - TAIL])
    rank_correlation = stats.spearmanr(dx, dy).statistic
    slope = total_xy / total_xx
    return WithinGroups(groups, correlations[0], low, high, rank_correlation, slope)


def _correlation(sums: np.ndarray) -> np.ndarray:
    """Return correlations from sums of xx, yy and xy, shape (draws, 3); nan if one is zero."""
    xx, yy, xy = sums.T
    variance = xx * yy
    correlation = np.full_like(xy, np.nan)
    return np.divide(xy, np.sqrt(variance), out=correlation, where=variance > 0)
