r"""Fit one of the twelve models.

Models with a random intercept are estimated by REML, either from sums over groups (``profiled``, `lib.analysis.reml`) or by
statsmodels' `MixedLM` (``statsmodels``); the two agree on small data, and the first is the one that has the time for
a million rows. The others are ordinary least squares by statsmodels.

The explained variance of a mixed model is Nakagawa and Schielzeth's, with :math:`\sigma_f^2` the variance of the
fixed part over the rows:

.. math::

    R^2_\text{marginal} = \frac{\sigma_f^2}{\sigma_f^2 + \tau^2 + \sigma^2}, \qquad
    R^2_\text{conditional} = \frac{\sigma_f^2 + \tau^2}{\sigma_f^2 + \tau^2 + \sigma^2}

References
----------
Nakagawa, Schielzeth: *A general and simple method for obtaining R² from generalized linear mixed-effects models*,
Methods Ecol. Evol. 4, 2013, reference 75 of the dissertation.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats
from statsmodels.regression.linear_model import OLS

from lib.analysis.reml import FLAT, ConvergenceError, fit_random_intercept, moments
from lib.analysis.tenet.design import Design, design
from lib.analysis.tenet.models import MODELS, Model
from lib.analysis.tenet.rows import Rows, rows

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Fit:
    """An estimated model.

    Attributes
    ----------
    model
        What was fitted.
    coefficients
        One line per coefficient: ``term``, ``estimate``, ``standard_error``, ``low``, ``high`` (the ends of its 95%
        interval) and ``p_value``, not corrected.
    summary
        ``parameters``, ``condition_number``, ``rmse``; for a mixed model ``r2_conditional``, ``r2_marginal``,
        ``group_sd``, ``residual_sd``, for the others ``r2``, ``r2_adjusted``, ``residual_sd``; ``rows`` and ``attempts``.
    fitted, residuals
        With the random intercepts, where there are any; shape (N,).
    intercepts
        Predicted random intercept of each attempt, shape (G,); None without.
    engine, boundary, gradient
        What estimated it, whether the variance of the intercept is estimated as zero, and the slope of the criterion
        at the estimate. A fit that did not converge raises instead.
    dropped
        Terms and coefficients that these rows cannot estimate, with the cause.
    changed
        Coefficients that stand for something else than in a full design, because of a dropped column.
    """

    model: Model
    coefficients: pd.DataFrame
    summary: dict[str, float]
    fitted: np.ndarray
    residuals: np.ndarray
    intercepts: np.ndarray | None
    engine: str
    boundary: bool
    gradient: float
    dropped: pd.DataFrame
    changed: tuple[str, ...]

    def estimate(self, term: str) -> float:
        """Return an estimate; nan where the coefficient was dropped."""
        found = self.coefficients.set_index("term")["estimate"]
        return float(found.get(term, np.nan))

    def said(self) -> str:
        """Return how the estimation went, as a sentence."""
        # Not the slope itself: below its limit it is rounding, which no two machines share.
        how = f"{self.model.name} converged ({self.engine}, slope of the criterion below {FLAT:g})"
        if not self.model.random:
            how = f"{self.model.name} solved ({self.engine})"
        edge = (
            "; the variance of the intercept is estimated as zero, at its boundary"
            if self.boundary
            else ""
        )
        count = len(self.dropped)
        lost = f"; {count} {'term' if count == 1 else 'terms'} dropped" if count else ""
        return f"{how}{edge}{lost}."


def fit(model: Model, observations: Rows, *, engine: str = "profiled") -> Fit:
    """Estimate `model` from `observations`.

    Parameters
    ----------
    engine
        For a model with a random intercept ``profiled`` or ``statsmodels``; the others ignore it.

    Raises
    ------
    NothingToFit
        The rows do not allow the model at all.
    lib.analysis.reml.ConvergenceError
        There is no estimate that can be trusted.
    ValueError
        `engine` is unknown.
    """
    if observations.kind != model.rows:
        raise ValueError(
            f"{model.name} is fitted to {model.rows} rows, got {observations.kind} rows"
        )
    if engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}; expected one of {', '.join(ENGINES)}")
    made = design(model, observations)
    if not model.random:
        return _least_squares(model, made)
    return _mixed(model, made, engine)


def fit_models(
    ds: xr.Dataset, numbers: Iterable[int], *, smallest: float = -np.inf
) -> tuple[dict[str, Rows], dict[int, Fit]]:
    """Fit several of the twelve models to the results of the factorial experiment.

    Returns
    -------
    tuple
        The observations by kind, and the fits by number. `smallest` as in `lib.analysis.tenet.rows.rows`.
    """
    observations: dict[str, Rows] = {}
    fits = {}
    for number in numbers:
        model = MODELS[number]
        if model.rows not in observations:
            observations[model.rows] = rows(ds, model.rows, smallest=smallest)
        fits[number] = fit(model, observations[model.rows])
    return observations, fits


def _least_squares(model: Model, made: Design) -> Fit:
    result = OLS(made.response, made.matrix()).fit()
    return Fit(
        model=model,
        coefficients=_coefficients(made.names, result.params, result.bse, stats.t(result.df_resid)),
        summary={
            "parameters": len(made.names),
            "condition_number": _condition(made),
            "rmse": float(np.sqrt(np.mean(result.resid**2))),
            "r2": float(result.rsquared),
            "r2_adjusted": float(result.rsquared_adj),
            "residual_sd": float(np.sqrt(result.scale)),
            "rows": len(made.response),
            "attempts": len(made.constant),
        },
        fitted=np.asarray(result.fittedvalues),
        residuals=np.asarray(result.resid),
        intercepts=None,
        engine="statsmodels OLS",
        boundary=False,
        gradient=0.0,
        dropped=made.dropped,
        changed=made.changed,
    )


def _mixed(model: Model, made: Design, engine: str) -> Fit:
    try:
        beta, errors, group_variance, residual_variance, gradient = ENGINES[engine](made)
    except ConvergenceError as error:
        raise ConvergenceError(f"{model.name} ({model.response}): {error}") from None
    fixed = made.predict(beta)
    n = np.bincount(made.attempt)
    ratio = group_variance / residual_variance
    means = np.bincount(made.attempt, weights=made.response - fixed) / n
    intercepts = n * ratio / (1 + n * ratio) * means
    fitted = fixed + intercepts[made.attempt]
    explained = float(np.var(fixed, ddof=1))
    whole = explained + group_variance + residual_variance
    residuals = made.response - fitted
    return Fit(
        model=model,
        coefficients=_coefficients(made.names, beta, errors, stats.norm()),
        summary={
            "parameters": len(made.names),
            "condition_number": _condition(made),
            "rmse": float(np.sqrt(np.mean(residuals**2))),
            "r2_conditional": float((explained + group_variance) / whole),
            "r2_marginal": float(explained / whole),
            "group_sd": float(np.sqrt(group_variance)),
            "residual_sd": float(np.sqrt(residual_variance)),
            "rows": len(made.response),
            "attempts": len(n),
        },
        fitted=fitted,
        residuals=residuals,
        intercepts=intercepts,
        engine=engine,
        boundary=group_variance == 0.0,
        gradient=gradient,
        dropped=made.dropped,
        changed=made.changed,
    )


def _condition(made: Design) -> float:
    """Return the ratio of the extreme singular values of the matrix, as statsmodels reports it."""
    values = np.linalg.eigvalsh(made.gram())
    return float(np.sqrt(values[-1] / values[0]))


def _coefficients(names: tuple[str, ...], beta, errors, distribution) -> pd.DataFrame:
    reach = distribution.ppf((1 + CONFIDENCE) / 2) * errors
    return pd.DataFrame(
        {
            "term": names,
            "estimate": beta,
            "standard_error": errors,
            "low": beta - reach,
            "high": beta + reach,
            "p_value": 2 * distribution.sf(np.abs(beta / errors)),
        }
    )


def _profiled(made: Design) -> tuple[np.ndarray, np.ndarray, float, float, float]:
    columns = np.column_stack([made.varying, made.response])
    found = fit_random_intercept(moments(made.constant, columns, made.attempt))
    errors = np.sqrt(np.diag(found.covariance))
    return (
        found.coefficients[made.order],
        errors[made.order],
        found.group_variance,
        found.residual_variance,
        found.gradient,
    )


def _statsmodels(made: Design) -> tuple[np.ndarray, np.ndarray, float, float, float]:
    from statsmodels.regression.mixed_linear_model import (
        MixedLM,
    )  # slow to import, seldom asked for

    matrix = made.matrix()
    # It works on the products of unscaled columns; a common length spares it digits.
    scale = np.sqrt((matrix**2).mean(axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its warning of a boundary is raised where there is none
        result = MixedLM(made.response, matrix / scale, groups=made.attempt).fit(
            reml=True, method=["bfgs", "powell"], gtol=1e-9, maxiter=500
        )
    if not result.converged:
        raise ConvergenceError("statsmodels' MixedLM did not converge; use the engine 'profiled'")
    return (
        np.asarray(result.fe_params) / scale,
        np.asarray(result.bse_fe) / scale,
        float(np.asarray(result.cov_re)[0, 0]),
        float(result.scale),
        float("nan"),
    )


ENGINES: dict[str, Callable] = {"profiled": _profiled, "statsmodels": _statsmodels}
"""What estimates a random intercept, by name."""
