r"""Task accuracy (1.5), who entered an analysis, and the best configuration of each architecture
at each task.

.. math::

    Y_\text{accuracy} = \frac{\text{test accuracy} - 1/K}{\max(\text{test accuracy}) - 1/K} \quad
    (1.5)

K is the number of labels, and the maximum is taken over all attempts at the task. 0 is no better
than guessing, 1 is the best attempt; where labels are not balanced a value may be below 0. A
*configuration* :math:`h \in \mathcal H` is a combination of recurrent dimension, learning rate and
training length; first-order behaviours are measured at the maximising one, :math:`h^*`, alone
(dissertation, Section 1.5).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from study.results.factorial import ATTEMPT
from study.results.learned import above_chance
from study.stats.attempts import TASK, attempts
from study.stats.design import NothingToFit

CELL = (*TASK, "architecture")
"""The columns of a task and an architecture."""
CONFIGURATION = ("width", "learning_rate", "training_length")
"""The factors that make a hyperparameter configuration; the paper has twenty of them."""
RULES = ("mean", "max")
"""What a configuration is judged by: its replicates' mean, or its best replicate."""
LEVEL = 0.05
"""The paper's level of significance, shared by all tests of a family."""
ENTERED = ""
"""Value of ``left_out`` for an attempt that entered an analysis."""
OTHER = "had another configuration"
"""Why an attempt that is not at h* does not enter."""
UNCHOSEN = "no other replicate completed"
"""Why an attempt does not enter where h* is chosen on the other replicates."""


def grade(ds: xr.Dataset) -> pd.DataFrame:
    """Return every attempt of the design with its task accuracy, or why it has none.

    Columns: the factors, ``accuracy`` (test accuracy after the last epoch, a share), ``at_chance``
    (whether it is not `above_chance`), ``task_accuracy`` (1.5), ``sampling_error`` (its binomial
    standard error, Jeffreys's, so that it is not zero where none is wrong; empty where the number
    of test sequences is not known), and ``left_out``: empty where the attempt entered, else the
    reason.

    The paper does not say whether its maximum runs over the last epochs or over all epochs. It says
    that 1 is the largest task accuracy observed, which holds for the last epochs, where the
    behaviour is measured. Raises NothingToFit: a data set has fewer than two classes, so that
    guessing has no accuracy.
    """
    frame = attempts(ds)
    completed = frame["status"] == "completed"
    last = ds["accuracy"].sel(split="test", epoch=ds["training_length"]).transpose(*ATTEMPT)
    frame["accuracy"] = pd.Series(last.values.ravel()).where(completed)
    classes = ds["classes"].to_series()
    if (classes < 2).any():
        raise NothingToFit(
            f"{classes.idxmin()}: expected two classes or more in the variable 'classes'; correct "
            "the results, "
            "task accuracy (1.5) needs the accuracy of guessing"
        )
    chance = 1 / frame["dataset"].map(classes)
    best = frame.groupby(list(TASK), sort=False)["accuracy"].transform("max")
    learnt = best > chance
    tested = frame["dataset"].map(ds["examples"].sel(split="test").to_series())
    constant = frame["dataset"].map(ds["largest_class"].to_series())
    right = frame["accuracy"] * tested
    above = above_chance(frame["accuracy"], constant, tested)
    frame["at_chance"] = frame["accuracy"].notna() & ~above
    frame["task_accuracy"] = ((frame["accuracy"] - chance) / (best - chance)).where(learnt)
    counted = pd.Series(stats.beta.std(right + 0.5, tested - right + 0.5), frame.index)
    frame["sampling_error"] = (counted / (best - chance)).where(learnt & (tested > 0))
    frame["left_out"] = frame["status"].mask(completed, ENTERED)
    frame.loc[completed & ~learnt, "left_out"] = "no attempt at the task beat guessing"
    return frame.drop(columns=["status", "epochs_completed"])


