r"""Task accuracy (1.5), which attempts enter an analysis, and the best configurations.

.. math::

    Y_\text{accuracy} = \frac{\text{test accuracy} - 1/K}{\max(\text{test accuracy}) - 1/K} \quad
    (1.5)

K is the number of labels, and the maximum is over all attempts at the task. 0 is chance
level, and 1 is the best attempt; if labels are not balanced, a value may be below 0. A
*configuration* :math:`h \in \mathcal H` is a combination of recurrent dimension, learning rate and
training length. First-order behaviors are measured only at the best one, :math:`h^*`, of each
architecture at each task (dissertation, Section 1.5).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from study.results.factorial import ATTEMPT, TASK
from study.results.learned import above_chance
from study.stats.attempts import attempts
from study.stats.design import NothingToFit

CELL = (*TASK, "architecture")
"""The columns of a task and an architecture: a cell of the design, not a recurrent cell."""
CONFIGURATION = ("width", "learning_rate", "training_length")
"""The factors of a hyperparameter configuration; the paper has twenty configurations."""
RULES = ("mean", "max")
"""What a configuration is judged by: the mean of its replicates, or its best replicate."""
SIGNIFICANCE = 0.05
"""The paper's level of significance, shared by all tests of a family."""
ENTERED = ""
"""Value of ``left_out`` for an attempt that entered an analysis."""
OTHER = "had another configuration"
"""Why an attempt that is not at h* does not enter."""
UNCHOSEN = "no other replicate completed"
"""Why an attempt does not enter if h* can't be chosen on the other replicates."""


def grade(ds: xr.Dataset) -> pd.DataFrame:
    """Return every attempt of the design with its task accuracy, or why it has none.

    The paper does not say whether its maximum runs over the last epochs or over all epochs. It says
    that 1 is the largest task accuracy observed, which holds for the last epochs, where the
    behavior is measured.

    Parameters
    ----------
    ds
        Results of the factorial experiment.

    Returns
    -------
    pandas.DataFrame
        One row per attempt: the factors; ``accuracy`` (test accuracy after the last epoch, between
        0 and 1); ``at_chance`` (whether it is not above chance); ``task_accuracy`` (1.5);
        ``sampling_error`` (binomial standard error of the task accuracy, after Jeffreys, so that it
        is above zero even if no answer is wrong; nan if the number of test sequences is unknown);
        ``left_out`` (empty if the attempt entered, else the reason).

    Raises
    ------
    NothingToFit
        A data set has fewer than two classes, so that chance level is undefined.
    """
    frame = attempts(ds)
    completed = frame["status"] == "completed"
    last = ds["accuracy"].sel(split="test", epoch=ds["training_length"]).transpose(*ATTEMPT)
    frame["accuracy"] = pd.Series(last.values.ravel()).where(completed)
    chance = 1 / frame["dataset"].map(_classes(ds))
    best = frame.groupby(list(TASK), sort=False)["accuracy"].transform("max")
    learned = best > chance
    frame["task_accuracy"] = ((frame["accuracy"] - chance) / (best - chance)).where(learned)
    tested = frame["dataset"].map(ds["examples"].sel(split="test").to_series())
    constant_guess = frame["dataset"].map(ds["largest_class"].to_series())
    above = above_chance(frame["accuracy"], constant_guess, tested)
    frame["at_chance"] = frame["accuracy"].notna() & ~above
    correct = frame["accuracy"] * tested
    binomial_error = stats.beta.std(correct + 0.5, tested - correct + 0.5)
    error = pd.Series(binomial_error, frame.index) / (best - chance)
    frame["sampling_error"] = error.where(learned & (tested > 0))
    frame["left_out"] = frame["status"].mask(completed, ENTERED)
    frame.loc[completed & ~learned, "left_out"] = "no attempt at the task beat guessing"
    order = [*ATTEMPT, "accuracy", "at_chance", "task_accuracy", "sampling_error", "left_out"]
    return frame[order]


def _classes(ds: xr.Dataset) -> pd.Series:
    """Return the number of classes of each data set."""
    classes = ds["classes"].to_series()
    if (classes < 2).any():
        raise NothingToFit(
            f"{classes.idxmin()}: expected two classes or more in the variable 'classes'; correct "
            "the results, task accuracy (1.5) needs the accuracy of guessing"
        )
    return classes


