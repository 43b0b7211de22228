"""Whether the residuals of a model look like what the model assumes.

A normal linear model takes residuals as normal, of one spread, and free of a trend in the fitted value. Everything here
is a summary of at most some hundred numbers, so that it looks the same for a thousand rows and for a million.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats

from lib.analysis.linear import Fit
from lib.analysis.tenet.models import ACCURACY, MODELS
from lib.analysis.tenet.rows import Rows

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
BINS = 25
_QUANTILES = 99


def against_fitted(fit: Fit) -> pd.DataFrame:
    """Return quantiles of the residuals in bins of the fitted value that hold equally many rows.

    Returns
    -------
    pandas.DataFrame
        ``fitted`` (median of the bin), ``rows``, and one column for each of `SHARES`, such as ``q0.05``.
    """
    count = min(BINS, max(len(fit.fitted) // 10, 1))
    lines = []
    for part in np.array_split(np.argsort(fit.fitted, kind="stable"), count):
        quantiles = np.quantile(fit.residuals[part], SHARES)
        lines.append((np.median(fit.fitted[part]), len(part), *quantiles))
    return pd.DataFrame(lines, columns=["fitted", "rows", *(f"q{share}" for share in SHARES)])


def normal_quantiles(values: np.ndarray) -> pd.DataFrame:
    """Return quantiles of `values` in standard deviations, ``found``, beside the ``normal`` ones."""
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    scaled = (values - values.mean()) / (values.std() or 1.0)
    return pd.DataFrame({"normal": stats.norm.ppf(shares), "found": np.quantile(scaled, shares)})


def spread_by_architecture(fit: Fit, rows: Rows) -> pd.DataFrame:
    """Return ``architecture``, ``rows`` and ``deviation``, the standard deviation of its residuals, in the order of the names."""
    names = rows.attempts["architecture"].astype(str).to_numpy()[rows.attempt]
    grouped = pd.Series(fit.residuals, name="residual").groupby(names, sort=True)
    return (
        grouped.agg(rows="size", deviation=lambda part: part.std(ddof=0))
        .rename_axis("architecture")
        .reset_index()
    )


def diagnose(fits: Mapping[int, Fit], rows: Rows) -> pd.DataFrame:
    """Return what the residuals of models say in numbers, one line a model.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``skewness`` and ``excess_kurtosis`` (0 for normal residuals), ``beyond_3`` (share of residuals beyond three
        standard deviations; 0.0027 for normal ones), ``spread_ratio`` (largest over smallest deviation among architectures), ``robust_ratio`` (median of
        robust over model standard errors) and, where the response is the accuracy, ``impossible``: the share of fitted values below 0 or above 1.
    """
    lines = []
    for number, fit in fits.items():
        deviations = spread_by_architecture(fit, rows)["deviation"]
        line = {
            "model": number,
            "skewness": float(stats.skew(fit.residuals)),
            "excess_kurtosis": float(stats.kurtosis(fit.residuals)),
            "beyond_3": float(np.mean(np.abs(fit.residuals) > 3 * fit.residuals.std())),
            "spread_ratio": float(deviations.max() / max(deviations.min(), np.finfo(float).tiny)),
            "robust_ratio": float(
                (fit.coefficients["robust_error"] / fit.coefficients["standard_error"]).median()
            ),
        }
        if MODELS[number].response == ACCURACY:
            line["impossible"] = float(np.mean((fit.fitted < 0) | (fit.fitted > 1)))
        lines.append(line)
    return pd.DataFrame(lines)


def sentences(table: pd.DataFrame) -> list[str]:
    """Return one sentence per line of a table made by `diagnose`."""
    normal, out = 2 * stats.norm.sf(3), []
    for row in table.itertuples():
        tails = "heavier than" if row.beyond_3 > 2 * normal else "about as heavy as"
        tails = "lighter than" if row.beyond_3 < normal / 2 else tails
        sentence = (
            f"MODEL {row.model}: the tails of the residuals are {tails} normal ({row.beyond_3:.2%} lie beyond three standard "
            f"deviations; {normal:.2%} of normal ones would). The spread differs by a factor of {row.spread_ratio:.3g} between "
            "architectures"
            + (", too much for a single residual variance" if row.spread_ratio > 2 else "")
            + f"; robust standard errors are {row.robust_ratio:.2f} times the model's in the median."
        )
        if "impossible" in table:
            sentence += f" {row.impossible:.2%} of the fitted accuracies lie below 0 or above 1."
        out.append(sentence)
    return out


def by_architecture(rows: Rows) -> pd.DataFrame:
    """Return how accuracy and metric go together within each architecture.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``rows``, ``correlation`` (Pearson's) with ``low`` and ``high`` (95%, Fisher's, taking the attempts as what is
        independent), ``rank_correlation`` (Spearman's), and ``slope`` (accuracy per order of magnitude of the metric).
    """
    names = rows.attempts["architecture"].astype(str).to_numpy()[rows.attempt]
    lines = []
    for name in np.unique(names):
        own = names == name
        x, y = rows.metric[own], rows.accuracy[own]
        line = {
            "architecture": name,
            "rows": int(own.sum()),
            "attempts": len(np.unique(rows.attempt[own])),
        }
        if np.ptp(x) > 0 and np.ptp(y) > 0 and line["attempts"] > 3:
            found = stats.pearsonr(x, y).statistic
            reach = stats.norm.isf(0.025) / np.sqrt(line["attempts"] - 3)
            ends = np.tanh(np.arctanh(found) + np.array([-reach, reach]))
            line |= {"correlation": found, "low": ends[0], "high": ends[1]}
            line |= {
                "rank_correlation": stats.spearmanr(x, y).statistic,
                "slope": found * y.std() / x.std(),
            }
        lines.append(line)
    columns = [
        "architecture",
        "rows",
        "attempts",
        "correlation",
        "low",
        "high",
        "rank_correlation",
        "slope",
    ]
    return pd.DataFrame(lines).reindex(columns=columns)