def entered(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `frame` that entered."""
    return frame[frame["left_out"] == ENTERED]


def cells(frame: pd.DataFrame) -> pd.DataFrame:
    """Return every task with every architecture of the design, in its order."""
    tasks = frame[list(TASK)].drop_duplicates()
    return tasks.merge(frame[["architecture"]].drop_duplicates(), how="cross")


def account(frame: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Count attempts: ``planned``, ``entered``, and one column for each reason to be left out,
    in groups `by` or all together.
    """
    reasons = [reason for reason in frame["left_out"].unique() if reason != ENTERED]
    columns = {"planned": True, "entered": frame["left_out"] == ENTERED}
    columns |= {reason: frame["left_out"] == reason for reason in reasons}
    groups = frame[list(by)].assign(**columns).groupby(list(by) or (lambda row: 0), sort=False)
    return groups[list(columns)].sum().astype(int).reset_index(drop=not by)


def entered_text(frame: pd.DataFrame) -> str:
    """Return how many attempts entered an analysis, and how many did not and why."""
    counts = account(frame).iloc[0].items()
    return "Attempts: " + ", ".join(f"{count:,} {what}" for what, count in counts) + "."


def best_configurations(frame: pd.DataFrame, rule: str = "mean") -> pd.DataFrame:
    """Return the best configuration of each architecture at each task.

    By ``mean`` it has the highest mean accuracy of the attempts that completed, by ``max`` the best
    single attempt. The paper does not say which; its Table A2 has best configurations with a single
    completed attempt, which either rule allows.

    Columns: the task, ``architecture``, the configuration, ``attempts`` (completed ones at it),
    ``accuracy`` (what the rule judged) and ``tied`` (configurations that were equally good; the
    first in the order of the design was taken). An architecture that completed no attempt at a task
    has no row. Raises ValueError: `rule` is unknown.
    """
    if rule not in RULES:
        raise ValueError(f"rule is {rule!r}; expected one of {', '.join(RULES)}")
    keys, factors = list(CELL), [*CELL, *CONFIGURATION]
    # Ordered by the levels' place in the design, whichever attempts completed: so are ties broken.
    placed = {name: pd.Categorical(frame[name], frame[name].unique()) for name in factors}
    found = entered(frame.assign(**placed)).groupby(factors, observed=True)["accuracy"]
    table = found.agg(accuracy=rule, attempts="count").reset_index()
    table = table.astype({name: frame[name].dtype for name in factors})
    top = table.groupby(keys, sort=False)["accuracy"].transform("max")
    table = table[table["accuracy"] == top]
    table = table.assign(tied=table.groupby(keys, sort=False)["accuracy"].transform("size"))
    table = table.drop_duplicates(keys, ignore_index=True)
    return table[[*factors, "attempts", "accuracy", "tied"]]


def can_cross(frame: pd.DataFrame) -> bool:
    """Return whether h* can be chosen on other replicates than those that are compared."""
    return frame["replicate"].nunique() > 1


def at_best(frame: pd.DataFrame, rule: str = "mean", *, crossed: bool = False) -> pd.DataFrame:
    """Return `frame` with every attempt that is not at its h* marked as left out.

    Attempts at h* that diverged or are missing keep that reason, and so do all attempts of an
    architecture that completed none at the task, and hence has no h*. With `crossed`, h* is chosen
    for each replicate on all the others (cross-fitting): the best of several configurations has
    been lucky, and an attempt that had a part in the choice says too much of its architecture.
    """
    if not crossed:
        return _mark(frame, best_configurations(frame, rule), ENTERED)
    parts = []
    for replicate in frame["replicate"].unique():
        own = frame["replicate"] == replicate
        parts.append(_mark(frame[own], best_configurations(frame[~own], rule), UNCHOSEN))
    return pd.concat(parts).reindex(frame.index)


def _mark(frame: pd.DataFrame, best: pd.DataFrame, without: str) -> pd.DataFrame:
    """Mark the attempts that are not at the best configuration, and with `without` those that
    entered where there is none.
    """

    def has(columns: tuple[str, ...]) -> np.ndarray:
        rows, known = (pd.MultiIndex.from_frame(one[list(columns)]) for one in (frame, best))
        return rows.isin(known)

    left, chosen = frame["left_out"], has(CELL)
    left = left.mask(chosen & ~has((*CELL, *CONFIGURATION)), OTHER)
    return frame.assign(left_out=left.mask(~chosen & (left == ENTERED), without))