def entered(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the attempts that entered an analysis.

    Parameters
    ----------
    frame
        Attempts with ``left_out`` (`grade`).

    Returns
    -------
    pandas.DataFrame
        The rows that are not left out.
    """
    return frame[frame["left_out"] == ENTERED]


def cells(frame: pd.DataFrame) -> pd.DataFrame:
    """Return every combination of a task and an architecture of the design.

    Parameters
    ----------
    frame
        Attempts.

    Returns
    -------
    pandas.DataFrame
        The columns `CELL`, in the order of the design.
    """
    tasks = frame[list(TASK)].drop_duplicates()
    architectures = frame[["architecture"]].drop_duplicates()
    return tasks.merge(architectures, how="cross")


def account(frame: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Count the attempts that entered, and those that did not by reason.

    Parameters
    ----------
    frame
        Attempts with ``left_out`` (`grade`).
    by
        Columns that form groups; all attempts together by default.

    Returns
    -------
    pandas.DataFrame
        One row per group: the columns `by`, ``planned``, ``entered``, and one column for each
        reason to be left out.
    """
    counted = frame[list(by)].assign(planned=True, entered=frame["left_out"] == ENTERED)
    for reason in frame["left_out"].unique():
        if reason != ENTERED:
            counted[reason] = frame["left_out"] == reason
    columns = [name for name in counted if name not in by]
    if not by:
        return counted[columns].sum().astype(int).to_frame().T
    return counted.groupby(list(by), sort=False)[columns].sum().astype(int).reset_index()


def entered_text(frame: pd.DataFrame) -> str:
    """Return a sentence with the counts of `account`.

    Parameters
    ----------
    frame
        Attempts with ``left_out`` (`grade`).

    Returns
    -------
    str
        How many attempts entered, and how many did not and why.
    """
    counts = account(frame).iloc[0]
    parts = [f"{count:,} {what}" for what, count in counts.items()]
    return f"Attempts: {', '.join(parts)}."


def best_configurations(frame: pd.DataFrame, rule: str = "mean") -> pd.DataFrame:
    """Return the best configuration of each architecture at each task.

    The paper does not state its rule. Its Table A2 has best configurations with a single completed
    attempt, which either rule allows.

    Parameters
    ----------
    frame
        Attempts with their accuracy (`grade`).
    rule
        ``mean`` takes the highest mean accuracy of the attempts that entered, ``max`` the best
        single attempt.

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, the configuration, ``attempts`` (that entered with it),
        ``accuracy`` (the number that the rule judged) and ``tied`` (how many configurations were
        equally good; the first in the order of the design is chosen). An architecture that
        completed no attempt at a task has no row.

    Raises
    ------
    ValueError
        `rule` is unknown.
    """
    if rule not in RULES:
        raise ValueError(f"rule is {rule!r}; expected one of {', '.join(RULES)}")
    cell = list(CELL)
    factors = [*CELL, *CONFIGURATION]
    # Categories in the order of the design, so that ties are broken in that order whichever
    # attempts completed.
    categories = {name: pd.Categorical(frame[name], frame[name].unique()) for name in factors}
    rows = entered(frame.assign(**categories))
    groups = rows.groupby(factors, observed=True)["accuracy"]
    table = groups.agg(accuracy=rule, attempts="count").reset_index()
    table = table.astype({name: frame[name].dtype for name in factors})
    best = table.groupby(cell, sort=False)["accuracy"].transform("max")
    table = table[table["accuracy"] == best]
    table = table.assign(tied=table.groupby(cell, sort=False)["accuracy"].transform("size"))
    table = table.drop_duplicates(cell, ignore_index=True)
    return table[[*factors, "attempts", "accuracy", "tied"]]


def can_cross_fit(frame: pd.DataFrame) -> bool:
    """Return whether h* can be chosen on other replicates than those that are compared.

    Parameters
    ----------
    frame
        Attempts.

    Returns
    -------
    bool
        Whether there are two replicates or more.
    """
    return frame["replicate"].nunique() > 1


def at_best(frame: pd.DataFrame, rule: str = "mean", *, cross_fit: bool = False) -> pd.DataFrame:
    """Mark every attempt that is not at its h* as left out.

    Attempts at h* that diverged or are missing keep that reason. So do all attempts of an
    architecture that completed none at the task, and hence has no h*.

    Parameters
    ----------
    frame
        Attempts with their accuracy (`grade`).
    rule
        Rule of `best_configurations`.
    cross_fit
        Whether h* is chosen for each replicate on all the others (cross-fitting). Otherwise the
        accuracy at h* is biased upward, because the best of several configurations was chosen on
        the same attempts.

    Returns
    -------
    pandas.DataFrame
        `frame` with another ``left_out``.

    Raises
    ------
    ValueError
        `rule` is unknown.
    """
    if not cross_fit:
        return _mark(frame, best_configurations(frame, rule), ENTERED)
    parts = []
    for replicate in frame["replicate"].unique():
        compared = frame["replicate"] == replicate
        best = best_configurations(frame[~compared], rule)
        parts.append(_mark(frame[compared], best, UNCHOSEN))
    return pd.concat(parts).reindex(frame.index)


def _mark(frame: pd.DataFrame, best: pd.DataFrame, without_best: str) -> pd.DataFrame:
    """Mark the attempts that are not at the best configuration.

    Attempts that entered at a task and architecture without a best configuration are marked with
    `without_best`.
    """
    has_best = _rows_in(frame, best, CELL)
    is_best = _rows_in(frame, best, (*CELL, *CONFIGURATION))
    left_out = frame["left_out"].mask(has_best & ~is_best, OTHER)
    left_out = left_out.mask(~has_best & (left_out == ENTERED), without_best)
    return frame.assign(left_out=left_out)


def _rows_in(frame: pd.DataFrame, other: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """Return which rows of `frame` have the values of some row of `other` in `columns`."""
    rows = pd.MultiIndex.from_frame(frame[list(columns)])
    return rows.isin(pd.MultiIndex.from_frame(other[list(columns)]))
