"""How often an analysis of newly drawn data finds a published number that the simulation was not fitted to.

A number that went into the simulation must come out again; that says nothing. What follows from the others, by the algebra of linear
models and by who completed, is a test, of the analysis and of the published tables' agreement with each other. One dataset has one luck that all of its
coefficients share, so that the count is taken over many.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from lib.analysis.design import INTERCEPT
from lib.analysis.linear import CONFIDENCE
from lib.analysis.simulated.draw import simulate
from lib.analysis.tenet import compare
from lib.analysis.tenet.fits import fit_models
from lib.analysis.tenet.models import ACCURACY, METRIC, MODELS

MEANS = (3, 6, 9, 12)
"""Models whose coefficients are the simulation's means, all of them."""
TERMS = {
    **{number: (INTERCEPT, MODELS[number].predictor) for number in (1, 4, 7, 10)},
    2: (METRIC, "epoch"),
    5: (METRIC,),
    8: (ACCURACY,),
    11: (ACCURACY,),
}
"""Coefficients of the others that its moments and covariances were chosen by."""
STATISTICS = {
    **dict.fromkeys((1, 2, 3, 7, 8, 9), ("RMSE", "conditional R²", "marginal R²")),
    **dict.fromkeys((6, 10, 12), ("RMSE",)),
}
"""Summary statistics that they were chosen by."""


def fitted_to(model: int, what: str) -> bool:
    """Return whether the simulation was fitted to a coefficient or a summary statistic of a model."""
    return (model in MEANS and what not in compare.STATISTICS.values()) or what in (
        *TERMS.get(model, ()),
        *STATISTICS.get(model, ()),
    )


def recover(seeds: Sequence[int], *, replicates: int = 2) -> pd.DataFrame:
    """Draw datasets, analyse them and compare the coefficients that they were not fitted to.

    Returns
    -------
    pandas.DataFrame
        As `lib.analysis.tenet.compare.recovery`, for each of `seeds`, with ``seed``.
    """
    numbers = [number for number in MODELS if number not in MEANS and number not in (1, 4, 7, 10)]
    tables = []
    for seed in seeds:
        fits = fit_models(simulate(seed, replicates=replicates), numbers)[1]
        table = compare.recovery(fits).assign(seed=seed)
        known = [fitted_to(row.model, row.term) for row in table.itertuples()]
        tables.append(table[~np.array(known)])
    return pd.concat(tables, ignore_index=True)


def coverage(table: pd.DataFrame) -> pd.DataFrame:
    """Return how often an interval holds the published value.

    Parameters
    ----------
    table
        Made by `recover`.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``coefficients``, ``seeds``, ``covered`` (share of the 95% intervals that hold the published value) with ``low`` and ``high`` (95%
        interval of that share, from how it varies between seeds), ``rms`` (root mean square of z, 1 where errors are right) and ``largest_bias`` (of a coefficient's mean distance
        over the seeds, in standard errors of that mean).
    """
    lines = []
    for number, rows in table.groupby("model"):
        inside = rows["z"].abs() < stats.norm.isf((1 - CONFIDENCE) / 2)
        shares = inside.groupby(rows["seed"]).mean()
        reach = stats.t.isf((1 - CONFIDENCE) / 2, len(shares) - 1) * stats.sem(shares)
        bias = rows.groupby("term")["z"].mean() * np.sqrt(len(shares))
        line = {
            "model": number,
            "coefficients": rows["term"].nunique(),
            "seeds": len(shares),
            "covered": shares.mean(),
        }
        line |= {"low": shares.mean() - reach, "high": min(shares.mean() + reach, 1.0)}
        lines.append(
            {**line, "rms": np.sqrt((rows["z"] ** 2).mean()), "largest_bias": bias.abs().max()}
        )
    return pd.DataFrame(lines)
