"""Whether the residuals of a model look like what the model assumes.

A normal linear model takes residuals as normal, of one spread, and free of a trend in the fitted value. Everything here
is a summary of at most some hundred numbers, so that it looks the same for a thousand rows and for a million.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats

from lib.analysis.tenet.fits import Fit
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
    order = np.argsort(fit.fitted, kind="stable")
    lines = []
    for part in np.array_split(order, count):
        quantiles = np.quantile(fit.residuals[part], SHARES)
        lines.append((np.median(fit.fitted[part]), len(part), *quantiles))
    return pd.DataFrame(lines, columns=["fitted", "rows", *(f"q{share}" for share in SHARES)])


def normal_quantiles(values: np.ndarray) -> pd.DataFrame:
    """Return quantiles of `values` in standard deviations beside those of a normal distribution.

    Returns
    -------
    pandas.DataFrame
        ``normal`` and ``found``; equal where `values` are normal.
    """
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    spread = values.std()
    scaled = (values - values.mean()) / (spread if spread > 0 else 1.0)
    return pd.DataFrame({"normal": stats.norm.ppf(shares), "found": np.quantile(scaled, shares)})


def spread_by_architecture(fit: Fit, rows: Rows) -> pd.DataFrame:
    """Return the standard deviation of the residuals of each architecture.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``rows`` and ``deviation``, in the order of the names.
    """
    names = rows.attempts["architecture"].astype(str).to_numpy()
    architecture = names[rows.attempt]
    table = pd.DataFrame({"architecture": architecture, "residual": fit.residuals})
    grouped = table.groupby("architecture", sort=True)["residual"]
    return grouped.agg(rows="size", deviation=lambda part: part.std(ddof=0)).reset_index()


def diagnose(fit: Fit, rows: Rows) -> dict[str, float]:
    """Return what the residuals of a model say in numbers.

    Returns
    -------
    dict
        ``skewness`` and ``excess_kurtosis`` (0 for normal residuals), ``beyond_3`` (share of residuals beyond three standard
        deviations; 0.0027 for normal ones), ``spread_ratio`` (largest over smallest deviation among architectures) and,
        where the response is the accuracy, ``impossible``: the share of fitted values below 0 or above 1.
    """
    deviations = spread_by_architecture(fit, rows)["deviation"]
    spread = fit.residuals.std()
    out = {
        "skewness": float(stats.skew(fit.residuals)),
        "excess_kurtosis": float(stats.kurtosis(fit.residuals)),
        "beyond_3": float(np.mean(np.abs(fit.residuals) > 3 * spread)),
        "spread_ratio": float(deviations.max() / max(deviations.min(), np.finfo(float).tiny)),
    }
    if fit.model.response == "accuracy":
        out["impossible"] = float(np.mean((fit.fitted < 0) | (fit.fitted > 1)))
    return out


def table(found: Mapping[int, Mapping[str, float]]) -> pd.DataFrame:
    """Return the numbers of several models, each made by `diagnose`, one line a model."""
    return pd.DataFrame([{"model": number, **numbers} for number, numbers in found.items()])


def said(number: int, numbers: Mapping[str, float]) -> str:
    """Return the numbers of a model, made by `diagnose`, as a sentence."""
    normal = 2 * stats.norm.sf(3)
    share = numbers["beyond_3"]
    tails = (
        "heavier" if share > 2 * normal else "lighter" if share < normal / 2 else "about as heavy"
    )
    spread = numbers["spread_ratio"]
    sentence = (
        f"MODEL {number}: the tails of the residuals are {tails} {'as' if 'about' in tails else 'than'} normal "
        f"({share:.2%} beyond three deviations, {normal:.2%} if normal); the spread differs by a factor of {spread:.3g} between "
        "architectures"
        + (", so that one residual variance is a poor description" if spread > 2 else "")
    )
    if "impossible" in numbers:
        sentence += f"; {numbers['impossible']:.2%} of the fitted accuracies lie below 0 or above 1"
    return sentence + "."
