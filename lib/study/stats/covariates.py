"""The numerical columns of linear models: the learning rate's logarithm, the width, the lengths.

A covariate's effect can be estimated only if its factor has enough levels among the attempts.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

CENTER = 0.01
"""Learning rate inside the design of every profile. If the logarithm counts from there, its powers
are nearly orthogonal to everything else.
"""


class Covariate(NamedTuple):
    """A numerical column."""

    label: str
    """Name for readers."""
    factor: str
    """Factor of the design that it is computed from."""
    levels: int
    """Levels of the factor needed to estimate its effect."""


COVARIATES = {
    "log_rate": Covariate("log(learning rate)", "learning_rate", 2),
    "log_rate_squared": Covariate("log(learning rate)²", "learning_rate", 3),
    "width": Covariate("recurrent dimension", "width", 2),
    "training_length": Covariate("training length", "training_length", 2),
    "epoch": Covariate("epoch", "epoch", 2),
}
"""The numerical columns by name."""


def with_covariates(
    table: pd.DataFrame, reference: Mapping[str, str], *, center: float = 1.0
) -> pd.DataFrame:
    """Add the columns that models need to a table of attempts or treatments.

    Parameters
    ----------
    table
        One row per attempt or treatment, with the factors as columns.
    reference
        Reference level of each factor that becomes a category. If `table` lacks that level, the
        first level in alphabetical order is the reference.
    center
        Learning rate whose logarithm counts as zero; 1 in the paper.

    Returns
    -------
    pandas.DataFrame
        `table` with a new index, the factors of `reference` as categories whose first level is the
        reference, ``log_rate`` (natural logarithm) and ``log_rate_squared``.
    """
    table = table.reset_index(drop=True)
    for name, level in reference.items():
        levels = sorted(table[name].unique())
        if level in levels:
            levels.remove(level)
            levels.insert(0, level)
        table[name] = pd.Categorical(table[name], levels)
    table["log_rate"] = np.log(table["learning_rate"].astype(float) / center)
    table["log_rate_squared"] = table["log_rate"] ** 2
    return table


def absent_covariates(
    terms: Sequence[str], table: pd.DataFrame, measured: Mapping[str, np.ndarray] | None = None
) -> dict[str, str]:
    """Return the covariates with too few levels to be estimated from any part of the rows.

    Parameters
    ----------
    terms
        Terms of the model.
    table
        The covariates of the attempts.
    measured
        Terms that vary within an attempt, with their values.

    Returns
    -------
    dict
        Covariate: cause.
    """
    measured = measured or {}
    names = []
    for term in terms:
        names += term.split(":")
    causes = {}
    for name in dict.fromkeys(names):
        covariate = COVARIATES.get(name, Covariate(name, name, 2))
        cause = ""
        if name in measured:
            ends = pd.Series([measured[name].min(), measured[name].max()])
            cause = why_too_few_levels(covariate, ends, "the rows have")
        elif name in COVARIATES:
            cause = why_too_few_levels(covariate, table[covariate.factor], "the attempts have")
        if cause:
            causes[name] = cause
    return causes


def why_too_few_levels(covariate: Covariate, values: pd.Series, start: str) -> str:
    """Return why `values` have too few levels to estimate the effect of `covariate`.

    Parameters
    ----------
    covariate
        The column whose effect is estimated.
    values
        Values of its factor.
    start
        Beginning of the sentence, such as ``the attempts have``.

    Returns
    -------
    str
        The reason; empty if there are enough levels.
    """
    levels = values.unique()
    if len(levels) >= covariate.levels:
        return ""
    factor = covariate.factor.replace("_", " ")
    if len(levels) == 1:
        return f"{start} one {factor} ({levels[0]:g})"
    return f"{start} {len(levels)} levels of {factor}, {covariate.label} needs {covariate.levels}"
