r"""Fit a linear model, with or without an intercept of its own for every attempt.

Without one it is ordinary least squares by statsmodels. With one it is estimated by REML from sums
over groups (`study.stats.reml`), which has the time for a million rows. The explained variance of a
mixed model is Nakagawa and Schielzeth's, with
:math:`\sigma_f^2` the variance of the fixed part over the rows:

.. math::

    R^2_\text{marginal} = \frac{\sigma_f^2}{\sigma_f^2 + \tau^2 + \sigma^2}, \qquad
    R^2_\text{conditional} = \frac{\sigma_f^2 + \tau^2}{\sigma_f^2 + \tau^2 + \sigma^2}

Beside the standard errors of the model stand *robust* ones, which hold when variances differ and
the rows of a treatment depend on each other in any way. Without a random intercept they are the
jackknife's, of treatments that are left out one at a time,

.. math::

    V = \sum_t B_t a_t a_t^\top B_t^\top, \qquad a_t = (I - H_{tt})^{-1} r_t,

with r the residuals, H the hat matrix and B the inverse that maps responses to coefficients; for
treatments of one attempt this is HC3. With one they are those of clusters with the usual factor
:math:`\frac{T}{T-1}\frac{N-1}{N-p}` for T treatments.

In `with_own_variances` every group of attempts, such as those of an architecture, has variances of
its own:

.. math::

    y_{ij} = x_{ij}^\top \beta + u_i + \epsilon_{ij}, \qquad
    u_i \sim N(0, \tau_{g(i)}^2), \quad \epsilon_{ij} \sim N(0, \sigma_{g(i)}^2)

It is fitted by feasible generalised least squares: least squares with the variances at hand, then
the variances from the residuals, until neither changes. Without random intercepts it is weighted
least squares with :math:`1/\sigma_g^2`, and :math:`\hat\sigma_g^2` is the group's sum of squares
over its rows less the coefficients that they pay for (the sum of their leverages); with them the
two variances of a group are estimated by REML from its residuals. It needs sums over attempts
alone, so that a million rows are no more work. The tests hold it to statsmodels' `WLS` and `GLS`.

Nakagawa, Schielzeth: *A general and simple method for obtaining R² from generalized linear
mixed-effects models*, Methods Ecol. Evol. 4, 2013, reference 75 of the dissertation. MacKinnon,
White: *Some heteroskedasticity-consistent covariance matrix estimators*, J. Econometrics 29, 1985.
Cameron, Miller: *A practitioner's guide to cluster-robust inference*, J. Human Resources 50, 2015.
Carroll, Ruppert: *Transformation and Weighting in Regression*, Chapman and Hall, 1988, Section 2.2.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import brentq
from statsmodels.regression.linear_model import OLS, WLS

from study.stats.design import INTERCEPT, Design
from study.stats.power import CONFIDENCE
from study.stats.reml import ConvergenceError, fit_random_intercept, moments

ROUNDS = 200
SETTLED = 1e-8
"""Largest relative change of a standard error at which the rounds end."""
_EXACT = 1e-10
"""Residual standard deviation, in units of the response's, below which a fit is exact but for
rounding.
"""
_EXACT_GROUP = 1e-12
"""Variance, in units of the response's, below which a group is fitted exactly but for rounding."""


