r"""The columns of a linear model, and which of its coefficients the rows at hand can tell.

A model is a list of terms over the factors of the experiment, written as in R: ``architecture``, ``log_rate``,
``architecture:log_rate``. The factors of an attempt do not change from epoch to epoch, so the matrix of a million rows is a
small one over attempts, and a column or two over rows.

A coefficient :math:`\beta_j` is *estimable* if the unit vector :math:`e_j` lies in the row space of the model matrix: then
every solution of the normal equations has the same :math:`\hat\beta_j` and the same standard error. A library that meets a
deficient matrix picks one of its solutions, and the other coefficients silently change their meaning. Here columns that the
ones before them determine are dropped, as in R, each with its cause, and the coefficients that change their meaning are named.

S. R. Searle, *Linear Models*, Wiley, 1971, Section 5.4.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from study.stats.reml import Moments, moments

INTERCEPT = "intercept"
CENTRE = 0.01
"""Learning rate inside the design of every profile; counted from there, its powers are nearly orthogonal to everything else."""
_TOLERANCE = 1e-9
"""What is left of a column of length one counts as rounding below this."""
_INDEPENDENT = 1e-10
"""Smallest eigenvalue of the products of unit columns that passes for independent without a closer look."""


class NothingToFit(ValueError):
    """The results hold nothing that a model could be fitted to; the message names the cause."""


class Covariate(NamedTuple):
    """A numerical column: what a reader calls it, its factor, and how many levels of that tell its effect."""

    label: str
    factor: str
    levels: int


COVARIATES = {
    "log_rate": Covariate("log(learning rate)", "learning_rate", 2),
    "log_rate_squared": Covariate("log(learning rate)²", "learning_rate", 3),
    "width": Covariate("recurrent dimension", "width", 2),
    "training_length": Covariate("training length", "training_length", 2),
    "epoch": Covariate("epoch", "epoch", 2),
}


def with_covariates(
    table: pd.DataFrame, reference: Mapping[str, str], *, centre: float = 1.0
) -> pd.DataFrame:
    """Return attempts or treatments with the columns that models need: each factor of `reference` as a category whose first level is the one named there, where
    `table` has it, and ``log_rate`` with its square, in which the logarithm of the learning rate `centre` counts as zero; the text has 1.
    """
    table = table.reset_index(drop=True)
    for name, level in reference.items():
        levels = sorted(table[name].unique(), key=lambda one: (one != level, one))
        table[name] = pd.Categorical(table[name], levels)
    table["log_rate"] = np.log(table["learning_rate"].astype(float) / centre)
    table["log_rate_squared"] = table["log_rate"] ** 2
    return table


@dataclass(frozen=True)
class Design:
    """The columns of a model over N rows of G attempts."""

    columns: Mapping[str, np.ndarray]
    """By name, such as ``architecture[lstm]:log_rate``, in the order of the terms; of shape (N,) where it is one of `measured`, else (G,)."""
    measured: Collection[str]
    """Names of the columns that vary within an attempt."""
    planned: tuple[str, ...]
    """The names with those of columns that were dropped."""
    attempt: np.ndarray
    """Attempt of each row, shape (N,)."""
    treatment: np.ndarray
    """Treatment of each attempt, shape (G,): attempts of one are not independent of each other."""
    response: np.ndarray
    dropped: Mapping[str, str]
    """Columns that could not be estimated, with the cause."""
    changed: Mapping[str, str]
    """Columns that stay and yet mean another thing than in a full design, because they overlap with a dropped one, with the cause: their coefficients are not estimable."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the p coefficients."""
        return tuple(self.columns)

    @cached_property
    def constant(self) -> np.ndarray:
        """The columns over attempts side by side, (G, ...)."""
        return np.column_stack([x for name, x in self.columns.items() if name not in self.measured])

    @cached_property
    def varying(self) -> np.ndarray:
        """The columns over rows side by side, (N, ...)."""
        made = [self.columns[name] for name in self.names if name in self.measured]
        return np.array(made).reshape(-1, len(self.response)).T

    @cached_property
    def order(self) -> np.ndarray:
        """Place of each of `names` in ``[constant, varying]``."""
        made = sorted(self.names, key=lambda name: name in self.measured)
        return np.array([made.index(name) for name in self.names])

    def matrix(self) -> np.ndarray:
        """Return the whole matrix, columns ordered as `names`, shape (N, p)."""
        return np.hstack([self.constant[self.attempt], self.varying])[:, self.order]

    def predict(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the matrix times the coefficients, shape (N,), without making the matrix."""
        made = np.empty(len(self.order))
        made[self.order] = coefficients
        cut = self.constant.shape[1]
        return (self.constant @ made[:cut])[self.attempt] + self.varying @ made[cut:]

    @cached_property
    def moments(self) -> Moments:
        """Sums over attempts of ``[constant, varying, response]``, the response less its mean."""
        columns = np.column_stack([self.varying, self.response - self.response.mean()])
        return moments(self.constant, columns, self.attempt)

    def gram(self) -> np.ndarray:
        """Return the products of all columns over rows, ordered as `names`, shape (p, p)."""
        return self.moments.total(0.0)[np.ix_(self.order, self.order)]

    def condition_number(self) -> float:
        """Return the ratio of the extreme singular values of the matrix, as statsmodels reports it."""
        values = np.linalg.eigvalsh(self.gram())
        return float(np.sqrt(values[-1] / values[0]))


def design(
    terms: Sequence[str],
    table: pd.DataFrame,
    response: np.ndarray,
    *,
    attempt: np.ndarray | None = None,
    treatment: np.ndarray | None = None,
    measured: Mapping[str, np.ndarray] | None = None,
    absent: Mapping[str, str] | None = None,
) -> Design:
    """Return the columns of a model with an intercept and these `terms`, without what the rows cannot estimate.

    `table` has the covariates of the G attempts (`with_covariates`), `response` the N rows; `attempt` is the line of `table` that each row belongs to, row by row by
    default; `treatment` is the number of each attempt's, its own by default; `measured` are terms that vary within an attempt, with their values, shape (N,);
    `absent` are covariates without levels to tell their effect, with the cause, `absences` of these rows by default.
    Raises NothingToFit: a response or a measurement is not finite.
    """
    measured = {name: values for name, values in (measured or {}).items() if name in terms}
    for what, values in {"response": response, **measured}.items():
        if bad := int((~np.isfinite(values)).sum()):
            raise NothingToFit(
                f"{bad:,} of {len(values):,} values of the {what} are not finite; leave those rows out, and count them"
            )
    absent = absences(terms, table, measured) if absent is None else absent
    columns = {INTERCEPT: np.ones(len(table))}
    for term in terms:
        columns |= {term: measured[term]} if term in measured else _coded(term, table)
    made = Design(
        columns=columns,
        measured=measured,
        planned=tuple(columns),
        attempt=np.arange(len(table)) if attempt is None else attempt,
        treatment=np.arange(len(table)) if treatment is None else treatment,
        response=response,
        dropped={},
        changed={},
    )
    parts = {name: [part for part in name.split(":") if part in absent] for name in made.names}
    made = _without(made, {name: absent[found[0]] for name, found in parts.items() if found})
    known = [COVARIATES[name] for name in COVARIATES if name in terms and name not in absent]
    return _without_aliases(made, table, [one for one in known if one.factor in table])


def absences(
    terms: Sequence[str], table: pd.DataFrame, measured: Mapping[str, np.ndarray] = {}
) -> dict[str, str]:
    """Return the covariates that no fit to any part of the rows could tell, each with the cause."""
    causes = {}
    for name in dict.fromkeys(part for term in terms for part in term.split(":")):
        covariate = COVARIATES.get(name, Covariate(name, name, 2))
        if name in measured:
            values = pd.Series([measured[name].min(), measured[name].max()])
            causes[name] = _too_few(covariate, values, "the rows have")
        elif name in COVARIATES:
            causes[name] = _too_few(covariate, table[covariate.factor], "the attempts have")
    return {name: cause for name, cause in causes.items() if cause}


def _too_few(covariate: Covariate, values: pd.Series, start: str) -> str:
    """Return that a factor has too few levels to tell the effect of `covariate`, or nothing."""
    levels = values.unique()
    if len(levels) >= covariate.levels:
        return ""
    factor = covariate.factor.replace("_", " ")
    if len(levels) == 1:
        return f"{start} one {factor} ({levels[0]:g})"
    return f"{start} {len(levels)} levels of {factor}, {covariate.label} needs {covariate.levels}"


def _coded(term: str, table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the columns of a term over attempts by name: a category's levels against its first, numbers as they are, products of both for an interaction."""
    parts = []
    for name in term.split(":"):
        column = table[name]
        if pd.api.types.is_numeric_dtype(column):
            parts.append({name: column.to_numpy(float)})
            continue
        levels = column.astype("category").cat.categories[1:]
        parts.append({f"{name}[{level}]": (column == level).to_numpy(float) for level in levels})
    first, *others = parts
    for other in others:
        first = {f"{a}:{b}": x * y for b, y in other.items() for a, x in first.items()}
    return first


def _without(made: Design, causes: Mapping[str, str]) -> Design:
    """Drop columns, each with its cause."""
    kept = {name: column for name, column in made.columns.items() if name not in causes}
    return replace(made, columns=kept, dropped={**made.dropped, **causes})


def _without_aliases(made: Design, table: pd.DataFrame, covariates: list[Covariate]) -> Design:
    """Drop the columns that those before them determine, each with its cause."""
    gram = made.gram()
    length = np.sqrt(np.diag(gram))
    # Products tell cheaply that nothing is wrong, which is the usual case and that of a million rows.
    if (length > 0).all() and np.linalg.eigvalsh(gram / np.outer(length, length))[0] > _INDEPENDENT:
        return made
    matrix = made.matrix()
    kept, told = independent(matrix), estimable(matrix)
    causes = {name: _cause(name, table, covariates) for name in np.array(made.names)[~told]}
    lost = {name: causes.pop(name) for name in np.array(made.names)[~kept]}
    return replace(_without(made, lost), changed=causes)


def _cause(name: str, table: pd.DataFrame, covariates: list[Covariate]) -> str:
    """Return why a coefficient cannot be told from the attempts of `table`, as far as the design says."""
    levels = dict(re.findall(r"(\w+)\[([^]]*)\]", name))
    groups = {}
    if "architecture" in table:
        reference = table["architecture"].cat.categories[0]
        for who in (reference, levels.get("architecture", reference)):
            groups[who] = table[table["architecture"] == who]
    if levels:
        own = [table[factor] == level for factor, level in levels.items()]
        groups[" with ".join(levels.values())] = table[np.logical_and.reduce(own)]
    for who, part in groups.items():
        if part.empty:
            return f"no attempt of {who} entered"
    for who, part in groups.items():
        for covariate in covariates:
            if few := _too_few(covariate, part[covariate.factor], f"{who} entered with"):
                return few
    return "its column is a combination of others"


def independent(matrix: np.ndarray) -> np.ndarray:
    """Return which columns of `matrix`, shape (rows, columns), are no combination of the columns before them."""
    triangle = _triangle(matrix)
    kept = np.zeros(matrix.shape[1], bool)
    for place, column in enumerate(triangle.T):
        before = triangle[:, kept]
        rest = column - before @ np.linalg.lstsq(before, column, rcond=None)[0]
        kept[place] = np.linalg.norm(rest) > _TOLERANCE
    return kept


def estimable(matrix: np.ndarray) -> np.ndarray:
    """Return which coefficients of the model matrix, shape (rows, columns), are estimable."""
    _, values, rows = np.linalg.svd(_triangle(matrix), full_matrices=False)
    rows = rows[values > _TOLERANCE * values[0]]
    # Squared length of the projection of each unit vector on the row space: 1 inside it, less outside.
    return (rows**2).sum(axis=0) > 1 - 1e-6


def _triangle(matrix: np.ndarray) -> np.ndarray:
    """Return few rows with the row space of `matrix` and the angles of its columns, whose units do not change what can be told."""
    length = np.linalg.norm(matrix, axis=0)
    return np.linalg.qr(matrix / np.where(length > 0, length, 1.0), mode="r")
