"""Whether intervals confirm predictions that were written down before the runs."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

HOLDS = "holds"
FAILS = "fails"
UNDECIDED = "undecided"


class MeanOfRuns(NamedTuple):
    """A mean over runs and half the width of its confidence interval."""

    mean: float
    half_width: float


def mean_of_runs(values: np.ndarray, confidence: float) -> MeanOfRuns:
    """Return the mean of a measurement over runs with Student's interval.

    Parameters
    ----------
    values
        One value per run, shape (n,).
    confidence
        Level of the interval, such as 0.95.

    Returns
    -------
    MeanOfRuns
        In the unit of `values`; the interval is nan for a single run.
    """
    half_width = stats.t.ppf((1 + confidence) / 2, len(values) - 1) * stats.sem(values)
    return MeanOfRuns(np.mean(values), half_width)


def outcome(
    effect: Mapping[str, float], *, above: float = -math.inf, below: float = math.inf
) -> str:
    """Return whether an effect lies in the predicted range.

    Parameters
    ----------
    effect
        ``low`` and ``high``, the ends of its interval.
    above, below
        Ends of the predicted range.

    Returns
    -------
    str
        `HOLDS` if the interval lies inside the range, `FAILS` if it lies outside, else `UNDECIDED`.
    """
    low = effect["low"]
    high = effect["high"]
    if above < low and high < below:
        return HOLDS
    if high < above or low > below:
        return FAILS
    return UNDECIDED
