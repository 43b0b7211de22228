"""The terms of a linear model: what a reader calls them, and why one cannot be told from the attempts at hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

_ARCHITECTURE = "architecture[T."


@dataclass(frozen=True)
class Covariate:
    """A numerical column of a model."""

    label: str
    """What a reader calls it."""
    factor: str
    """The factor of the design that it is computed from."""
    levels: int
    """Levels of the factor that it takes to tell its effect: two for a line, three for a parabola."""


@dataclass(frozen=True)
class Model:
    """A formula of the text, as it is written there and as patsy reads it."""

    equation: str
    latex: str
    formula: str
    """The right-hand side; the response is always task accuracy (1.5)."""
    covariates: Mapping[str, Covariate] = field(default_factory=dict)


def describe(name: str, model: Model) -> tuple[str, str]:
    """Return how a reader calls a column of the model matrix, and the architecture in it, if any.

    >>> describe("architecture[T.lstm]:rate", Model("", "", "", {"rate": Covariate("log rate", "rate", 2)}))
    ('architecture × log rate', 'lstm')
    """
    words, architecture = [], ""
    for part in name.split(":"):
        if part.startswith(_ARCHITECTURE):
            architecture = part.removeprefix(_ARCHITECTURE).removesuffix("]")
            words.append("architecture")
        else:
            known = model.covariates.get(part)
            words.append(known.label if known else part.lower())
    return " × ".join(words), architecture


def absent_covariates(model: Model, rows: pd.DataFrame) -> dict[str, str]:
    """Return the covariates that no fit to any part of `rows` could tell, each with the cause."""
    causes = {
        name: _too_few(covariate, rows, "the attempts have")
        for name, covariate in model.covariates.items()
    }
    return {name: cause for name, cause in causes.items() if cause}


def absence(name: str, absent: Mapping[str, str]) -> str:
    """Return why the column `name` is no term of the model, given `absent_covariates`, or nothing."""
    return next((absent[part] for part in name.split(":") if part in absent), "")


def cause(
    name: str, rows: pd.DataFrame, model: Model, reference: str, absent: Mapping[str, str]
) -> str:
    """Return why the column `name` cannot be told from `rows`, as far as the design says."""
    architecture = describe(name, model)[1]
    who = dict.fromkeys([reference, architecture or reference])
    groups = {one: rows[rows["architecture"] == one] for one in who}
    for one, group in groups.items():
        if group.empty:
            return f"no attempt of {one} entered"
    known = [covariate for column, covariate in model.covariates.items() if column not in absent]
    for one, group in groups.items():
        for covariate in known:
            if found := _too_few(covariate, group, f"{one} entered with"):
                return found
    return "its column is a combination of others"


def _too_few(covariate: Covariate, rows: pd.DataFrame, start: str) -> str:
    """Return that `rows` have too few levels to tell the effect of `covariate`, or nothing."""
    levels = rows[covariate.factor].unique()
    if len(levels) >= covariate.levels:
        return ""
    factor = covariate.factor.replace("_", " ")
    if len(levels) == 1:
        return f"{start} one {factor} ({levels[0]})"
    return f"{start} {len(levels)} levels of {factor}, {covariate.label} needs {covariate.levels}"
