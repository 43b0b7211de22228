r"""Whether a coefficient, a variance or a convergence time is the same at every task (chapter 1).

Coefficients are compared in pairs of tasks (1.4), with Bonferroni's correction over the pairs of one coefficient:

.. math::

    H_0 : \beta^{(t)} = \beta^{(t')} \quad \text{vs.} \quad H_A : \beta^{(t)} \ne \beta^{(t')}, \qquad
    T = \frac{\hat\beta^{(t)} - \hat\beta^{(t')}}{\sqrt{s_t^2 + s_{t'}^2}} \quad (1.4)

The fits of two tasks share no attempt, so their variances add. The text does not print its statistic; here T is compared
with Student's distribution, whose degrees of freedom are Satterthwaite's,
:math:`(s_t^2 + s_{t'}^2)^2 / (s_t^4/\nu_t + s_{t'}^4/\nu_{t'})`, which allows tasks of different residual variance. Within a task
a standard error of the model has one variance for all attempts; the robust one (HC3) does not.

*Convergence time* :math:`Y_\text{epochs}` is "the number of training epochs completed prior to the RNN attaining its maximum
task accuracy". The text's values run from 1 to 25, so the epoch that attains the maximum is counted too. It looks at the first 25
epochs of each attempt: the shorter of its training lengths, and here the shortest of the design.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from lib.analysis.accuracy import CELL, LEVEL, cells, entered
from lib.analysis.attempts import TASK
from lib.analysis.linear import detectable
from lib.results.factorial import ATTEMPT
from lib.results.published import load_published

TERM = ["term", "architecture"]
REJECTED = ("rejected", "robust_rejected", "weighted_rejected")
"""Whether a test rejects, by each of the three standard errors: the model's, the robust one, and the one that knows the binomial error of accuracies."""
FAMILIES = ("T_f", "T_o", "T_d")
"""All tasks, those without noise, and those that share a data set (dissertation, Section 1.4)."""


def compare_tasks(coefficients: pd.DataFrame) -> pd.DataFrame:
    """Test every pair of tasks for every coefficient.

    Parameters
    ----------
    coefficients
        Rows of `lib.analysis.task_models.TaskFits.coefficients`, of those tasks that form the family.

    Returns
    -------
    pandas.DataFrame
        One row per coefficient and pair: ``term``, ``architecture``, the two tasks (``dataset_1`` to ``noise_2``),
        ``difference``, ``se``, ``df``, ``low`` and ``high`` (ends of the intervals that hold together for all pairs
        of the coefficient, 95%), ``p_value``, ``p_bonferroni``, ``rejected``, ``detectable`` (the difference that this test would find with a
        probability of 0.8), ``robust_p`` (corrected, from robust errors) and ``robust_rejected``, and ``weighted_p`` and ``weighted_rejected`` (from the fits that know
        the binomial error of each accuracy). A task whose estimate or standard error
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
    names += ["detectable", "robust_p", "robust_rejected", "weighted_p", "weighted_rejected"]
    if not parts:
        return pd.DataFrame(columns=names).astype(dict.fromkeys(REJECTED, bool))
    return pd.concat(parts, ignore_index=True)[names]


def _usable(coefficients: pd.DataFrame) -> pd.Series:
    return coefficients["estimate"].notna() & (coefficients["se"] > 0)


def _pairs(part: pd.DataFrame, term: tuple) -> pd.DataFrame:
    first, second = np.triu_indices(len(part), 1)
    estimate, freedom = part["estimate"].to_numpy(float), part["df"].to_numpy(float)
    difference = estimate[first] - estimate[second]
    weighted = part["weighted"].to_numpy(float)

    def welch(
        error: pd.Series, difference: np.ndarray = difference
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return standard error, degrees of freedom and p value of every difference."""
        variance = error.to_numpy(float) ** 2
        total = variance[first] + variance[second]
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = variance[first] ** 2 / freedom[first] + variance[second] ** 2 / freedom[second]
            df = total**2 / parts
            return np.sqrt(total), df, 2 * stats.t.sf(np.abs(difference) / np.sqrt(total), df)

    se, df, p_value = welch(part["se"])
    by_weights = welch(part["weighted_se"], weighted[first] - weighted[second])[2]
    corrected, robust, by_weights = (
        np.minimum(1, p * len(first)) for p in (p_value, welch(part["robust_se"])[2], by_weights)
    )
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
            "detectable": detectable(se, tests=len(first), df=df),
            "robust_p": robust,
            "robust_rejected": robust < LEVEL,
            "weighted_p": by_weights,
            "weighted_rejected": by_weights < LEVEL,
        }
    )


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
        family's tasks that lack one of them), ``rejected``, ``robust_rejected`` (by robust errors), ``weighted_rejected`` (with binomial errors), ``share`` (rejected of the tests; empty where none was
        made) and ``detectable`` (median over the tests).
    """
    table = coefficients.assign(tasks=_usable(coefficients)).groupby(TERM, sort=False)["tasks"]
    table = table.agg(["sum", "size"]).rename(columns={"sum": "tasks", "size": "planned"})
    found = pairs.groupby(TERM, sort=False)
    table["tests"] = found.size().reindex(table.index, fill_value=0)
    table["untested"] = table["planned"] * (table["planned"] - 1) // 2 - table["tests"]
    for name in REJECTED:
        table[name] = found[name].sum().reindex(table.index, fill_value=0).astype(int)
    table["share"] = table["rejected"] / table["tests"].where(table["tests"] > 0)
    table["detectable"] = found["detectable"].median().reindex(table.index).astype(float)
    return table.drop(columns="planned").reset_index()


def rejections_by_family(coefficients: pd.DataFrame) -> pd.DataFrame:
    """Count rejections within each of the text's task families, each with its own correction.

    Returns
    -------
    pandas.DataFrame
        ``family`` (`FAMILIES`), then the counts of `count_rejections`. For ``T_d`` each data set is a family of its own, and
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
        counts = counts.drop(columns=["share", "detectable"])
        counts = counts.groupby(TERM, sort=False).sum().reset_index()
        counts["share"] = counts["rejected"] / counts["tests"].where(counts["tests"] > 0)
        counts.insert(0, "family", name)
        parts.append(counts)
    return pd.concat(parts, ignore_index=True)