@dataclass(frozen=True)
class Fit:
    """An estimated model; a mixed model that does not converge raises."""

    design: Design
    coefficients: pd.DataFrame
    """One line per coefficient: ``term``, ``estimate``, ``standard_error``, ``df``, ``low``,
    ``high`` (the ends of its 95% interval), ``p_value``, not corrected, and ``robust_error``,
    ``robust_df`` and ``robust_p``. Errors are empty where `unmeasured`.
    """
    summary: dict[str, float]
    """``parameters``, ``condition_number``, ``rmse``; for a mixed model ``r2_conditional``,
    ``r2_marginal``, ``group_sd``, ``residual_sd``, for the others ``r2``, ``r2_adjusted``,
    ``residual_sd``, ``df_residual``; ``rows`` and ``attempts``.
    """
    fitted: np.ndarray
    """With the random intercepts, where there are any; shape (N,), as `residuals`."""
    residuals: np.ndarray
    intercepts: np.ndarray | None
    """Predicted random intercept of each attempt, shape (G,); None without."""
    boundary: bool = False
    """Whether the variance of the intercept is estimated as zero."""
    unmeasured: str = ""
    """Why the residual variance, and with it every standard error, is unknown; empty where it is
    known.
    """

    @property
    def r2(self) -> float:
        """Explained variance: marginal with a random intercept, plain without."""
        return self.summary["r2" if self.intercepts is None else "r2_marginal"]

    def estimate(self, term: str, column: str = "estimate") -> float:
        """Return a number of a coefficient; nan where it was dropped."""
        return float(self.coefficients.set_index("term")[column].get(term, np.nan))


def fit(made: Design, *, random: bool = False) -> Fit:
    """Estimate a linear model.

    Parameters
    ----------
    made
        Its columns and response.
    random
        Whether every attempt has an intercept of its own.

    Returns
    -------
    Fit
        The estimated model.

    Raises
    ------
    ConvergenceError
        There is no estimate that can be trusted.
    """
    return _mixed(made) if random else _least_squares(made)


def _least_squares(made: Design) -> Fit:
    matrix = made.centred_matrix()
    mean = made.response.mean()
    result = OLS(made.response - mean, matrix).fit()
    beta = np.asarray(result.params).copy()
    beta[made.names.index(INTERCEPT)] += mean
    residuals = np.asarray(result.resid)
    inverse = np.asarray(result.model.pinv_wexog)
    unmeasured = ""
    if result.df_resid <= 0:
        unmeasured = "no attempt is left over to measure the error"
    # What rounding leaves of residuals that are all zero is no error to test against.
    elif np.sqrt(result.scale) < _EXACT * max(np.ptp(made.response), 1.0):
        unmeasured = "the residuals are all zero"
    errors = robust = np.full(len(made.names), np.nan)
    if not unmeasured:
        errors = _errors(made, np.asarray(result.cov_params()))
        of_row = pd.Series(made.treatment[made.attempt])
        parts = of_row.groupby(of_row).indices.values()
        robust = _jackknife(matrix, inverse, residuals, parts, made.back)
    explained = {
        "r2": float(result.rsquared),
        "r2_adjusted": np.nan if unmeasured else float(result.rsquared_adj),
        "residual_sd": np.nan if unmeasured else float(np.sqrt(result.scale)),
        "df_residual": int(result.df_resid),
    }
    df, robust_df = result.df_resid, made.treatment.max() + 1 - len(made.names)
    return Fit(
        design=made,
        coefficients=numbers(made.names, made.back @ beta, errors, df, robust, robust_df),
        summary=_summary(made, residuals, explained),
        fitted=np.asarray(result.fittedvalues) + mean,
        residuals=residuals,
        intercepts=None,
        unmeasured=unmeasured,
    )


def _errors(made: Design, covariance: np.ndarray) -> np.ndarray:
    """Return standard errors from the covariance of the centred columns' coefficients, (p,)."""
    return np.sqrt(np.einsum("ij,jk,ik->i", made.back, covariance, made.back))


def _jackknife(
    matrix: np.ndarray,
    inverse: np.ndarray,
    residuals: np.ndarray,
    parts: Collection[np.ndarray],
    back: np.ndarray,
) -> np.ndarray:
    """Return robust errors from parts of the rows that are independent, those of a size at once.

    `matrix` and `inverse` are of centred columns, `back` turns their coefficients into the model's.
    """
    variance = np.zeros(len(inverse))
    for size in sorted({len(part) for part in parts}):
        held = np.stack([part for part in parts if len(part) == size])
        to = inverse.T[held].swapaxes(1, 2)  # (parts, coefficients, rows of a part)
        values, vectors = np.linalg.eigh(np.eye(size) - matrix[held] @ to)
        # What a part alone tells is fitted exactly: its residual is rounding, not evidence.
        free = values > 1e-9
        turned = back @ to @ vectors
        inside = (residuals[held][:, None] @ vectors)[:, 0] / np.where(free, values, np.inf)
        variance += ((turned @ inside[:, :, None])[..., 0] ** 2).sum(axis=0)
        alone = (np.abs(turned) > 1e-12) & ~free[:, None]
        variance[alone.any(axis=(0, 2))] = np.nan
    return np.sqrt(variance)


