"""Whether two measurements order attempts the same way."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import spearmanr


def rank_correlation(frame: pd.DataFrame) -> tuple[float, int]:
    """Return Spearman's rank correlation of metric and accuracy and the number of rows it rests on.

    Rows in which either value is undefined are left out; infinite values have a rank and stay.

    Returns
    -------
    tuple
        The correlation, between -1 and 1, and the number of rows. The correlation is nan where fewer than
        three rows are left or one of the columns is constant: then there is no order to compare.
    """
    pairs = frame[["metric", "accuracy"]].dropna()
    if len(pairs) < 3 or (pairs.nunique() < 2).any():
        return float("nan"), len(pairs)
    # Ranks first: a difference of infinities inside the correlation would be undefined.
    ranks = pairs.rank()
    return float(spearmanr(np.asarray(ranks)).statistic), len(pairs)


def rank_correlations(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the rank correlation of metric and accuracy in each group of rows.

    Returns
    -------
    pandas.DataFrame
        `by`, ``rho`` and ``n`` as `rank_correlation` returns them, and ``median_metric``.
    """
    rows = [
        (*levels, *rank_correlation(part), part["metric"].median())
        for levels, part in frame.groupby(list(by))
    ]
    return pd.DataFrame(rows, columns=[*by, "rho", "n", "median_metric"])
