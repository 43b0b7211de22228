"""p-values of claims, and their corrections for many claims: Holm, and Benjamini and Hochberg."""

import math

import numpy as np
import pandas as pd
from scipy import stats

from study.claims.estimates import Estimate
from study.claims.listed import claims
from study.claims.power import distance, needs_all_parts
from study.claims.region import Region
from study.claims.verdict import AGREES, DIFFERS, UNDECIDED
from study.stats.power import CONFIDENCE


def p_value(estimate: Estimate, region: Region) -> float:
    """Return the two-sided p-value of the null hypothesis that the quantity lies at a threshold.

    Parameters
    ----------
    estimate
        The quantity with its interval.
    region
        The end nearest to the estimate is the threshold.

    Returns
    -------
    float
        Below .05 exactly if the interval contains no threshold; ``nan`` if nothing was measured, or
        if the quantity is a count without chance (`study.claims.operations`).
        By the distribution of the quantity if it is known (`Estimate.exact`), else by Student's.
        For the smallest or the largest of several quantities, it is the largest of their p-values
        if the verdict takes all of them, and the smallest, after Bonferroni's correction, if one
        of them suffices.
    """
    if math.isnan(estimate.low):
        return math.nan
    if not estimate.parts and estimate.exact:
        thresholds = [end for end in (region.above, region.below) if math.isfinite(end)]
        return max(estimate.exact.p_value(threshold) for threshold in thresholds)
    if not estimate.parts:
        return float(2 * stats.t.sf(distance(estimate, region), estimate.df))
    inside = region.contains(estimate.value, estimate.value)
    takes_all = needs_all_parts(estimate, region, inside)
    p_values = []
    for part in estimate.parts:
        on_same_side = inside == region.contains(part.value, part.value)
        if takes_all or on_same_side:
            p_values.append(p_value(part, region))
    if takes_all:
        return max(p_values)
    return min(1.0, len(estimate.parts) * min(p_values))


def holm_adjusted(p: pd.Series) -> pd.Series:
    """Return p-values after Holm's correction (1979) over those that are known.

    statsmodels' function runs the garbage collector at every call, which takes longer than a fit.

    Parameters
    ----------
    p
        p-values, ``nan`` if unknown.

    Returns
    -------
    pandas.Series
        Adjusted p-values in the same order.
    """
    ranked = p.dropna().sort_values(kind="stable")
    adjusted = (ranked * np.arange(len(ranked), 0, -1)).cummax().clip(upper=1)
    return adjusted.reindex(p.index)


def benjamini_hochberg_adjusted(p: pd.Series) -> pd.Series:
    """Return p-values that control the false discovery rate (Benjamini and Hochberg, 1995).

    Parameters
    ----------
    p
        p-values, ``nan`` if unknown.

    Returns
    -------
    pandas.Series
        Adjusted p-values in the same order.
    """
    known = p.dropna()
    adjusted = known.to_numpy()
    if len(known):
        adjusted = stats.false_discovery_control(known)
    return pd.Series(adjusted, known.index, dtype=float).reindex(p.index)


CORRECTIONS = {"holm": holm_adjusted, "benjamini_hochberg": benjamini_hochberg_adjusted}


def corrected_verdicts(judged: pd.DataFrame, correction: str = "holm") -> pd.Series:
    """Return the verdicts after a correction over all claims of a paper that have a p-value.

    Parameters
    ----------
    judged
        Columns ``id``, ``verdict`` and ``p``.
    correction
        One of `CORRECTIONS`.

    Returns
    -------
    pandas.Series
        Verdicts; those that the correction withdraws are undecided.
    """
    papers = judged["id"].map({name: claim.paper for name, claim in claims().items()})
    adjusted = judged.groupby(papers)["p"].transform(CORRECTIONS[correction])
    lost = adjusted >= 1 - CONFIDENCE
    decided = judged["verdict"].isin((AGREES, DIFFERS))
    return judged["verdict"].mask(lost & decided, UNDECIDED)