def _mixed(made: Design) -> Fit:
    found = fit_random_intercept(made.moments)
    group_variance, residual_variance = found.group_variance, found.residual_variance
    beta = found.coefficients[made.order]
    beta[made.names.index(INTERCEPT)] += made.response.mean()
    bread = found.covariance[np.ix_(made.order, made.order)]
    fixed = made.predict(beta)
    beta = made.back @ beta
    n = np.bincount(made.attempt)
    ratio = group_variance / residual_variance
    about = made.response - fixed
    intercepts = ratio / (1 + n * ratio) * np.bincount(made.attempt, weights=about)
    fitted = fixed + intercepts[made.attempt]
    residuals = made.response - fitted
    explained = float(np.var(fixed, ddof=1))
    whole = explained + group_variance + residual_variance
    parts = {"r2_conditional": explained + group_variance, "r2_marginal": explained}
    shares = {name: float(part / whole) for name, part in parts.items()}
    shares |= {"group_sd": group_variance**0.5, "residual_sd": residual_variance**0.5}
    # V⁻¹(y - Xβ) is the residual over its variance; its products with the columns, summed over a
    # treatment, are what varies.
    constant = made.centred_constant * np.bincount(made.attempt, weights=residuals)[:, None]
    constant = [np.bincount(made.treatment, weights=one) for one in constant.T]
    of_row = made.treatment[made.attempt]
    varying = [np.bincount(of_row, weights=one * residuals) for one in made.centred_varying.T]
    scores = np.column_stack([*constant, *varying])[:, made.order] / residual_variance
    rows, groups, p = len(residuals), len(scores), len(beta)
    factor = (groups / (groups - 1) if groups > 1 else np.nan) * (rows - 1) / (rows - p)
    robust = np.sqrt(factor * ((scores @ bread @ made.back.T) ** 2).sum(axis=0))
    return Fit(
        design=made,
        coefficients=numbers(made.names, beta, _errors(made, bread), np.inf, robust, groups - 1),
        summary=_summary(made, residuals, shares),
        fitted=fitted,
        residuals=residuals,
        intercepts=intercepts,
        boundary=group_variance == 0.0,
    )


def _summary(made: Design, residuals: np.ndarray, explained: dict[str, float]) -> dict[str, float]:
    return {
        "parameters": len(made.names),
        "condition_number": made.condition_number(),
        "rmse": float(np.sqrt(np.mean(residuals**2))),
        **explained,
        "rows": len(residuals),
        "attempts": len(made.constant),
    }


def numbers(names, beta, errors, df: float, robust, robust_df: float) -> pd.DataFrame:
    """Return `Fit.coefficients` of estimates, their errors and degrees of freedom."""
    law = stats.t(df) if np.isfinite(df) else stats.norm()
    reach = law.ppf((1 + CONFIDENCE) / 2) * errors
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = 2 * law.sf(np.abs(beta / errors))
        robust_p = 2 * stats.t.sf(np.abs(beta / robust), robust_df)
    table = pd.DataFrame({"term": names, "estimate": beta, "standard_error": errors, "df": df})
    table = table.assign(low=beta - reach, high=beta + reach, p_value=p_value)
    return table.assign(robust_error=robust, robust_df=robust_df, robust_p=robust_p)


class Unequal(NamedTuple):
    """A model with variances of its own for each group."""

    coefficients: pd.DataFrame
    """As `Fit.coefficients`, normal and without robust errors."""
    variances: pd.DataFrame
    """``group``, ``attempts``, ``rows``, ``residual_sd``, ``group_sd`` (of the intercepts; empty
    without).
    """


