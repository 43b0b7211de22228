"""Every behaviour of chapter 1 by task and architecture, in one table."""

import pandas as pd

from lib.analysis.accuracy import entered
from lib.analysis.attempts import TASK
from lib.analysis.best import CONFIGURATION
from lib.analysis.linear import Fits

_KEYS = [*TASK, "architecture"]


def collect(
    frame: pd.DataFrame,
    best: pd.DataFrame,
    first: Fits,
    times: pd.DataFrame,
    errors: pd.DataFrame,
) -> pd.DataFrame:
    """Return one row per task and architecture with what the other tables say of it.

    Parameters
    ----------
    frame
        All attempts, those that are not at h* marked as left out.
    best
        The best configurations (`lib.analysis.best.best_configurations`).
    first
        Fits of (1.8).
    times
        Result of `lib.analysis.convergence.summarise_times`.
    errors
        Error rates by task and architecture (`lib.analysis.errors.error_rates`).

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, h* (``width``, ``learning_rate``, ``training_length``), ``attempts`` (completed at h*),
        ``task_accuracy`` (their mean) and its ``spread`` (standard deviation), ``effect`` (against the reference
        architecture) with ``low`` and ``high``, ``convergence_time`` (median, epochs), ``error_rate`` and
        ``error_attempts`` (that rate's denominator). Empty where there is nothing to say.
    """
    every = (
        frame[list(TASK)]
        .drop_duplicates()
        .merge(frame[["architecture"]].drop_duplicates(), how="cross")
    )
    cells = entered(frame).groupby(_KEYS, sort=False)["task_accuracy"]
    effects = first.coefficients.query("term == 'architecture'")
    parts = (
        best[[*_KEYS, *CONFIGURATION, "attempts"]],
        cells.agg(task_accuracy="mean", spread="std").reset_index(),
        effects[[*_KEYS, "estimate", "low", "high"]].rename(columns={"estimate": "effect"}),
        times[[*_KEYS, "median"]].rename(columns={"median": "convergence_time"}),
        errors[[*_KEYS, "error_rate", "entered"]].rename(columns={"entered": "error_attempts"}),
    )
    table = every
    for part in parts:
        table = table.merge(part, on=_KEYS, how="left")
    whole = ["width", "training_length", "attempts", "error_attempts"]
    return table.assign(**{name: table[name].astype("Int64") for name in whole})
