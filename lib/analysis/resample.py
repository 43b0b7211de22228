"""How much estimates and explained variances vary when other attempts had been trained: the Bayesian bootstrap over attempts.

Every attempt gets a weight drawn from an exponential distribution in place of how often it would be drawn again, so that no
cell of the design is ever empty (Rubin, *The Bayesian bootstrap*, Annals of Statistics 9, 1981). All rows of an attempt share its
weight. A random intercept keeps its ratio of variances, which saves the search for it and hardly matters to what is asked here.
"""

from typing import NamedTuple

import numpy as np

from lib.analysis.design import INTERCEPT
from lib.analysis.linear import Fit


class Drawn(NamedTuple):
    """Numbers of a model; the first of each is the estimate, the others are draws.

    Attributes
    ----------
    r2
        Explained variance: marginal with a random intercept, plain without; shape (1 + draws,).
    coefficients
        By the order of the design, shape (1 + draws, p).
    """

    r2: np.ndarray
    coefficients: np.ndarray


def resample(fit: Fit, *, draws: int = 200, seed: int = 0) -> Drawn:
    """Estimate a model again with random weights of its attempts.

    Models that were fitted to the same rows get the same weights from the same `seed`, so that their numbers can be compared draw by draw.
    """
    made = fit.design
    n = np.bincount(made.attempt).astype(float)
    ratio = 0.0
    if fit.intercepts is not None:
        ratio = (fit.summary["group_sd"] / fit.summary["residual_sd"]) ** 2
    columns = np.column_stack([made.varying, made.response - made.response.mean()])
    sums = np.stack([np.bincount(made.attempt, weights=c) for c in columns.T], axis=1)
    about = columns - (sums / n[:, None])[made.attempt]
    q, k = columns.shape[1], made.constant.shape[1] + columns.shape[1]
    products = np.stack(
        [np.bincount(made.attempt, weights=a * b) for a in about.T for b in about.T]
    )
    means = np.hstack([made.constant, sums / n[:, None]])
    intercept = [*made.constant_names, *made.varying_names].index(INTERCEPT)
    rng = np.random.default_rng(seed)
    weights = np.vstack([np.ones(len(n)), rng.exponential(size=(draws, len(n)))])
    r2, coefficients = np.empty(draws + 1), np.empty((draws + 1, k - 1))
    for place, weight in enumerate(weights):
        within = np.zeros((k, k))
        within[k - q :, k - q :] = (products @ weight).reshape(q, q)
        total = means.T @ (means * (weight * n)[:, None]) + within
        shrunk = total
        if ratio:
            shrunk = means.T @ (means * (weight * n / (1 + n * ratio))[:, None]) + within
        scale = np.sqrt(np.diag(shrunk))
        scaled = shrunk / np.outer(scale, scale)
        solved = np.linalg.solve(scaled[:-1, :-1], scaled[:-1, -1])
        beta = solved * scale[-1] / scale[:-1]
        rows = weight @ n
        residual = (
            (1 - scaled[:-1, -1] @ solved) * scale[-1] ** 2 / (rows * (1 - (k - 1) / n.sum()))
        )
        explained = (
            beta @ total[:-1, :-1] @ beta / rows - (total[intercept, :-1] @ beta / rows) ** 2
        )
        if ratio:
            r2[place] = explained / (explained + (1 + ratio) * residual)
        else:
            whole = total[-1, -1] / rows - (total[intercept, -1] / rows) ** 2
            r2[place] = explained / whole
        coefficients[place] = beta[made.order]
    coefficients[:, made.names.index(INTERCEPT)] += made.response.mean()
    return Drawn(r2, coefficients)
