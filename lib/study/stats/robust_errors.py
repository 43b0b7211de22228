r"""Standard errors of linear models that hold when variances differ.

They also hold when the rows of a treatment depend on each other in any way. Without a random
intercept they come from a jackknife that leaves out one treatment at a time,

.. math::

    V = \sum_t B_t a_t a_t^\top B_t^\top, \qquad a_t = (I - H_{tt})^{-1} r_t,

with residuals r, hat matrix H, and B the pseudo-inverse that maps responses to coefficients. If
each treatment has one attempt, this is HC3. With a random intercept they are clustered by treatment
with the usual factor :math:`\frac{T}{T-1}\frac{N-1}{N-p}` for T treatments, N rows and p
coefficients.

MacKinnon, White: *Some heteroskedasticity-consistent covariance matrix estimators*, J. Econometrics
29, 1985.
Cameron, Miller: *A practitioner's guide to cluster-robust inference*, J. Human Resources 50, 2015.
"""

import numpy as np
import pandas as pd

from study.stats.design import Design

_LEVERAGE_ONE = 1e-9
"""Eigenvalue of I - H below which a direction is fitted exactly."""


def jackknife_errors(
    design: Design, matrix: np.ndarray, inverse: np.ndarray, residuals: np.ndarray
) -> np.ndarray:
    """Return robust errors of a model without random intercepts, from the jackknife.

    Parameters
    ----------
    design
        The model's columns.
    matrix
        Its centered columns, shape (N, p).
    inverse
        Pseudo-inverse of `matrix`, shape (p, N).
    residuals
        Shape (N,).

    Returns
    -------
    numpy.ndarray
        Standard errors for the original columns, shape (p,); nan for a coefficient that a single
        treatment determines.
    """
    treatment_of_row = pd.Series(design.treatment[design.attempt])
    treatments = list(treatment_of_row.groupby(treatment_of_row).indices.values())
    variance = np.zeros(len(inverse))
    # Treatments of equal size are handled together, as stacked arrays.
    for size in sorted({len(rows) for rows in treatments}):
        rows = np.stack([rows for rows in treatments if len(rows) == size])
        variance += _jackknife_variance(design.uncenter, matrix, inverse, residuals, rows)
    return np.sqrt(variance)


def _jackknife_variance(
    uncenter: np.ndarray,
    matrix: np.ndarray,
    inverse: np.ndarray,
    residuals: np.ndarray,
    rows: np.ndarray,
) -> np.ndarray:
    """Return what treatments of one size add to the variance of each coefficient, shape (p,).

    `rows` has the row numbers of each treatment, shape (treatments, size). The result is nan for a
    coefficient that a single treatment determines.
    """
    size = rows.shape[1]
    inverse_of_rows = inverse.T[rows].swapaxes(1, 2)  # (treatments, p, size)
    leverage_left = np.eye(size) - matrix[rows] @ inverse_of_rows
    values, vectors = np.linalg.eigh(leverage_left)
    # In a direction of eigenvalue zero the fit is exact, so its residual is rounding, not evidence.
    residual = values > _LEVERAGE_ONE
    divisors = np.where(residual, values, np.inf)
    rotated_inverse = uncenter @ inverse_of_rows @ vectors
    rotated_residuals = (residuals[rows][:, None] @ vectors)[:, 0]
    deleted_residuals = rotated_residuals / divisors
    changes = (rotated_inverse @ deleted_residuals[:, :, None])[..., 0]
    variance = (changes**2).sum(axis=0)
    depends = np.abs(rotated_inverse) > 1e-12
    determined = (depends & ~residual[:, None]).any(axis=(0, 2))
    variance[determined] = np.nan
    return variance


def treatment_scores(design: Design, residuals: np.ndarray) -> np.ndarray:
    r"""Return the products of columns and residuals summed over each treatment.

    Divided by the residual variance they are the scores :math:`X_t^\top V_t^{-1} (y_t - X_t
    \beta)`, because :math:`V^{-1} (y - X \beta)` is the residual over its variance.

    Parameters
    ----------
    design
        The model's columns.
    residuals
        The response minus the fitted values, random intercepts included, shape (N,).

    Returns
    -------
    numpy.ndarray
        Shape (treatments, p), columns ordered as `Design.names`.
    """
    sum_of_attempt = np.bincount(design.attempt, weights=residuals)
    treatment_of_row = design.treatment[design.attempt]
    columns = []
    for column in design.centered_constant.T:
        columns.append(np.bincount(design.treatment, weights=column * sum_of_attempt))
    for column in design.centered_varying.T:
        columns.append(np.bincount(treatment_of_row, weights=column * residuals))
    return np.column_stack(columns)[:, design.order]


def clustered_errors(design: Design, covariance: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return robust errors of a model with random intercepts, clustered by treatment.

    Parameters
    ----------
    design
        The model's columns.
    covariance
        Covariance of the coefficients of the centered columns, shape (p, p).
    scores
        Score of each treatment (`treatment_scores` over the residual variance), shape
        (treatments, p).

    Returns
    -------
    numpy.ndarray
        Standard errors for the original columns, shape (p,); nan if there is one treatment.
    """
    treatments = len(scores)
    if treatments == 1:
        return np.full(len(covariance), np.nan)
    rows = len(design.response)
    factor = treatments / (treatments - 1) * (rows - 1) / (rows - len(covariance))
    changes = scores @ covariance @ design.uncenter.T
    return np.sqrt(factor * (changes**2).sum(axis=0))
