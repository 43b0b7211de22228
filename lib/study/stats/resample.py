r"""The Bayesian bootstrap over treatments: uncertainty of coefficients and explained variances.

Every treatment gets a weight drawn from an exponential distribution, instead of the number of
times that it would be drawn with replacement, so that no level of a factor is ever empty (Rubin,
*The Bayesian bootstrap*, Annals of Statistics 9, 1981). All attempts of a treatment share its
weight, and so do all rows of an attempt: replicates are nearly equal, so more of them would hardly
be more evidence about networks and tasks. A model with a random intercept keeps its ratio of
variances, which avoids a search per draw and hardly changes the results.

A bootstrap of few treatments gives intervals that are too narrow, for two reasons: the residuals of
a fit are smaller than the errors, and the spread of the draws is uncertain itself. Both are
corrected: the distance of every draw from the estimate is multiplied by

.. math:: \sqrt{\frac{G}{G - p}} \, \frac{t_{G-p}}{z}

with G treatments, p coefficients that vary between attempts, and the quantiles of Student's and of
the normal distribution. `notebooks/34_recovery.ipynb` measures how often the intervals cover.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from study.stats.design import INTERCEPT, Design, NothingToFit
from study.stats.linear import LinearFit
from study.stats.power import TAIL, Z
from study.stats.reml import grouped


class Draws(NamedTuple):
    """Numbers of a model: the first is the estimate, the others are draws."""

    r2: np.ndarray
    """Explained variance: marginal with a random intercept, plain without; shape (1 + draws,)."""
    coefficients: np.ndarray
    """Coefficients ordered as `study.stats.design.Design.names`, shape (1 + draws, p)."""


class BootstrapInterval(NamedTuple):
    """An estimate with the ends of its 95% interval."""

    estimate: float
    low: float
    high: float


def resample(fit: LinearFit, *, draws: int = 200) -> Draws:
    """Estimate a model again with random weights of its treatments.

    Models that were fitted to the same rows get the same weights, so that their numbers can be
    compared draw by draw.

    Parameters
    ----------
    fit
        The model.
    draws
        Number of draws.

    Returns
    -------
    Draws
        The estimate and the draws.

    Raises
    ------
    NothingToFit
        There is a single treatment.
    """
    design = fit.design
    treatments = design.treatment.max() + 1
    if treatments < 2:
        raise NothingToFit("one treatment gives no information on how much treatments vary")
    rng = np.random.default_rng(0)
    weights = rng.exponential(size=(draws, treatments))[:, design.treatment]
    weights = np.vstack([np.ones(len(design.constant)), weights])
    sums = _AttemptSums(fit)
    r2 = []
    coefficients = []
    for weight in weights:
        draw_r2, draw_coefficients = sums.estimate(weight)
        r2.append(draw_r2)
        coefficients.append(draw_coefficients)
    factor = stretch(treatments, design.constant.shape[1])
    return Draws(
        r2=_stretch_draws(np.array(r2), factor),
        coefficients=_stretch_draws(np.array(coefficients), factor),
    )


def _stretch_draws(numbers: np.ndarray, factor: float) -> np.ndarray:
    """Multiply the distance of the draws from the estimate, which is the first of `numbers`."""
    return numbers[0] + factor * (numbers - numbers[0])


class _AttemptSums:
    """Sums over attempts from which a model with weighted attempts is estimated.

    The notation is that of `study.stats.reml`: the columns are ``[constant, varying, response]``,
    centered, and the ratio is the variance of the random intercept over the residual variance.
    """

    def __init__(self, fit: LinearFit) -> None:
        design = fit.design
        self.design: Design = design
        self.random = fit.intercepts is not None
        self.ratio = 0.0
        if self.random:
            self.ratio = (fit.summary["group_sd"] / fit.summary["residual_sd"]) ** 2
        varying = np.column_stack(
            [design.centered_varying, design.response - design.response.mean()]
        )
        rows, means, deviations = grouped(varying, design.attempt, len(design.constant))
        self.rows = rows
        """Rows of each attempt, shape (G,)."""
        self.means = np.hstack([design.centered_constant, means])
        """Means of the columns in each attempt, shape (G, k)."""
        products = []
        for left in deviations.T:
            for right in deviations.T:
                products.append(np.bincount(design.attempt, weights=left * right))
        self.products = np.stack(products)
        """Products of the deviations from these means, summed over the rows of each attempt."""

    def estimate(self, weight: np.ndarray) -> tuple[float, np.ndarray]:
        """Return explained variance and coefficients with weighted attempts.

        Parameters
        ----------
        weight
            Weight of each attempt, shape (G,).

        Returns
        -------
        explained
            Explained variance.
        coefficients
            Shape (p,).
        """
        design = self.design
        within = self._within(weight)
        # A(0) and A(ratio), the matrices of reml
        plain = self._between(weight * self.rows) + within
        shrunk = self._between(weight * self.rows / (1 + self.rows * self.ratio)) + within
        # Columns of unit length: scales that differ by orders of magnitude would lose digits.
        scale = np.sqrt(np.diag(shrunk))
        scaled = shrunk / np.outer(scale, scale)
        solution = np.linalg.solve(scaled[:-1, :-1], scaled[:-1, -1])
        beta = solution * scale[-1] / scale[:-1]
        rows = weight @ self.rows
        unexplained = (1 - scaled[:-1, -1] @ solution) * scale[-1] ** 2
        residual_variance = unexplained / (rows * (1 - len(beta) / self.rows.sum()))
        intercept = design.order[design.names.index(INTERCEPT)]
        fixed_mean = plain[intercept, :-1] @ beta / rows
        fixed_variance = beta @ plain[:-1, :-1] @ beta / rows - fixed_mean**2
        if self.random:
            total_variance = fixed_variance + (1 + self.ratio) * residual_variance
        else:
            total_variance = plain[-1, -1] / rows - (plain[intercept, -1] / rows) ** 2
        coefficients = beta[design.order]
        coefficients[design.names.index(INTERCEPT)] += design.response.mean()
        return fixed_variance / total_variance, design.uncenter @ coefficients

    def _between(self, weight: np.ndarray) -> np.ndarray:
        """Return the weighted products of the attempts' means, shape (k, k)."""
        return self.means.T @ (self.means * weight[:, None])

    def _within(self, weight: np.ndarray) -> np.ndarray:
        """Return the weighted products of deviations from the attempts' means, shape (k, k)."""
        columns = self.means.shape[1]
        varying = self.design.centered_varying.shape[1] + 1
        within = np.zeros((columns, columns))
        sums = (self.products @ weight).reshape(varying, varying)
        within[columns - varying :, columns - varying :] = sums
        return within


