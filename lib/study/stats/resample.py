r"""How much estimates and explained variances vary when other treatments had been tried: the
Bayesian bootstrap over treatments.

Every treatment gets a weight drawn from an exponential distribution in place of how often it would
be drawn again, so that no level of a factor is ever empty (Rubin, *The Bayesian bootstrap*, Annals
of Statistics 9, 1981). All attempts of a treatment share its weight, and all rows of an attempt:
replicates are nearly alike, and as many more of them would not be as much more evidence for a claim
on networks and tasks. A random intercept keeps its ratio of variances, which saves the search for
it and hardly matters to what is asked here.

Residuals of a fit are smaller than the errors, and a bootstrap of few treatments knows neither that
nor how uncertain its own spread is: its intervals cover too little. So the distance of every draw
from the estimate is stretched by

.. math:: \sqrt{\frac{G}{G - p}} \, \frac{t_{G-p}}{z}

with G treatments, p coefficients that vary between attempts, and the quantiles of Student's and of
the normal distribution; `notebooks/34_recovery.ipynb` shows how often they cover.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from study.stats.design import INTERCEPT, NothingToFit
from study.stats.linear import CONFIDENCE, Fit
from study.stats.reml import grouped


class Drawn(NamedTuple):
    """Numbers of a model; the first of each is the estimate, the others are draws."""

    r2: np.ndarray
    """Explained variance: marginal with a random intercept, plain without; shape (1 + draws,)."""
    coefficients: np.ndarray
    """By the order of the design, shape (1 + draws, p)."""


def resample(fit: Fit, *, draws: int = 200) -> Drawn:
    """Estimate a model again with random weights of its treatments.

    Models that were fitted to the same rows get the same weights, so that their numbers can be
    compared draw by draw.
    """
    made = fit.design
    ratio = 0.0
    if fit.intercepts is not None:
        ratio = (fit.summary["group_sd"] / fit.summary["residual_sd"]) ** 2
    columns = np.column_stack([made.centred_varying, made.response - made.response.mean()])
    n, own, about = grouped(columns, made.attempt, len(made.constant))
    q, k = columns.shape[1], made.constant.shape[1] + columns.shape[1]
    products = np.stack(
        [np.bincount(made.attempt, weights=a * b) for a in about.T for b in about.T]
    )
    means = np.hstack([made.centred_constant, own])
    intercept = made.order[made.names.index(INTERCEPT)]
    rng = np.random.default_rng(0)
    treatments = made.treatment.max() + 1
    if treatments < 2:
        raise NothingToFit("one treatment does not tell how much treatments vary")
    drawn = rng.exponential(size=(draws, treatments))[:, made.treatment]
    weights = np.vstack([np.ones(len(n)), drawn])
    r2, coefficients = np.empty(draws + 1), np.empty((draws + 1, k - 1))
    for place, weight in enumerate(weights):
        within = np.zeros((k, k))
        within[k - q :, k - q :] = (products @ weight).reshape(q, q)
        total = means.T @ (means * (weight * n)[:, None]) + within
        shrunk = means.T @ (means * (weight * n / (1 + n * ratio))[:, None]) + within
        scale = np.sqrt(np.diag(shrunk))
        scaled = shrunk / np.outer(scale, scale)
        solved = np.linalg.solve(scaled[:-1, :-1], scaled[:-1, -1])
        beta, rows = solved * scale[-1] / scale[:-1], weight @ n
        left = (1 - scaled[:-1, -1] @ solved) * scale[-1] ** 2
        residual = left / (rows * (1 - (k - 1) / n.sum()))
        mean = total[intercept, :-1] @ beta / rows
        explained = beta @ total[:-1, :-1] @ beta / rows - mean**2
        whole = explained + (1 + ratio) * residual
        if fit.intercepts is None:
            whole = total[-1, -1] / rows - (total[intercept, -1] / rows) ** 2
        r2[place], coefficients[place] = explained / whole, beta[made.order]
    coefficients[:, made.names.index(INTERCEPT)] += made.response.mean()
    coefficients = coefficients @ made.back.T
    wider = stretch(treatments, made.constant.shape[1])
    return Drawn(*(one[0] + wider * (one - one[0]) for one in (r2, coefficients)))


def stretch(treatments: int, coefficients: int) -> float:
    """Return by what draws of a model are stretched that has so many coefficients between
    attempts.
    """
    free = max(treatments - coefficients, 1)
    tail = (1 - CONFIDENCE) / 2
    return float(np.sqrt(treatments / free) * stats.t.isf(tail, free) / stats.norm.isf(tail))


def interval(numbers: np.ndarray) -> tuple[float, float, float]:
    """Return the estimate, the first of `numbers`, and the ends of its 95% interval.

    The lower end lies on the other side of the estimate than the draws do (the basic bootstrap)
    where that is lower, because an explained variance is biased upwards and its draws are twice;
    the upper end where that is higher, because draws of what cannot be negative pile up at zero,
    and their mirror image ends too soon.
    """
    estimate, *draws = numbers
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    low, high = min(low, 2 * estimate - high), max(high, 2 * estimate - low)
    return float(estimate), float(low), float(high)
