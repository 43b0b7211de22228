r"""Linear models whose rows have unequal variances.

`fit_group_variances` gives every group of attempts, such as those of one architecture, its own
variances:

.. math::

    y_{ij} = x_{ij}^\top \beta + u_i + \epsilon_{ij}, \qquad
    u_i \sim N(0, \tau_{g(i)}^2), \quad \epsilon_{ij} \sim N(0, \sigma_{g(i)}^2)

The intercept :math:`u_i` is random for the reason given in `study.stats.linear`: the epochs of one
attempt share initial weights and data order. The model is fitted by feasible generalized least
squares: least squares with the current variances, then the variances from the residuals, until
neither changes.

- Without random intercepts it is weighted least squares with weights :math:`1/\sigma_g^2`, and
  :math:`\hat\sigma_g^2` is the group's residual sum of squares over its rows minus the sum of their
  leverages.
- With random intercepts the two variances of a group are estimated by restricted maximum
  likelihood from its residuals (`study.stats.reml`).

Both need sums over attempts alone, so a million rows cost no more than a thousand. The tests
compare with statsmodels' `WLS` and `GLS`.

`fit_known_variance` takes a part of each variance as known, such as the binomial variance of an
accuracy.

Carroll, Ruppert: *Transformation and Weighting in Regression*, Chapman and Hall, 1988, Section 2.2.
Paule, Mandel: *Consensus values and weighting factors*, J. Res. Natl. Bur. Stand. 87, 1982.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from statsmodels.regression.linear_model import OLS, WLS, RegressionResults

from study.stats.design import INTERCEPT, Design
from study.stats.linear import LinearFit, coefficient_table, standard_errors
from study.stats.reml import ConvergenceError, Moments, fit_random_intercept, moments

ROUNDS = 200
"""Largest number of rounds of feasible generalized least squares."""
SETTLED = 1e-8
"""Largest relative change of a standard error at which the rounds end."""
_EXACT = 1e-12
"""Variance, relative to that of the response, below which a group is fitted exactly up to
rounding.
"""


class GroupVariancesFit(NamedTuple):
    """A model in which each group of attempts has its own variances."""

    coefficients: pd.DataFrame
    """As `study.stats.linear.LinearFit.coefficients`, with normal p values and no robust errors."""
    variances: pd.DataFrame
    """One row per group: ``group``, ``attempts``, ``rows``, ``residual_sd`` and ``group_sd`` (of
    the random intercepts; nan in a model without). Standard deviations have the response's unit.
    """


class _Group(NamedTuple):
    """The rows of one group of attempts."""

    name: str
    inside: np.ndarray
    """Whether each row belongs to the group, shape (N,)."""
    moments: Moments
    """Moments of the centered columns and the centered response."""


class _Variances(NamedTuple):
    """Variances of the groups, each of shape (groups,)."""

    residual: np.ndarray
    ratio: np.ndarray
    """Variance of the random intercepts, relative to `residual`."""


def fit_group_variances(fit: LinearFit, groups: np.ndarray) -> GroupVariancesFit:
    """Estimate a model again, with separate variances for each group of attempts.

    Parameters
    ----------
    fit
        The model with common variances.
    groups
        Name of each attempt's group, shape (G,).

    Returns
    -------
    GroupVariancesFit
        Coefficients, and the variances of the groups.

    Raises
    ------
    ConvergenceError
        The variance of a group cannot be estimated, or the rounds do not settle.
    """
    design = fit.design
    random = fit.intercepts is not None
    names, group_of_attempt = np.unique(groups, return_inverse=True)
    response = design.response - design.response.mean()
    members = _split(design, response, names, group_of_attempt)
    variances = _Variances(np.ones(len(names)), np.zeros(len(names)))
    errors = np.zeros(len(design.names))
    for _ in range(ROUNDS):
        beta, covariance, products = _weighted_least_squares(members, variances)
        beta = beta[design.order]
        previous_errors = errors
        errors = standard_errors(design, covariance[np.ix_(design.order, design.order)])
        if np.allclose(errors, previous_errors, rtol=SETTLED, atol=0):
            break
        residuals = response - design.predict(beta)
        if random:
            variances = _estimate_random_intercepts(design, members, residuals)
        else:
            leverages = [np.trace(covariance @ product[:-1, :-1]) for product in products]
            variances = _estimate_residual_variances(members, residuals, leverages, response)
    else:
        raise ConvergenceError(f"the variances of the groups do not settle in {ROUNDS} rounds")
    beta[design.names.index(INTERCEPT)] += design.response.mean()
    group_sd = np.full(len(names), np.nan)
    if random:
        group_sd = np.sqrt(variances.residual * variances.ratio)
    table = pd.DataFrame(
        {
            "group": names,
            "attempts": np.bincount(group_of_attempt),
            "rows": [group.inside.sum() for group in members],
            "residual_sd": np.sqrt(variances.residual),
            "group_sd": group_sd,
        }
    )
    coefficients = coefficient_table(design.names, design.uncenter @ beta, errors, df=np.inf)
    return GroupVariancesFit(coefficients, table)


def _split(
    design: Design, response: np.ndarray, names: np.ndarray, group_of_attempt: np.ndarray
) -> list[_Group]:
    """Return the rows of each group with their sums over attempts."""
    columns = np.column_stack([design.centered_varying, response])
    group_of_row = group_of_attempt[design.attempt]
    groups = []
    for number, name in enumerate(names):
        inside = group_of_row == number
        sums = moments(design.centered_constant, columns[inside], design.attempt[inside])
        groups.append(_Group(name, inside, sums))
    return groups


def _weighted_least_squares(
    groups: list[_Group], variances: _Variances
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return coefficients, their covariance, and the weighted products of each group's columns."""
    products = []
    for group, variance, ratio in zip(groups, *variances, strict=True):
        products.append(group.moments.total(ratio) / variance)
    total = sum(products)
    # Columns of unit length: scales that differ by orders of magnitude would lose digits.
    scale = np.sqrt(np.diag(total)[:-1])
    outer = np.outer(scale, scale)
    covariance = np.linalg.inv(total[:-1, :-1] / outer) / outer
    return covariance @ total[:-1, -1], covariance, products