def stretch(treatments: int, coefficients: int) -> float:
    """Return the factor that widens the draws of a model with few treatments.

    Parameters
    ----------
    treatments
        Number of treatments.
    coefficients
        Number of coefficients that vary between attempts.

    Returns
    -------
    float
        The factor of the module's equation, above 1.
    """
    df = max(treatments - coefficients, 1)
    return float(np.sqrt(treatments / df) * stats.t.isf(TAIL, df) / Z)


def interval(numbers: np.ndarray) -> BootstrapInterval:
    """Return an estimate and its 95% interval.

    Each end is the more conservative one of the percentile bootstrap and the basic bootstrap. The
    basic bootstrap may reach lower, because an explained variance is biased upward and its draws
    are biased twice. The percentile bootstrap may reach higher, because draws of a quantity that
    cannot be negative pile up at zero, so their mirror image ends too early.

    Parameters
    ----------
    numbers
        The estimate, then the draws, shape (1 + draws,).

    Returns
    -------
    BootstrapInterval
    """
    estimate, *draws = numbers
    percentile_low, percentile_high = np.quantile(draws, [TAIL, 1 - TAIL])
    low = min(percentile_low, 2 * estimate - percentile_high)
    high = max(percentile_high, 2 * estimate - percentile_low)
    return BootstrapInterval(float(estimate), float(low), float(high))
