r"""Restricted maximum likelihood of a random intercept, from sums over groups.

.. math::

    y_{ij} = x_{ij}^\top \beta + u_i + \epsilon_{ij}, \qquad
    u_i \sim N(0, \tau^2), \quad \epsilon_{ij} \sim N(0, \sigma^2), \quad j = 1, \dots, n_i

Given the ratio :math:`\theta = \tau^2 / \sigma^2` everything is linear least squares: with
:math:`z_{ij} = (x_{ij}, y_{ij})` all that is needed of the rows is

.. math::

    A(\theta) = \sum_{ij} (z_{ij} - \bar z_i)(z_{ij} - \bar z_i)^\top
        + \sum_i \frac{n_i}{1 + n_i \theta} \bar z_i \bar z_i^\top

because :math:`(I + \theta 1 1^\top)^{-1} = I - \frac{\theta}{1 + n\theta} 1 1^\top`. The first sum
does not depend on :math:`\theta`, and in the second, groups of one size share a factor. A million
rows become one small matrix per size, and the search over :math:`\theta` takes almost no time.

Bates, Mächler, Bolker, Walker: *Fitting linear mixed-effects models using lme4*, J. Stat. Soft. 67,
2015, whose criterion (its equation 41) this is. The tests compare its estimates with those of
lme4 and statsmodels.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq

_LOG_RATIO = np.linspace(np.log(1e-8), np.log(1e12), 81)
"""Grid scanned before root-finding, since the profile can have several minima."""


INDEPENDENT = 1e-10
"""Smallest eigenvalue of the products of unit columns at which the columns count as independent.
Below it, rounding of the products would show in the sixth digit of a coefficient.
"""


class ConvergenceError(RuntimeError):
    """A model has no estimate that can be trusted; the message says why."""


class Moments(NamedTuple):
    """Sums over k columns in N rows of G groups, from which the criterion is computed."""

    within: np.ndarray
    """Sums of squares and products about the group means, shape (k, k)."""
    between: np.ndarray
    """For each size, the sum over its groups of products of group means, shape (sizes, k, k)."""
    sizes: np.ndarray
    """Rows in a group, distinct, shape (sizes,)."""
    groups: np.ndarray
    """Groups of that size, shape (sizes,)."""

    @property
    def rows(self) -> int:
        """N, the number of rows."""
        return round(float(self.sizes @ self.groups))

    def total(self, ratio: float | np.ndarray) -> np.ndarray:
        """Return the matrix A of the module's equation.

        Parameters
        ----------
        ratio
            Variance ratio, or several. A(0) has the products of all columns over rows.

        Returns
        -------
        numpy.ndarray
            Shape (k, k), or (ratios, k, k).
        """
        weight = self.sizes / (1 + np.multiply.outer(ratio, self.sizes))
        return self.within + np.tensordot(weight, self.between, axes=1)


class RandomIntercept(NamedTuple):
    """An estimated model; standard errors take the variances as known, as lme4's do."""

    coefficients: np.ndarray
    """Estimates, shape (p,), with their ``covariance``, shape (p, p)."""
    covariance: np.ndarray
    group_variance: float
    residual_variance: float


def moments(constant: np.ndarray, varying: np.ndarray, group: np.ndarray) -> Moments:
    """Return the sums over groups of the columns ``[constant, varying]``.

    Products of a column far from zero lose its digits: subtract a constant first, as
    `study.stats.design.Design` does.

    Parameters
    ----------
    constant
        Columns that do not vary within a group, shape (G, p).
    varying
        Columns that may vary within a group, shape (N, q).
    group
        Group of each row, whole numbers from 0 to G - 1, shape (N,).

    Returns
    -------
    Moments
        The sums.
    """
    n, means, about = grouped(varying, group, len(constant))
    p = constant.shape[1]
    k = p + varying.shape[1]
    within = np.zeros((k, k))
    within[p:, p:] = about.T @ about
    columns = np.hstack([constant, means])
    sizes = np.unique(n[n > 0])
    between = np.stack([columns[n == size].T @ columns[n == size] for size in sizes])
    return Moments(within, between, sizes.astype(float), np.bincount(n)[sizes].astype(float))