def _estimate_random_intercepts(
    design: Design, groups: list[_Group], residuals: np.ndarray
) -> _Variances:
    """Return the two variances of each group, by REML from its residuals."""
    intercept = np.ones((len(design.constant), 1))
    residual_variances = []
    ratios = []
    for group in groups:
        sums = moments(intercept, residuals[group.inside, None], design.attempt[group.inside])
        model = fit_random_intercept(sums)
        residual_variances.append(model.residual_variance)
        ratios.append(model.group_variance / model.residual_variance)
    return _Variances(np.array(residual_variances), np.array(ratios))


def _estimate_residual_variances(
    groups: list[_Group], residuals: np.ndarray, leverages: list[float], response: np.ndarray
) -> _Variances:
    """Return the residual variance of each group, corrected for the leverage of its rows."""
    estimates = []
    for group, leverage in zip(groups, leverages, strict=True):
        df = group.inside.sum() - leverage
        inside = residuals[group.inside]
        estimate = inside @ inside / max(df, 1e-9)
        if df < 1 or estimate < _EXACT * response.var():
            raise ConvergenceError(f"{group.name} has no attempt to measure its variance")
        estimates.append(estimate)
    return _Variances(np.array(estimates), np.zeros(len(groups)))


class KnownVarianceFit(NamedTuple):
    """A model whose rows have variances that are known in part."""

    estimates: np.ndarray
    """Coefficients, shape (p,)."""
    errors: np.ndarray
    """Their standard errors, shape (p,); nan if nothing measures the variance."""
    excess_variance: float
    """Variance that all rows share beyond the known ones; nan if nothing measures it."""


def fit_known_variance(design: Design, variance: np.ndarray) -> KnownVarianceFit:
    r"""Estimate a model whose rows have variances that are known in part.

    .. math:: y_i = x_i^\top \beta + \epsilon_i, \qquad \mathrm{Var}[\epsilon_i] = v_i + \tau^2

    The excess variance :math:`\tau^2` is estimated as Paule and Mandel do, such that the weighted
    sum of squares equals its expectation, the residual degrees of freedom. If no degrees of freedom
    are left, the errors are those of the known v alone.

    Parameters
    ----------
    design
        Columns and response, N rows.
    variance
        Known variances v, above zero, shape (N,). If any is nan, they are not known, and the
        model is ordinary least squares.

    Returns
    -------
    KnownVarianceFit
        Estimates, standard errors and the excess variance.
    """
    matrix = design.centered_matrix()
    least_squares = OLS(design.response, matrix).fit()
    df = least_squares.df_resid
    residual_variance = 0.0
    if df > 0:
        residual_variance = float(least_squares.scale)
    if not np.isfinite(variance).all():
        if residual_variance == 0:
            estimates = design.uncenter @ np.asarray(least_squares.params)
            return KnownVarianceFit(estimates, np.full(matrix.shape[1], np.nan), np.nan)
        variance = np.zeros(len(matrix))
        excess = residual_variance
    elif df > 0:
        excess = _excess_variance(design, matrix, variance, df, residual_variance)
    else:
        excess = 0.0
    result = _fit_weighted(design, matrix, variance + excess)
    estimates = design.uncenter @ np.asarray(result.params)
    errors = standard_errors(design, np.asarray(result.cov_params()))
    return KnownVarianceFit(estimates, errors, excess)


def _fit_weighted(design: Design, matrix: np.ndarray, variance: np.ndarray) -> RegressionResults:
    """Return weighted least squares with variances that are assumed known."""
    return WLS(design.response, matrix, weights=1 / variance).fit(cov_type="fixed scale")


def _excess_variance(
    design: Design, matrix: np.ndarray, variance: np.ndarray, df: float, largest: float
) -> float:
    """Return the variance between zero and `largest` that Paule and Mandel's equation asks for."""

    def excess_of_squares(excess: float) -> float:
        result = _fit_weighted(design, matrix, variance + excess)
        return float(np.sum(result.wresid**2) - df)

    if excess_of_squares(0.0) <= 0:
        return 0.0
    return brentq(excess_of_squares, 0.0, largest)
