r"""Whether a coefficient is the same at every task: pairwise tests (1.4) with Bonferroni's correction.

.. math::

    H_0 : \beta^{(t)} = \beta^{(t')} \quad \text{vs.} \quad H_A : \beta^{(t)} \ne \beta^{(t')}, \qquad
    T = \frac{\hat\beta^{(t)} - \hat\beta^{(t')}}{\sqrt{s_t^2 + s_{t'}^2}} \quad (1.4)

The fits of two tasks share no attempt, so their variances add. The text does not print its statistic; here T is compared
with Student's distribution, whose degrees of freedom are Satterthwaite's,
:math:`(s_t^2 + s_{t'}^2)^2 / (s_t^4/\nu_t + s_{t'}^4/\nu_{t'})`, which allows tasks of different residual variance. The
family of a correction is the one of the text: all pairs of tasks for one coefficient.
"""

import numpy as np
import pandas as pd
from scipy import stats

from lib.analysis.attempts import TASK

LEVEL = 0.05
"""The text's level of significance, shared by all tests of a family."""
TERM = ["term", "architecture"]
FAMILIES = ("T_f", "T_o", "T_d")
"""All tasks, those without noise, and those that share a data set (dissertation, Section 1.4)."""


def compare_tasks(coefficients: pd.DataFrame) -> pd.DataFrame:
    """Test every pair of tasks for every coefficient.

    Parameters
    ----------
    coefficients
        Rows of `lib.analysis.linear.Fits.coefficients`, of those tasks that form the family.

    Returns
    -------
    pandas.DataFrame
        One row per coefficient and pair: ``term``, ``architecture``, the two tasks (``dataset_1`` to ``noise_2``),
        ``difference``, ``se``, ``df``, ``low`` and ``high`` (ends of the intervals that hold together for all pairs
        of the coefficient, 95%), ``p_value``, ``p_bonferroni`` and ``rejected``. A task whose estimate or standard error
        is empty enters no pair.
    """
    known = coefficients[_usable(coefficients)]
    parts = [
        _pairs(part, term)
        for term, part in known.groupby(TERM, sort=False, observed=True)
        if len(part) > 1
    ]
    names = [*TERM, *(f"{name}_{side}" for side in (1, 2) for name in TASK)]
    names += ["difference", "se", "df", "low", "high", "p_value", "p_bonferroni", "rejected"]
    if not parts:
        return pd.DataFrame(columns=names).astype({"rejected": bool})
    return pd.concat(parts, ignore_index=True)[names]


def count_rejections(coefficients: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Count the rejected tests of each coefficient: Table 1.5 and Figure 1.4.

    Parameters
    ----------
    coefficients
        What `pairs` were made from.
    pairs
        Result of `compare_tasks`.

    Returns
    -------
    pandas.DataFrame
        ``term``, ``architecture``, ``tasks`` (with an estimate and its error), ``tests``, ``untested`` (pairs of the
        family's tasks that lack one of them), ``rejected`` and ``share`` (rejected of the tests; empty where none was made).
    """
    table = coefficients.assign(tasks=_usable(coefficients)).groupby(TERM, sort=False)["tasks"]
    table = table.agg(["sum", "size"]).rename(columns={"sum": "tasks", "size": "planned"})
    found = pairs.groupby(TERM, sort=False)["rejected"].agg(["size", "sum"])
    table["tests"] = found["size"].reindex(table.index, fill_value=0)
    table["untested"] = table["planned"] * (table["planned"] - 1) // 2 - table["tests"]
    table["rejected"] = found["sum"].reindex(table.index, fill_value=0).astype(int)
    table["share"] = table["rejected"] / table["tests"].where(table["tests"] > 0)
    return table.drop(columns="planned").reset_index()


def rejections_by_family(coefficients: pd.DataFrame) -> pd.DataFrame:
    """Count rejections within each of the text's task families, each with its own correction.

    Returns
    -------
    pandas.DataFrame
        ``family`` (`FAMILIES`), then the columns of `count_rejections`. For ``T_d`` each data set is a family of its own, and
        their counts are added.
    """
    families = {
        "T_f": [coefficients],
        "T_o": [coefficients[coefficients["noise"] == "none"]],
        "T_d": [part for _, part in coefficients.groupby("dataset", sort=False)],
    }
    parts = []
    for name, members in families.items():
        counts = pd.concat(count_rejections(part, compare_tasks(part)) for part in members)
        counts = counts.drop(columns="share").groupby(TERM, sort=False).sum().reset_index()
        counts["share"] = counts["rejected"] / counts["tests"].where(counts["tests"] > 0)
        counts.insert(0, "family", name)
        parts.append(counts)
    return pd.concat(parts, ignore_index=True)


def _usable(coefficients: pd.DataFrame) -> pd.Series:
    return coefficients["estimate"].notna() & (coefficients["se"] > 0)


def _pairs(part: pd.DataFrame, term: tuple) -> pd.DataFrame:
    first, second = np.triu_indices(len(part), 1)
    estimate, variance = part["estimate"].to_numpy(float), part["se"].to_numpy(float) ** 2
    freedom = part["df"].to_numpy(float)
    total = variance[first] + variance[second]
    df = total**2 / (
        variance[first] ** 2 / freedom[first] + variance[second] ** 2 / freedom[second]
    )
    difference, se = estimate[first] - estimate[second], np.sqrt(total)
    p_value = 2 * stats.t.sf(np.abs(difference) / se, df)
    corrected = np.minimum(1, p_value * len(first))
    half = stats.t.isf(LEVEL / (2 * len(first)), df) * se
    tasks = part[list(TASK)]
    return pd.DataFrame(
        {
            **dict(zip(TERM, term, strict=True)),
            **{f"{name}_1": tasks[name].to_numpy()[first] for name in TASK},
            **{f"{name}_2": tasks[name].to_numpy()[second] for name in TASK},
            "difference": difference,
            "se": se,
            "df": df,
            "low": difference - half,
            "high": difference + half,
            "p_value": p_value,
            "p_bonferroni": corrected,
            "rejected": corrected < LEVEL,
        }
    )