def grouped(columns: np.ndarray, group: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """Return sizes and means of groups, and the columns about these means.

    Parameters
    ----------
    columns
        Shape (N, q).
    group
        Group of each row, shape (N,).
    count
        Number G of groups.

    Returns
    -------
    tuple of numpy.ndarray
        Rows in each group, (G,); means in each group, (G, q); columns minus those means, (N, q).
    """
    n = np.bincount(group, minlength=count)
    sums = [np.bincount(group, weights=column, minlength=count) for column in columns.T]
    means = np.stack(sums, axis=1) / np.maximum(n, 1)[:, None]
    return n, means, columns - means[group]


def fit_random_intercept(data: Moments) -> RandomIntercept:
    """Estimate the model by restricted maximum likelihood.

    Parameters
    ----------
    data
        Moments whose last column is the response.

    Returns
    -------
    RandomIntercept
        Coefficients, their covariance, and both variances.

    Raises
    ------
    ConvergenceError
        Rows are as few as columns or groups, the columns are not independent, or the residual
        variance tends to zero.
    """
    k = len(data.within)
    if data.groups.sum() == 1:
        raise ConvergenceError(
            "there is one group, whose intercept cannot be separated from the common one; two or "
            "more are needed"
        )
    if data.rows <= max(k - 1, data.groups.sum()):
        raise ConvergenceError(
            f"{data.rows} rows of {data.groups.sum():.0f} groups cannot separate a random "
            f"intercept from the residual, with {k - 1} coefficients; more rows than both are "
            "needed"
        )
    # Columns of unit length: the square of a learning rate and an indicator differ by orders of
    # magnitude.
    scale = np.sqrt(np.diag(data.total(0.0)))
    if not (scale > 0).all():
        raise ConvergenceError("a column is zero in every row, so its coefficient is undefined")
    outer = np.outer(scale, scale)
    scaled = Moments(data.within / outer, data.between / outer, data.sizes, data.groups)
    if np.linalg.eigvalsh(scaled.total(0.0)[:-1, :-1])[0] < 1e-3 * INDEPENDENT:
        raise ConvergenceError(
            "the columns are not independent up to rounding; drop those that others determine, "
            "and subtract a constant from those far from zero"
        )
    ratio = _search(scaled)
    factor, beta, quadratic = _solve(scaled, ratio)
    residual = quadratic / (data.rows - (k - 1))
    unit = scale[-1] ** 2
    return RandomIntercept(
        coefficients=beta * scale[-1] / scale[:-1],
        covariance=cho_solve(factor, np.eye(k - 1)) * residual * unit / outer[:-1, :-1],
        group_variance=ratio * residual * unit,
        residual_variance=residual * unit,
    )


def _solve(data: Moments, ratio: float) -> tuple[tuple, np.ndarray, float]:
    """Return the factored matrix, the coefficients and the residual quadratic form."""
    total = data.total(ratio)
    factor = cho_factor(total[:-1, :-1])
    beta = cho_solve(factor, total[:-1, -1])
    return factor, beta, float(total[-1, -1] - total[:-1, -1] @ beta)


def _criteria(data: Moments, ratios: np.ndarray) -> np.ndarray:
    """Return the criterion at each ratio, shape as `ratios`; all matrices are factored at once."""
    total = data.total(ratios)
    try:
        factor = np.linalg.cholesky(total[:, :-1, :-1])
    except np.linalg.LinAlgError:
        raise ConvergenceError(
            "the columns are not independent; drop those that others already determine"
        ) from None
    solved = np.linalg.solve(factor, total[:, :-1, -1:])[..., 0]
    quadratic = total[:, -1, -1] - (solved**2).sum(axis=1)
    degrees = data.rows - solved.shape[1]
    return (
        degrees * (1 + np.log(2 * np.pi * np.maximum(quadratic, 1e-300) / degrees))
        + np.log1p(np.outer(ratios, data.sizes)) @ data.groups
        + 2 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    )


def _slope(data: Moments, ratio: float) -> float:
    """Return the derivative of the criterion with respect to the ratio."""
    factor, beta, quadratic = _solve(data, ratio)
    change = -np.tensordot((data.sizes / (1 + data.sizes * ratio)) ** 2, data.between, axes=1)
    residual = np.append(-beta, 1.0)
    return float(
        (data.rows - len(beta)) * (residual @ change @ residual) / quadratic
        + data.groups @ (data.sizes / (1 + data.sizes * ratio))
        + np.trace(cho_solve(factor, change[:-1, :-1]))
    )


def _search(data: Moments) -> float:
    """Return the ratio at which the criterion is smallest."""
    at_zero, *values = _criteria(data, np.array([0.0, *np.exp(_LOG_RATIO)]))
    best = int(np.argmin(values))
    if (best == 0 or at_zero <= values[best]) and _slope(data, 0.0) >= 0:
        return 0.0
    if best == len(values) - 1:
        smallest = np.exp(-_LOG_RATIO[-1])
        raise ConvergenceError(
            "the response does not vary within any group beyond what the columns and rounding "
            f"explain, so that the residual variance tends to zero: less than {smallest:.0g} of "
            "that between groups"
        )

    def slope_in_log(log_ratio: float) -> float:
        return _slope(data, np.exp(log_ratio)) * np.exp(log_ratio)

    low = _LOG_RATIO[best - 1]
    high = _LOG_RATIO[best + 1]
    if best == 0:
        # The slope at zero is negative, so there is a minimum between zero and the first value.
        low = -60.0
    try:
        return float(np.exp(brentq(slope_in_log, low, high, xtol=1e-12)))
    except (ValueError, RuntimeError):
        raise ConvergenceError(
            f"no smallest value of the criterion between variance ratios {np.exp(low):.3g} and "
            f"{np.exp(high):.3g}"
        ) from None