def window(ds: xr.Dataset) -> int:
    """Return how many epochs of each attempt are looked at: the design's shortest training length."""
    return int(ds["training_length"].min())


def text_design() -> dict[str, int]:
    """Return the text's ``window`` (epochs) and how many ``attempts`` its whole design has."""
    levels = load_published("diss-tab-3.2").groupby("factor")["level"]
    shortest = levels.get_group("training_length").astype(int).min()
    return {"window": int(shortest), "attempts": int(levels.size().prod())}


def convergence_times(ds: xr.Dataset, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the convergence time of every attempt that entered.

    Parameters
    ----------
    ds
        The results.
    frame
        Their attempts in the order of the design, others than those at h* marked as left out
        (`lib.analysis.accuracy.at_best`).

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, ``replicate`` and ``epochs``, from 1 to `window`: the first epoch with the largest test
        accuracy. Task accuracy (1.5) has its maximum in the same epoch.
    """
    epochs = ds["epoch"].values[ds["epoch"].values <= window(ds)]
    accuracy = ds["accuracy"].sel(split="test", epoch=epochs).transpose(*ATTEMPT, "epoch")
    inside = entered(frame)
    measured = accuracy.values.reshape(len(frame), -1)[inside.index]
    table = inside[[*CELL, "replicate"]].reset_index(drop=True)
    return table.assign(epochs=epochs[np.argmax(measured, axis=1)])


def summarise_times(frame: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Return median and standard deviation by task and architecture: Table A2.

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, ``attempts``, ``median`` and ``deviation`` (epochs; of one attempt there is no
        deviation, of none there is no median either).
    """
    found = times.groupby(list(CELL), sort=False)["epochs"]
    table = found.agg(attempts="count", median="median", deviation="std").reset_index()
    table = cells(frame).merge(table, on=list(CELL), how="left")
    return table.assign(attempts=table["attempts"].fillna(0).astype(int))


def compare_times(
    frame: pd.DataFrame, times: pd.DataFrame, by: Sequence[str] = TASK
) -> pd.DataFrame:
    """Test for each architecture whether convergence time has one distribution over all tasks, or whatever `by` tells apart.

    The text makes no test of this behaviour; this is Kruskal and Wallis's, of ranks, because epochs are whole numbers with
    many ties at the end of the window.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``tasks``, ``attempts``, ``statistic``, ``df``, ``p_value``, ``p_bonferroni`` (family: the
        architectures), ``rejected`` (corrected) and ``cause``: why no test was made.
    """
    rows = []
    for architecture in frame["architecture"].unique():
        own = times[times["architecture"] == architecture]
        groups = [part.to_numpy() for _, part in own.groupby(list(by), sort=False)["epochs"]]
        cause = _cause(own, groups)
        statistic, p_value = (np.nan, np.nan) if cause else stats.kruskal(*groups)
        rows.append(
            {
                "architecture": architecture,
                "tasks": len(groups),
                "attempts": len(own),
                "statistic": statistic,
                "df": len(groups) - 1 if not cause else np.nan,
                "p_value": p_value,
                "cause": cause,
            }
        )
    table = pd.DataFrame(rows)
    corrected = (table["p_value"] * table["p_value"].count()).clip(upper=1)
    rejected = (corrected < LEVEL).where(corrected.notna())
    table = table.assign(p_bonferroni=corrected, rejected=rejected)
    return table[[name for name in table if name != "cause"] + ["cause"]]


def _cause(own: pd.DataFrame, groups: list[np.ndarray]) -> str:
    if len(groups) < 2:
        return "attempts entered at fewer than two tasks"
    if own["epochs"].nunique() == 1:
        return f"every attempt took {own['epochs'].iloc[0]} epochs"
    if len(own) == len(groups):
        return "one attempt at each task: nothing tells tasks from replicates"
    return ""
