r"""A linear model in which every group of attempts, such as those of an architecture, has variances of its own.

.. math::

    y_{ij} = x_{ij}^\top \beta + u_i + \epsilon_{ij}, \qquad
    u_i \sim N(0, \tau_{g(i)}^2), \quad \epsilon_{ij} \sim N(0, \sigma_{g(i)}^2)

By feasible generalised least squares: least squares with the variances at hand, then the variances from the residuals, until neither changes. Without random
intercepts it is weighted least squares with :math:`1/\sigma_g^2`, and :math:`\hat\sigma_g^2` is the group's sum of squares over its rows less the coefficients that they
pay for (the sum of their leverages); with them the two variances of a group are estimated by REML from its residuals. Like `lib.analysis.reml` it needs sums over attempts
alone, so that a million rows are no more work. The tests hold it to statsmodels' `WLS` and `GLS`.

Carroll, Ruppert: *Transformation and Weighting in Regression*, Chapman and Hall, 1988, Section 2.2.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from lib.analysis.design import INTERCEPT
from lib.analysis.linear import Fit
from lib.analysis.reml import ConvergenceError, fit_random_intercept, moments

ROUNDS = 200
SETTLED = 1e-8
"""Largest relative change of a standard error at which the rounds end."""
_EXACT = 1e-12
"""Variance, in units of the response's, below which a group is fitted exactly but for rounding."""


class Unequal(NamedTuple):
    """A model with variances of its own for each group."""

    coefficients: pd.DataFrame
    """``term``, ``estimate``, ``standard_error``, ``p_value`` (normal, not corrected)."""
    variances: pd.DataFrame
    """``group``, ``attempts``, ``rows``, ``residual_sd``, ``group_sd`` (of the intercepts; empty without)."""


def with_own_variances(fit: Fit, groups: np.ndarray) -> Unequal:
    """Estimate the model of `fit` again, with variances of its own for each group of attempts; `groups` names that of each, shape (G,).

    Raises ConvergenceError: a group has no variance that could be estimated, or the rounds do not settle.
    """
    made, random = fit.design, fit.intercepts is not None
    names, of_attempt = np.unique(groups, return_inverse=True)
    columns = np.column_stack([made.varying, made.response - made.response.mean()])
    of_row = of_attempt[made.attempt]
    rows = [of_row == group for group in range(len(names))]
    parts = [moments(made.constant, columns[own], made.attempt[own]) for own in rows]
    response, errors = columns[:, -1], np.zeros(len(made.names))
    variance, ratio = np.ones(len(names)), np.zeros(len(names))
    for _ in range(ROUNDS):
        weighted = [p.total(r) / v for p, r, v in zip(parts, ratio, variance, strict=True)]
        whole = sum(weighted)
        scale = np.sqrt(np.diag(whole)[:-1])
        outer = np.outer(scale, scale)
        covariance = np.linalg.inv(whole[:-1, :-1] / outer) / outer
        beta = (covariance @ whole[:-1, -1])[made.order]
        before, errors = errors, np.sqrt(np.diag(covariance))[made.order]
        if np.allclose(errors, before, rtol=SETTLED, atol=0):
            break
        residuals = response - made.predict(beta)
        for group, own in enumerate(rows):
            if random:
                about = moments(np.ones((len(groups), 1)), residuals[own, None], made.attempt[own])
                found = fit_random_intercept(about)
                variance[group] = found.residual_variance
                ratio[group] = found.group_variance / found.residual_variance
            else:
                free = own.sum() - np.trace(covariance @ weighted[group][:-1, :-1])
                variance[group] = residuals[own] @ residuals[own] / max(free, 1e-9)
                if free < 1 or variance[group] < _EXACT * response.var():
                    raise ConvergenceError(
                        f"{names[group]} has no attempt left to measure its variance"
                    )
    else:
        raise ConvergenceError(f"the variances of the groups do not settle in {ROUNDS} rounds")
    beta[made.names.index(INTERCEPT)] += made.response.mean()
    p_value = 2 * stats.norm.sf(np.abs(beta / errors))
    coefficients = {"term": made.names, "estimate": beta, "standard_error": errors}
    variances = {
        "group": names,
        "attempts": np.bincount(of_attempt),
        "rows": np.bincount(of_row),
        "residual_sd": np.sqrt(variance),
        "group_sd": np.sqrt(variance * ratio) if random else np.nan,
    }
    return Unequal(pd.DataFrame({**coefficients, "p_value": p_value}), pd.DataFrame(variances))
