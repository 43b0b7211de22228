r"""Whether a coefficient is the same at every task, in pairs of tasks, and how long training takes to its best accuracy (chapter 1).

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

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from lib.analysis.accuracy import CELL, LEVEL, cells, entered
from lib.analysis.attempts import TASK
from lib.analysis.linear import detectable
from lib.results.factorial import ATTEMPT

TERM = ["term", "architecture"]
REJECTED = ("rejected", "robust_rejected", "weighted_rejected")
"""Whether a test rejects, by each of the three standard errors: the model's, the robust one, and the one that knows the binomial error of accuracies."""


def compare_tasks(coefficients: pd.DataFrame) -> pd.DataFrame:
    """Test every pair of tasks for every coefficient.

    `coefficients` are rows of `lib.analysis.task_models.TaskFits.coefficients`, of those tasks that form the family. One row per coefficient and pair: ``term``, ``architecture``, the
    two tasks (``dataset_1`` to ``noise_2``), ``difference``, ``se``, ``df``, ``low`` and ``high`` (ends of the intervals that hold together for all pairs of the coefficient, 95%),
    ``p_value``, ``p_bonferroni``, ``rejected``, ``detectable`` (the difference that this test would find with a probability of 0.8), ``robust_p`` (corrected, from robust errors) and
    ``robust_rejected``, and ``weighted_p`` and ``weighted_rejected`` (from the fits that know the binomial error of each accuracy). A task whose estimate or standard error is empty enters no pair.
    """
    known = coefficients[_usable(coefficients)]
    groups = known.groupby(TERM, sort=False, observed=True)
    parts = [_pairs(part) for _, part in groups if len(part) > 1]
    return pd.concat(parts or [_pairs(known.iloc[:0])], ignore_index=True)


def _usable(coefficients: pd.DataFrame) -> pd.Series:
    return coefficients["estimate"].notna() & (coefficients["se"] > 0)


def _pairs(part: pd.DataFrame) -> pd.DataFrame:
    one, two = (part.iloc[rows].reset_index(drop=True) for rows in np.triu_indices(len(part), 1))
    tests = max(len(one), 1)

    def welch(estimate: str, error: str) -> tuple[pd.Series, ...]:
        """Return difference, standard error, degrees of freedom, p value and its correction for every pair."""
        difference, (own, other) = one[estimate] - two[estimate], (one[error] ** 2, two[error] ** 2)
        se = np.sqrt(own + other)
        df = (own + other) ** 2 / (own**2 / one["df"] + other**2 / two["df"])
        p = pd.Series(2 * stats.t.sf(np.abs(difference) / se, df), one.index)
        return difference, se, df, p, (p * tests).clip(upper=1)

    difference, se, df, p_value, corrected = welch("estimate", "se")
    half = stats.t.isf(LEVEL / (2 * tests), df) * se
    tasks = one[[*TASK]].add_suffix("_1"), two[[*TASK]].add_suffix("_2")
    table = pd.concat([one[TERM], *tasks], axis=1).assign(
        difference=difference,
        se=se,
        df=df,
        low=difference - half,
        high=difference + half,
        p_value=p_value,
        p_bonferroni=corrected,
        rejected=corrected < LEVEL,
        detectable=detectable(se, tests=tests, df=df),
    )
    for kind, estimate in (("robust", "estimate"), ("weighted", "weighted")):
        table[f"{kind}_p"] = welch(estimate, f"{kind}_se")[-1]
        table[f"{kind}_rejected"] = table[f"{kind}_p"] < LEVEL
    return table


def count_rejections(coefficients: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Count the rejected tests of each coefficient (Table 1.5, Figure 1.4); `pairs` is `compare_tasks` of `coefficients`.

    Columns: ``term``, ``architecture``, ``tasks`` (with an estimate and its error), ``tests``, ``untested`` (pairs of the
    family's tasks that lack one of them), the counts `REJECTED`, ``share`` (rejected of the tests; empty where none was
    made) and ``detectable`` (median over the tests).
    """
    usable = _usable(coefficients).groupby([coefficients[name] for name in TERM], sort=False)
    table = usable.agg(tasks="sum", planned="size")
    found = pairs.groupby(TERM, sort=False)
    table["tests"] = found.size().reindex(table.index, fill_value=0)
    table["untested"] = table["planned"] * (table["planned"] - 1) // 2 - table["tests"]
    for name in REJECTED:
        table[name] = found[name].sum().reindex(table.index, fill_value=0).astype(int)
    table["share"] = table["rejected"] / table["tests"].where(table["tests"] > 0)
    table["detectable"] = found["detectable"].median().reindex(table.index).astype(float)
    return table.drop(columns="planned").reset_index()


def window(ds: xr.Dataset) -> int:
    """Return how many epochs of each attempt are looked at: the design's shortest training length."""
    return int(ds["training_length"].min())


def convergence_times(ds: xr.Dataset, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the convergence time of every attempt that entered, others than those at h* being left out of `frame` (`lib.analysis.accuracy.at_best`).

    Columns: the task, ``architecture``, ``replicate`` and ``epochs``, from 1 to `window`: the first epoch with the largest test
    accuracy. Task accuracy (1.5) has its maximum in the same epoch.
    """
    epochs = ds["epoch"].values[ds["epoch"].values <= window(ds)]
    accuracy = ds["accuracy"].sel(split="test", epoch=epochs).transpose(*ATTEMPT, "epoch")
    inside = entered(frame)
    measured = accuracy.values.reshape(len(frame), -1)[inside.index]
    table = inside[[*CELL, "replicate"]].reset_index(drop=True)
    return table.assign(epochs=epochs[np.argmax(measured, axis=1)])


def summarise_times(frame: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Return ``attempts``, ``median`` and ``deviation`` (epochs) by task and architecture (Table A2); of one attempt there is no deviation."""
    found = times.groupby(list(CELL), sort=False)["epochs"]
    table = found.agg(attempts="count", median="median", deviation="std").reset_index()
    table = cells(frame).merge(table, on=list(CELL), how="left")
    return table.assign(attempts=table["attempts"].fillna(0).astype(int))
