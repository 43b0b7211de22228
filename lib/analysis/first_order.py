r"""First-order behaviour *average task accuracy*: a linear model of each task at h* (dissertation, (1.8)).

.. math::

    \hat Y^{(t)}_\text{accuracy} = \hat\beta_0^{(t)} + \hat\beta_{\mathcal A}^{(t)} \times \mathcal A + \epsilon^{(t)}
    \quad (1.8)

The intercept is the mean of the reference architecture, and every other coefficient is a difference of means.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from lib.analysis.accuracy import entered
from lib.analysis.attempts import TASK
from lib.analysis.best import at_best
from lib.analysis.linear import CONFIDENCE, Fits, fit_tasks
from lib.analysis.terms import Model

REFERENCE = "antisymmetric"
"""The text's reference architecture (its footnote 3)."""
MODEL = Model(
    equation="(1.8)",
    latex=r"\hat Y^{(t)}_\text{accuracy} = \hat\beta_0^{(t)} + \hat\beta_{\mathcal A}^{(t)} \times \mathcal A"
    r" + \epsilon^{(t)}",
    formula="architecture",
)
DEVIATION = "deviation from the mean of architectures"


def fit_first_order(frame: pd.DataFrame, *, reference: str = REFERENCE, rule: str = "mean") -> Fits:
    """Fit (1.8) to each task, with the attempts at h* (`lib.analysis.best.at_best`, `rule`)."""
    return fit_tasks(at_best(frame, rule), MODEL, reference)


def choose_reference(architectures: Sequence[str], wanted: str = REFERENCE) -> str:
    """Return `wanted` if it is among `architectures`, else the first of them."""
    return wanted if wanted in architectures else architectures[0]


def deviations(frame: pd.DataFrame, fits: Fits) -> pd.DataFrame:
    r"""Return each architecture's effect against the mean of all architectures, from the same fits.

    .. math:: \hat\delta_a = \bar Y_a - \frac1{|\mathcal A|} \sum_b \bar Y_b

    It treats all architectures alike, the reference included: the text's Table 1.5 has a row for each of seven
    architectures, where (1.8) has six effects and an intercept.

    Parameters
    ----------
    frame
        The attempts that `fits` were made from, with the others marked as left out (`lib.analysis.best.at_best`).
    fits
        Fits of (1.8), for the residual variance of each task.

    Returns
    -------
    pandas.DataFrame
        Columns as `Fits.coefficients`. A task at which an architecture has no attempt has no estimates, for its mean of
        architectures is another one.

    Raises
    ------
    ValueError
        There is one architecture.
    """
    known = frame["architecture"].unique()
    if len(known) < 2:
        raise ValueError(
            f"a deviation from the mean of architectures needs two; there is {known[0]} alone"
        )
    groups = entered(frame).groupby([*TASK, "architecture"], sort=False)["task_accuracy"]
    cells = groups.agg(["mean", "count"]).unstack("architecture").reindex(_tasks(fits))
    mean = cells["mean"].reindex(columns=known)
    count = cells["count"].reindex(columns=known)
    summary = fits.summary.set_index(list(TASK))
    share = 1 / len(known)
    # Variances of the means, weighted as they enter: 1 - 1/|A| for its own, -1/|A| for each of the others.
    inverse = 1 / count
    weight = inverse.mul(1 - 2 * share).add(inverse.sum(axis=1, skipna=False) * share**2, axis=0)
    table = pd.DataFrame(
        {
            "estimate": mean.sub(mean.mean(axis=1, skipna=False), axis=0).stack(future_stack=True),
            "se": weight.pow(0.5).mul(summary["sigma"], axis=0).stack(future_stack=True),
        }
    ).rename_axis([*TASK, "architecture"])
    table["df"] = summary["df_residual"].reindex(table.index.droplevel("architecture")).to_numpy()
    half = stats.t.isf((1 - CONFIDENCE) / 2, table["df"]) * table["se"]
    table = table.assign(low=table["estimate"] - half, high=table["estimate"] + half)
    ratio = np.abs(table["estimate"] / table["se"].where(table["se"] > 0))
    table["p_value"] = 2 * stats.t.sf(ratio, table["df"])
    table = table.reset_index()
    table.insert(3, "term", DEVIATION)
    cause = np.select(
        [table["estimate"].isna(), table["se"].isna()],
        ["an architecture has no attempt at the task", "the error cannot be measured"],
        default="",
    )
    return table.assign(cause=cause)


def _tasks(fits: Fits) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(fits.summary[list(TASK)])
