"""Correlations within groups, against a regression with an intercept for each group."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from study.stats.within_groups import correlate_within


def opposite(groups=30, size=20, slope=-0.4, seed=0):
    """Return x, y and group: y falls with x within groups, and rises with x between them."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), size)
    level = rng.normal(0, 5, groups)[group]
    x = level + rng.normal(size=len(group))
    y = 2 * level + slope * (x - level) + 0.3 * rng.normal(size=len(group))
    return x, y, group


def test_slope_is_that_of_group_intercepts():
    x, y, group = opposite()
    relation = correlate_within(x, y, group)
    frame = pd.DataFrame({"x": x, "y": y, "group": group})
    fit = smf.ols("y ~ x + C(group)", frame).fit()
    assert relation.slope == pytest.approx(fit.params["x"])
    assert relation.groups == 30


def test_correlation_is_that_of_residuals():
    x, y, group = opposite()
    relation = correlate_within(x, y, group)
    frame = pd.DataFrame({"x": x, "y": y, "group": group})
    dx = smf.ols("x ~ C(group)", frame).fit().resid
    dy = smf.ols("y ~ C(group)", frame).fit().resid
    assert relation.correlation == pytest.approx(stats.pearsonr(dx, dy).statistic)
    assert relation.rank_correlation == pytest.approx(stats.spearmanr(dx, dy).statistic)
    assert stats.pearsonr(x, y).statistic > 0.9  # without groups the sign is the other one
    assert relation.high < 0


def test_intervals_cover_the_truth():
    slope = -0.4
    noise = 0.3
    truth = slope / np.hypot(slope, noise)
    covered = []
    for seed in range(200):
        relation = correlate_within(*opposite(size=6, slope=slope, seed=seed), draws=199)
        covered.append(relation.low < truth < relation.high)
    assert 0.88 < np.mean(covered) <= 0.99


def test_equal_rows_of_a_group_do_not_narrow_the_interval():
    """Groups are resampled, so ten copies of every row are no more evidence."""
    x, y, group = opposite(groups=8, size=4)
    once = correlate_within(x, y, group)
    copies = correlate_within(*(np.repeat(column, 10) for column in (x, y, group)))
    assert (copies.low, copies.high) == pytest.approx((once.low, once.high))


@pytest.mark.parametrize(
    ("x", "group"),
    [
        (np.arange(12.0), np.repeat([0, 1, 2], 4)),  # three groups are too few to resample
        (np.repeat(np.arange(4.0), 3), np.repeat(np.arange(4), 3)),  # x is constant in each
    ],
)
def test_undefined_relation_is_nan(x, group):
    y = np.random.default_rng(0).normal(size=len(x))
    relation = correlate_within(x, y, group)
    assert np.isnan(relation[1:]).all()
