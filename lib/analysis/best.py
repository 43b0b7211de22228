r"""The maximising hyperparameter configuration :math:`h^* \in \mathcal{H}` of each architecture at each task.

A configuration is a combination of recurrent dimension, learning rate and training length. First-order behaviours
are measured at it alone (dissertation, Section 1.5).
"""

import pandas as pd

from lib.analysis.accuracy import entered
from lib.analysis.attempts import TASK

CONFIGURATION = ("width", "learning_rate", "training_length")
"""The factors that make a hyperparameter configuration; the text has twenty of them."""
RULES = ("mean", "max")
"""What a configuration is judged by: its replicates' mean, or its best replicate."""
OTHER = "had another configuration"
"""Why an attempt that is not at h* does not enter."""


def best_configurations(frame: pd.DataFrame, rule: str = "mean") -> pd.DataFrame:
    """Return the best configuration of each architecture at each task.

    Parameters
    ----------
    frame
        Attempts as `lib.analysis.accuracy.grade` returns them.
    rule
        ``mean``: the highest mean accuracy of the attempts that completed; ``max``: the one with the best single
        attempt. The text does not say which; its Table A2 has best configurations with a single completed
        attempt, which either rule allows.

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, the configuration, ``attempts`` (completed ones at it), ``accuracy`` (what the
        rule judged) and ``tied`` (configurations that were equally good; the first in the order of the
        design was taken). An architecture that completed no attempt at a task has no row.

    Raises
    ------
    ValueError
        `rule` is unknown.
    """
    if rule not in RULES:
        raise ValueError(f"rule is {rule!r}; expected one of {', '.join(RULES)}")
    keys = [*TASK, "architecture"]
    factors = [*keys, *CONFIGURATION]
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


def at_best(frame: pd.DataFrame, rule: str = "mean") -> pd.DataFrame:
    """Return `frame` with every attempt that is not at its h* marked as left out.

    Attempts at h* that diverged or are missing keep that reason, and so do all attempts of an architecture that
    completed none at the task, and hence has no h*.
    """
    keys = [*TASK, "architecture"]
    table = best_configurations(frame, rule)
    known = _rows(frame, keys).isin(_rows(table, keys))
    inside = _rows(frame, [*keys, *CONFIGURATION]).isin(_rows(table, [*keys, *CONFIGURATION]))
    return frame.assign(left_out=frame["left_out"].mask(known & ~inside, OTHER))


def _rows(table: pd.DataFrame, columns: list[str]) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(table[columns])
