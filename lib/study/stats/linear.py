r"""Least squares, with or without a random intercept for every attempt.

Without a random intercept the model is

.. math::

    y_i = x_i^\top \beta + \epsilon_i, \qquad \epsilon_i \sim N(0, \sigma^2),

estimated by `statsmodels.regression.linear_model.OLS`. With one it is

.. math::

    y_{ij} = x_{ij}^\top \beta + u_i + \epsilon_{ij}, \qquad
    u_i \sim N(0, \tau^2), \quad \epsilon_{ij} \sim N(0, \sigma^2),

for row j of attempt i. The intercept :math:`u_i` is random because the epochs of one attempt share
initial weights and data order. These are a sample of all that could have been drawn, and the
conclusions are not about particular ones. The model is estimated by restricted maximum likelihood
from sums over attempts (`study.stats.reml`), because statsmodels' `MixedLM` is too slow for a
million rows. The explained variance is Nakagawa and Schielzeth's, where :math:`\sigma_f^2` is the
variance of the fixed part over the rows:

.. math::

    R^2_\text{marginal} = \frac{\sigma_f^2}{\sigma_f^2 + \tau^2 + \sigma^2}, \qquad
    R^2_\text{conditional} = \frac{\sigma_f^2 + \tau^2}{\sigma_f^2 + \tau^2 + \sigma^2}

Standard errors that hold when variances differ are in `study.stats.robust_errors`, models with
unequal variances in `study.stats.variances`.

Nakagawa, Schielzeth: *A general and simple method for obtaining R² from generalized linear
mixed-effects models*, Methods Ecol. Evol. 4, 2013, reference 75 of the dissertation.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.regression.linear_model import OLS, RegressionResults

from study.stats.design import INTERCEPT, Design
from study.stats.power import CONFIDENCE
from study.stats.reml import fit_random_intercept
from study.stats.robust_errors import clustered_errors, jackknife_errors, treatment_scores

_EXACT = 1e-10
"""Residual standard deviation, relative to the range of the response, below which a fit is exact
up to rounding.
"""


@dataclass(frozen=True)
class LinearFit:
    """An estimated linear model."""

    design: Design
    coefficients: pd.DataFrame
    """One row per coefficient: ``term``, ``estimate``, ``standard_error``, ``df``, ``low`` and
    ``high`` (ends of the 95% interval), ``p_value`` (not corrected), ``robust_error``,
    ``robust_df`` and ``robust_p``. Errors are nan if `unmeasured` gives a reason.
    """
    summary: dict[str, float]
    """All models: ``parameters``, ``condition_number``, ``rmse``, ``residual_sd``, ``rows`` and
    ``attempts``. With a random intercept also ``r2_conditional``, ``r2_marginal`` and
    ``group_sd``; without, ``r2``, ``r2_adjusted`` and ``df_residual``.
    """
    fitted: np.ndarray
    """Fitted values, random intercepts included, shape (N,)."""
    residuals: np.ndarray
    """The response minus `fitted`, shape (N,)."""
    intercepts: np.ndarray | None
    """Predicted random intercept of each attempt, shape (G,); None in a model without."""
    boundary: bool = False
    """Whether the variance of the random intercept is estimated as zero."""
    unmeasured: str = ""
    """Why the residual variance, and so every standard error, is unknown; empty if it is known."""

    @property
    def r2(self) -> float:
        """Explained variance: marginal with a random intercept, plain without."""
        if self.intercepts is None:
            return self.summary["r2"]
        return self.summary["r2_marginal"]

    def estimate(self, term: str, column: str = "estimate") -> float:
        """Return a number of one coefficient.

        Parameters
        ----------
        term
            Name of the coefficient.
        column
            Column of `coefficients`.

        Returns
        -------
        float
            The number; nan if the coefficient was dropped.
        """
        values = self.coefficients.set_index("term")[column]
        return float(values.get(term, np.nan))


def fit(design: Design, *, random: bool = False) -> LinearFit:
    """Estimate a linear model.

    Parameters
    ----------
    design
        Columns and response.
    random
        Whether every attempt has a random intercept.

    Returns
    -------
    LinearFit
        The estimated model.

    Raises
    ------
    ConvergenceError
        The random-intercept model has no estimate that can be trusted.
    """
    if random:
        return _fit_mixed(design)
    return _fit_least_squares(design)


def _fit_least_squares(design: Design) -> LinearFit:
    """Fit the model without random intercepts."""
    matrix = design.centered_matrix()
    mean = design.response.mean()
    result = OLS(design.response - mean, matrix).fit()
    beta = np.asarray(result.params).copy()
    beta[design.names.index(INTERCEPT)] += mean
    residuals = np.asarray(result.resid)
    unmeasured = _why_unmeasured(result, design)
    errors = np.full(len(design.names), np.nan)
    robust = errors
    explained = {
        "r2": float(result.rsquared),
        "r2_adjusted": np.nan,
        "residual_sd": np.nan,
        "df_residual": int(result.df_resid),
    }
    if not unmeasured:
        errors = standard_errors(design, np.asarray(result.cov_params()))
        inverse = np.asarray(result.model.pinv_wexog)
        robust = jackknife_errors(design, matrix, inverse, residuals)
        explained["r2_adjusted"] = float(result.rsquared_adj)
        explained["residual_sd"] = float(np.sqrt(result.scale))
    coefficients = coefficient_table(
        design.names,
        design.uncenter @ beta,
        errors,
        df=result.df_resid,
        robust_errors=robust,
        robust_df=design.treatment.max() + 1 - len(design.names),
    )
    return LinearFit(
        design=design,
        coefficients=coefficients,
        summary=_summarize(design, residuals, explained),
        fitted=np.asarray(result.fittedvalues) + mean,
        residuals=residuals,
        intercepts=None,
        unmeasured=unmeasured,
    )


def _why_unmeasured(result: RegressionResults, design: Design) -> str:
    """Return why the residual variance is unknown, or an empty string."""
    if result.df_resid <= 0:
        return "no attempt is left over to measure the error"
    # Residuals that are zero up to rounding give no error to test against.
    if np.sqrt(result.scale) < _EXACT * max(np.ptp(design.response), 1.0):
        return "the residuals are all zero"
    return ""


def standard_errors(design: Design, covariance: np.ndarray) -> np.ndarray:
    """Return the standard errors of a model's coefficients.

    Parameters
    ----------
    design
        The model's columns.
    covariance
        Covariance of the coefficients of the centered columns, shape (p, p).

    Returns
    -------
    numpy.ndarray
        Standard errors for the original columns, shape (p,).
    """
    variances = np.einsum("ij,jk,ik->i", design.uncenter, covariance, design.uncenter)
    return np.sqrt(variances)


def _fit_mixed(design: Design) -> LinearFit:
    """Fit the model with a random intercept for each attempt, by REML."""
    model = fit_random_intercept(design.moments)
    beta = model.coefficients[design.order]
    beta[design.names.index(INTERCEPT)] += design.response.mean()
    covariance = model.covariance[np.ix_(design.order, design.order)]
    fixed = design.predict(beta)
    # Best linear unbiased prediction: the mean residual of an attempt, shrunk toward zero.
    ratio = model.group_variance / model.residual_variance
    rows_of_attempt = np.bincount(design.attempt)
    sums = np.bincount(design.attempt, weights=design.response - fixed)
    intercepts = ratio / (1 + rows_of_attempt * ratio) * sums
    fitted = fixed + intercepts[design.attempt]
    residuals = design.response - fitted
    scores = treatment_scores(design, residuals) / model.residual_variance
    coefficients = coefficient_table(
        design.names,
        design.uncenter @ beta,
        standard_errors(design, covariance),
        df=np.inf,
        robust_errors=clustered_errors(design, covariance, scores),
        robust_df=len(scores) - 1,
    )
    fixed_variance = float(np.var(fixed, ddof=1))
    total_variance = fixed_variance + model.group_variance + model.residual_variance
    explained = {
        "r2_conditional": float((fixed_variance + model.group_variance) / total_variance),
        "r2_marginal": float(fixed_variance / total_variance),
        "group_sd": model.group_variance**0.5,
        "residual_sd": model.residual_variance**0.5,
    }
    return LinearFit(
        design=design,
        coefficients=coefficients,
        summary=_summarize(design, residuals, explained),
        fitted=fitted,
        residuals=residuals,
        intercepts=intercepts,
        boundary=model.group_variance == 0.0,
    )


def _summarize(
    design: Design, residuals: np.ndarray, explained: dict[str, float]
) -> dict[str, float]:
    """Return `LinearFit.summary`; `explained` has the numbers that only one kind of model has."""
    return {
        "parameters": len(design.names),
        "condition_number": design.condition_number(),
        "rmse": float(np.sqrt(np.mean(residuals**2))),
        **explained,
        "rows": len(residuals),
        "attempts": len(design.constant),
    }


def coefficient_table(
    names: Collection[str],
    estimates: np.ndarray,
    errors: np.ndarray,
    *,
    df: float,
    robust_errors: np.ndarray | float = np.nan,
    robust_df: float = np.nan,
) -> pd.DataFrame:
    """Return the coefficients of a model with intervals and p values.

    Parameters
    ----------
    names
        Names of the p coefficients.
    estimates
        Estimates, shape (p,).
    errors
        Standard errors, shape (p,).
    df
        Degrees of freedom of `errors`; infinite for the normal distribution.
    robust_errors
        Robust standard errors, shape (p,); nan if there are none.
    robust_df
        Degrees of freedom of `robust_errors`.

    Returns
    -------
    pandas.DataFrame
        The columns of `LinearFit.coefficients`.
    """
    distribution = stats.norm()
    if np.isfinite(df):
        distribution = stats.t(df)
    half_width = distribution.ppf((1 + CONFIDENCE) / 2) * errors
    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = 2 * distribution.sf(np.abs(estimates / errors))
        robust_p = 2 * stats.t.sf(np.abs(estimates / robust_errors), robust_df)
    return pd.DataFrame(
        {
            "term": names,
            "estimate": estimates,
            "standard_error": errors,
            "df": df,
            "low": estimates - half_width,
            "high": estimates + half_width,
            "p_value": p_values,
            "robust_error": robust_errors,
            "robust_df": robust_df,
            "robust_p": robust_p,
        }
    )
