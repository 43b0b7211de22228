"""The profiled criterion against the same criterion written out with dense matrices."""

import numpy as np
import pytest

from lib.analysis.reml import ConvergenceError, fit_random_intercept, moments


def make_groups(seed=0, groups=12, deviation=1.0):
    """Return constant columns, varying columns, group numbers and the response of a small unbalanced example."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), rng.integers(1, 7, groups))
    constant = np.column_stack([np.ones(groups), rng.normal(size=groups)])
    varying = rng.normal(size=(len(group), 1))
    response = (
        constant[group] @ [2.0, -1.0]
        + varying[:, 0] * 0.5
        + deviation * rng.normal(size=groups)[group]
        + rng.normal(size=len(group))
    )
    return constant, varying, group, response


def dense_criterion(matrix, response, group, tau2, sigma2):
    """Return minus twice the restricted log likelihood, from its definition."""
    same = group[:, None] == group[None, :]
    v = sigma2 * np.eye(len(group)) + tau2 * same
    inverse = np.linalg.inv(v)
    information = matrix.T @ inverse @ matrix
    beta = np.linalg.solve(information, matrix.T @ inverse @ response)
    residual = response - matrix @ beta
    degrees = len(response) - matrix.shape[1]
    value = (
        degrees * np.log(2 * np.pi)
        + np.linalg.slogdet(v)[1]
        + np.linalg.slogdet(information)[1]
        + residual @ inverse @ residual
    )
    return value, beta, np.linalg.inv(information)


def fit_example(constant, varying, group, response):
    columns = np.column_stack([varying, response])
    return fit_random_intercept(moments(constant, columns, group))


@pytest.mark.parametrize("seed", range(4))
def test_estimates_and_criterion_equal_the_dense_ones(seed):
    constant, varying, group, response = make_groups(seed)
    found = fit_example(constant, varying, group, response)
    matrix = np.hstack([constant[group], varying])
    value, beta, covariance = dense_criterion(
        matrix, response, group, found.group_variance, found.residual_variance
    )
    np.testing.assert_allclose(found.coefficients, beta, rtol=1e-9)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-7)
    assert found.criterion == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_no_nearby_variances_are_better(seed):
    constant, varying, group, response = make_groups(seed)
    found = fit_example(constant, varying, group, response)
    assert not found.boundary and abs(found.gradient) < 1e-6
    matrix = np.hstack([constant[group], varying])
    for a in (0.97, 1.0, 1.03):
        for b in (0.97, 1.0, 1.03):
            value, _, _ = dense_criterion(
                matrix, response, group, a * found.group_variance, b * found.residual_variance
            )
            assert value >= found.criterion - 1e-9


def test_a_shift_of_units_shifts_the_estimates_alone():
    constant, varying, group, response = make_groups()
    plain = fit_example(constant, varying, group, response)
    scaled = fit_example(constant, varying * 1e6, group, response * 1e-3)
    expected = plain.coefficients * 1e-3 / [1, 1, 1e6]
    np.testing.assert_allclose(scaled.coefficients, expected, rtol=1e-8)
    assert scaled.group_variance == pytest.approx(plain.group_variance * 1e-6, rel=1e-8)


def test_no_variance_between_groups_is_a_boundary():
    constant, varying, group, response = make_groups(deviation=0.0)
    sums = np.bincount(group, weights=response) / np.bincount(group)
    found = fit_example(constant, varying, group, response - sums[group])
    assert found.boundary and found.group_variance == 0.0 and found.gradient >= 0


def test_no_variance_within_groups_is_refused():
    constant, varying, group, _ = make_groups()
    response = np.random.default_rng(1).normal(size=len(constant))[group]
    with pytest.raises(ConvergenceError, match="does not vary within any group beyond"):
        fit_example(constant[:, :1], varying, group, response)


def test_one_group_is_refused():
    with pytest.raises(ConvergenceError, match="there is one group"):
        fit_example(np.ones((1, 1)), np.arange(5.0)[:, None], np.zeros(5, int), np.arange(5.0) ** 2)


@pytest.mark.parametrize("ratio", [1e6, 1e10])
def test_a_variance_ratio_of_many_orders_is_found(ratio):
    constant, varying, group, _ = make_groups(groups=60)
    rng = np.random.default_rng(2)
    response = np.sqrt(ratio) * rng.normal(size=60)[group] + rng.normal(size=len(group))
    found = fit_example(constant, varying, group, response)
    assert np.log10(found.group_variance / found.residual_variance) == pytest.approx(
        np.log10(ratio), abs=0.3
    )
    assert found.residual_variance == pytest.approx(1, rel=0.5)


def test_dependent_columns_are_refused():
    constant, varying, group, response = make_groups()
    twice = np.column_stack([constant, constant[:, 1]])
    with pytest.raises(ConvergenceError, match="not independent"):
        fit_example(twice, varying, group, response)
    nothing = np.column_stack([constant, np.zeros(len(constant))])
    with pytest.raises(ConvergenceError, match="a column is zero in every row"):
        fit_example(nothing, varying, group, response)


def test_single_rows_are_refused():
    rng = np.random.default_rng(0)
    group = np.arange(9)
    with pytest.raises(ConvergenceError, match="cannot tell a random intercept from the residual"):
        fit_example(np.ones((9, 1)), rng.normal(size=(9, 1)), group, rng.normal(size=9))
