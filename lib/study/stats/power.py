"""Confidence level of all intervals, and the smallest effect that a test would detect."""

import math

from scipy import stats

CONFIDENCE = 0.95
"""Level of every confidence interval of the project."""
TAIL = (1 - CONFIDENCE) / 2
"""Probability that such an interval leaves out on either side."""
Z = float(stats.norm.isf(TAIL))
"""Half the width of a normal 95% interval, in standard errors."""
DETECTED = 0.8
"""Power at which a minimum detectable effect is stated."""


def detectable(error: float, *, tests: int = 1, df: float = math.inf) -> float:
    r"""Return the minimum detectable effect of a test at level 0.05 with 80% power.

    .. math:: (t_{1-\alpha/2m} + t_{0.8})\,\mathrm{SE}

    Parameters
    ----------
    error
        Standard error of the estimate; arrays work too.
    tests
        Number m of tests that share the level (Bonferroni).
    df
        Degrees of freedom of the standard error.

    Returns
    -------
    float
        In the unit of `error`.
    """
    return (stats.t.isf(TAIL / tests, df) + stats.t.ppf(DETECTED, df)) * error