def with_own_variances(fit: Fit, groups: np.ndarray) -> Unequal:
    """Estimate the model of `fit` again, with variances of its own for each group of attempts;
    `groups` names that of each, shape (G,).

    Raises ConvergenceError: a group has no variance that could be estimated, or the rounds do not
    settle.
    """
    made, random = fit.design, fit.intercepts is not None
    names, of_attempt = np.unique(groups, return_inverse=True)
    columns = np.column_stack([made.centred_varying, made.response - made.response.mean()])
    of_row = of_attempt[made.attempt]
    rows = [of_row == group for group in range(len(names))]
    parts = [moments(made.centred_constant, columns[own], made.attempt[own]) for own in rows]
    response, errors = columns[:, -1], np.zeros(len(made.names))
    variance, ratio = np.ones(len(names)), np.zeros(len(names))
    for _ in range(ROUNDS):
        weighted = [p.total(r) / v for p, r, v in zip(parts, ratio, variance, strict=True)]
        whole = sum(weighted)
        scale = np.sqrt(np.diag(whole)[:-1])
        outer = np.outer(scale, scale)
        covariance = np.linalg.inv(whole[:-1, :-1] / outer) / outer
        beta = (covariance @ whole[:-1, -1])[made.order]
        before = errors
        errors = _errors(made, covariance[np.ix_(made.order, made.order)])
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
                if free < 1 or variance[group] < _EXACT_GROUP * response.var():
                    raise ConvergenceError(f"{names[group]} has no attempt to measure its variance")
    else:
        raise ConvergenceError(f"the variances of the groups do not settle in {ROUNDS} rounds")
    beta[made.names.index(INTERCEPT)] += made.response.mean()
    beta = made.back @ beta
    variances = {
        "group": names,
        "attempts": np.bincount(of_attempt),
        "rows": np.bincount(of_row),
        "residual_sd": np.sqrt(variance),
        "group_sd": np.sqrt(variance * ratio) if random else np.nan,
    }
    coefficients = numbers(made.names, beta, errors, np.inf, np.nan, np.nan)
    return Unequal(coefficients, pd.DataFrame(variances))


def with_known_variance(made: Design, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    r"""Estimate a model whose rows have variances that are known in part.

    .. math:: y_i = x_i^\top \beta + \epsilon_i, \qquad \mathrm{Var}[\epsilon_i] = v_i + \tau^2

    The v are known, such as those of accuracies that were counted; :math:`\tau^2` is what the rows
    share beyond them, estimated as Paule and Mandel do: the weighted sum of squares has its
    expectation. Where nothing measures :math:`\tau^2`, the errors are those of the v alone; where
    the v are not known, the model is that of least squares.

    `variance` is v, shape (N,), above zero; nan where not known. The result is estimates and
    standard errors, each of shape (p,), and :math:`\tau^2`.

    Paule, Mandel: *Consensus values and weighting factors*, J. Res. Natl. Bur. Stand. 87, 1982.
    """
    matrix = made.centred_matrix()
    known = np.isfinite(variance).all()
    variance = variance if known else np.zeros(len(matrix))
    least = OLS(made.response, matrix).fit()
    free, shared = least.df_resid, float(least.scale) if least.df_resid > 0 else 0.0

    def weighted(shared: float):
        weights = 1 / (variance + shared)
        return WLS(made.response, matrix, weights=weights).fit(cov_type="fixed scale")

    def excess(shared: float) -> float:
        return float(np.sum(weighted(shared).wresid ** 2) - free)

    if known and free > 0:
        shared = brentq(excess, 0.0, shared) if excess(0.0) > 0 else 0.0
    if not known and not shared:
        unknown = np.full(matrix.shape[1], np.nan)
        return made.back @ np.asarray(least.params), unknown, np.nan
    found = weighted(shared)
    estimates = made.back @ np.asarray(found.params)
    return estimates, _errors(made, np.asarray(found.cov_params())), shared
