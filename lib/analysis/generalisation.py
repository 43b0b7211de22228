"""Which behaviours generalise across tasks: Table 1.4, derived from the tests.

A behaviour generalises if it is the same at all tasks of a family (Definition 1.2). It is tested in parts: for each
coefficient of a model, or for each architecture. What a part says is whether any of its tests rejects equality.
"""

import numpy as np
import pandas as pd

from lib.analysis.linear import Fits
from lib.analysis.pairwise import compare_tasks, count_rejections

NO, PARTLY, NOT_REJECTED, UNTESTED = "no", "partly", "not rejected", "untested"
"""Equality is rejected in every part; in some parts; in none; no part could be tested. The text writes a cross for the first
and both of its signs for the second. Equality that is not rejected is not shown: few attempts reject nothing."""

_ROW = ["behaviour", "level", "tasks", "effect"]


def verdict(parts: pd.DataFrame) -> str:
    """Return what the tests of a behaviour's `parts` say.

    Parameters
    ----------
    parts
        One row per coefficient or architecture, with ``tests`` (made) and ``rejected`` (counts).

    Returns
    -------
    str
        ``no``, ``partly``, ``not rejected`` or ``untested``.
    """
    tested = parts[parts["tests"] > 0]
    if tested.empty:
        return UNTESTED
    differs = tested["rejected"] > 0
    if differs.all():
        return NO
    return PARTLY if differs.any() else NOT_REJECTED


def summarise(
    first: Fits,
    variances: pd.DataFrame,
    times: pd.DataFrame,
    second: Fits,
    errors: pd.DataFrame,
) -> pd.DataFrame:
    r"""Return Table 1.4 for the results at hand.

    Parameters
    ----------
    first, second
        Fits of (1.8) and (1.11).
    variances
        Result of `lib.analysis.variance.compare_variances`; Levene's test, the one of the hypothesis (1.9), decides.
    times
        Result of `lib.analysis.convergence.compare_times`.
    errors
        Result of `lib.analysis.errors.compare_error_rates`.

    Returns
    -------
    pandas.DataFrame
        One row per line of the published table, and the second-order lines once more for all tasks, as Section 1.5.2 has
        them: ``behaviour``, ``level``, ``tasks`` (family), ``effect``, ``method``, ``parts`` (coefficients or architectures),
        ``parts_rejected`` (with a rejection), ``tests``, ``untested``, ``rejected`` and ``verdict``.
    """
    levene = variances[variances["test"] == "levene"]
    rows = [
        _pairwise_row(("average task accuracy", "first order", "T_f", "architecture"), first),
        _one_test_row(
            ("variance of task accuracy", "first order", "T_o", "architecture"),
            levene,
            "Levene's test",
        ),
        _one_test_row(
            ("convergence time", "first order", "T_f", "architecture"), times, "Kruskal-Wallis test"
        ),
        *(
            _pairwise_row(("average task accuracy", "second order", family, effect), second)
            for family in ("T_o", "T_f")
            for effect in EFFECTS
        ),
        _one_test_row(
            ("training error rate", "second order", "T_f", "architecture"), errors, "Pearson's test"
        ),
    ]
    return pd.DataFrame(rows)


EFFECTS = ("architecture", "hyperparameters", "architecture x hyperparameters")
"""Groups of coefficients of (1.11), as Table 1.4 has them."""


def effect_of(coefficients: pd.DataFrame) -> pd.Series:
    """Return to which of `EFFECTS` each coefficient belongs; the intercept is the reference architecture's."""
    term = coefficients["term"]
    crossed = term.str.contains("×", regex=False)
    main = term.isin(["intercept", "architecture"])
    names = np.select([crossed, main], [EFFECTS[2], EFFECTS[0]], default=EFFECTS[1])
    return pd.Series(names, index=coefficients.index)


def _pairwise_row(about: tuple, fits: Fits) -> dict:
    family, effect = about[2:]
    table = fits.coefficients
    table = table[effect_of(table) == effect]
    if family == "T_o":
        table = table[table["noise"] == "none"]
    parts = count_rejections(table, compare_tasks(table))
    return _row(about, f"model {fits.model.equation}", parts)


def _one_test_row(about: tuple, tests: pd.DataFrame, method: str) -> dict:
    """Return the row of a behaviour with one test for each architecture."""
    # Rates that are all zero are equal without a test.
    equal = tests["cause"].isin(["no attempt diverged", "every attempt diverged"])
    made = tests["p_value"].notna()
    parts = pd.DataFrame(
        {
            "tests": (made | equal).astype(int),
            "untested": (~(made | equal)).astype(int),
            "rejected": (tests["rejected"].fillna(False).astype(bool) & made).astype(int),
        }
    )
    return _row(about, method, parts)


def _row(about: tuple, method: str, parts: pd.DataFrame) -> dict:
    return {
        **dict(zip(_ROW, about, strict=True)),
        "method": method,
        "parts": len(parts),
        "parts_rejected": int((parts["rejected"] > 0).sum()),
        "tests": int(parts["tests"].sum()),
        "untested": int(parts["untested"].sum()),
        "rejected": int(parts["rejected"].sum()),
        "verdict": verdict(parts),
    }
