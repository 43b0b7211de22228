r"""The columns of a linear model, and which of its coefficients the rows at hand can tell.

A model is a list of terms over the factors of the experiment, written as in R: ``architecture``,
``log_rate``, ``architecture:log_rate``. The factors of an attempt do not change from epoch to
epoch, so the matrix of a million rows is a small one over attempts, and a column or two over rows.

A coefficient :math:`\beta_j` is *estimable* if the unit vector :math:`e_j` lies in the row space of
the model matrix: then every solution of the normal equations has the same :math:`\hat\beta_j` and
the same standard error. A library that meets a deficient matrix picks one of its solutions, and the
other coefficients silently change their meaning. Here columns that the ones before them determine
are dropped, as in R, each with its cause, and the coefficients that change their meaning are named.

S. R. Searle, *Linear Models*, Wiley, 1971, Section 5.4.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from study.stats.reml import INDEPENDENT, Moments, moments

INTERCEPT = "intercept"
CENTRE = 0.01
"""Learning rate inside the design of every profile; counted from there, its powers are nearly
orthogonal to everything else.
"""


FAR = 10.0
"""Mean of a column, in units of its deviation, above which the column is centred."""


class NothingToFit(ValueError):
    """The results hold nothing that a model could be fitted to; the message names the cause."""


class Covariate(NamedTuple):
    """A numerical column: what a reader calls it, its factor, and how many levels of that tell
    its effect.
    """

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
    """Return attempts or treatments with the columns that models need: each factor of
    `reference` as a category whose first level is the one named there, where `table` has it, and
    ``log_rate`` with its square, in which the logarithm of the learning rate `centre` counts as
    zero; the paper has 1.
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
    """The columns of a model over N rows of G attempts.

    Models are solved after columns far from zero were centred, which leaves their span as it is,
    because the intercept is one of them: products of a column such as x + 3.3e7 would lose the
    digits of x. All other columns stay as they are, so that those of one group of attempts stay
    zero for all others.
    """

    columns: Mapping[str, np.ndarray]
    """By name, such as ``architecture[lstm]:log_rate``, in the order of the terms; of shape (N,)
    where it is one of `measured`, else (G,).
    """
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
    """Columns that stay and yet mean another thing than in a full design, because they overlap
    with a dropped one, with the cause: their coefficients are not estimable.
    """

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
    def centres(self) -> np.ndarray:
        """What is subtracted from each column: its mean if that is far from zero, else 0, (p,)."""
        rows_of_attempt = np.bincount(self.attempt, minlength=len(self.constant))
        centres = np.zeros(len(self.names))
        for k, (name, column) in enumerate(self.columns.items()):
            weights = None if name in self.measured else rows_of_attempt
            mean = np.average(column, weights=weights)
            deviation = np.sqrt(np.average((column - mean) ** 2, weights=weights))
            if np.ptp(column) > 0 and abs(mean) > FAR * deviation:
                centres[k] = mean
        return centres

    @cached_property
    def centred_constant(self) -> np.ndarray:
        """The columns over attempts less `centres`, (G, ...)."""
        centres = [
            c for c, name in zip(self.centres, self.names, strict=True) if name not in self.measured
        ]
        return self.constant - np.array(centres)

    @cached_property
    def centred_varying(self) -> np.ndarray:
        """The columns over rows less `centres`, (N, ...)."""
        centres = [
            c for c, name in zip(self.centres, self.names, strict=True) if name in self.measured
        ]
        return self.varying - np.array(centres)

    @cached_property
    def back(self) -> np.ndarray:
        """Matrix that turns coefficients of the centred columns into those of the columns, (p,
        p).
        """
        matrix = np.eye(len(self.names))
        matrix[self.names.index(INTERCEPT)] -= self.centres
        return matrix

    @cached_property
    def order(self) -> np.ndarray:
        """Place of each of `names` in ``[constant, varying]``."""
        made = sorted(self.names, key=lambda name: name in self.measured)
        return np.array([made.index(name) for name in self.names])

    def matrix(self) -> np.ndarray:
        """Return the whole matrix, columns ordered as `names`, shape (N, p)."""
        return np.hstack([self.constant[self.attempt], self.varying])[:, self.order]

    def centred_matrix(self) -> np.ndarray:
        """Return `matrix` with the columns less `centres`, shape (N, p)."""
        columns = np.hstack([self.centred_constant[self.attempt], self.centred_varying])
        return columns[:, self.order]

    def predict(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the centred columns times their coefficients, shape (N,), without the matrix."""
        made = np.empty(len(self.order))
        made[self.order] = coefficients
        cut = self.constant.shape[1]
        of_attempt = self.centred_constant @ made[:cut]
        return of_attempt[self.attempt] + self.centred_varying @ made[cut:]

    @cached_property
    def moments(self) -> Moments:
        """Sums over attempts of ``[constant, varying, response]``, centred; the response always."""
        columns = np.column_stack([self.centred_varying, self.response - self.response.mean()])
        return moments(self.centred_constant, columns, self.attempt)

    def gram(self) -> np.ndarray:
        """Return the products of all centred columns over rows, ordered as `names`, (p, p)."""
        return self.moments.total(0.0)[np.ix_(self.order, self.order)]

    def condition_number(self) -> float:
        """Return the ratio of the extreme singular values of the matrix, as statsmodels does."""
        triangle = np.linalg.cholesky(self.gram()).T
        return float(np.linalg.cond(triangle @ np.linalg.inv(self.back)))


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
    """Return the columns of a model with an intercept, without what the rows cannot estimate.

    Parameters
    ----------
    terms
        Terms as in R, such as ``architecture:log_rate``.
    table
        The covariates of the G attempts (`with_covariates`).
    response
        Shape (N,). Rows whose response or measurement is masked (`numpy.ma`) are left out.
    attempt
        The line of `table` that each row belongs to, shape (N,); row by row by default.
    treatment
        Number of each attempt's treatment, shape (G,); its own by default.
    measured
        Terms that vary within an attempt, with their values, shape (N,) each.
    absent
        Covariates without levels to tell their effect, with the cause; `absences` by default.

    Returns
    -------
    Design
        The columns, and which were dropped or changed their meaning.

    Raises
    ------
    NothingToFit
        A response or a measurement is not finite, or all are masked.
    """
    measured = {name: values for name, values in (measured or {}).items() if name in terms}
    attempt = np.arange(len(table)) if attempt is None else np.asarray(attempt)
    treatment = np.arange(len(table)) if treatment is None else np.asarray(treatment)
    masked = _masked_rows(response, measured)
    if masked.all():
        raise NothingToFit("all values of the response are masked")
    if masked.any():
        kept = np.flatnonzero(~masked)
        lines, attempt = np.unique(attempt[kept], return_inverse=True)
        table = table.iloc[lines].reset_index(drop=True)
        treatment = np.unique(treatment[lines], return_inverse=True)[1]
        response = np.asarray(response)[kept]
        measured = {name: np.asarray(values)[kept] for name, values in measured.items()}
    for what, values in {"response": response, **measured}.items():
        if bad := int((~np.isfinite(values)).sum()):
            raise NothingToFit(
                f"{bad:,} of {len(values):,} values of the {what} are not finite; leave those "
                "rows out, and count them"
            )
    absent = absences(terms, table, measured) if absent is None else absent
    columns = {INTERCEPT: np.ones(len(table))}
    for term in terms:
        columns |= {term: measured[term]} if term in measured else _coded(term, table)
    made = Design(
        columns=columns,
        measured=measured,
        planned=tuple(columns),
        attempt=attempt,
        treatment=treatment,
        response=response,
        dropped={},
        changed={},
    )
    parts = {name: [part for part in name.split(":") if part in absent] for name in made.names}
    made = _without(made, {name: absent[found[0]] for name, found in parts.items() if found})
    known = [COVARIATES[name] for name in COVARIATES if name in terms and name not in absent]
    return _without_aliases(made, table, [one for one in known if one.factor in table])


def _masked_rows(response: np.ndarray, measured: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return which rows are masked in the response or in a measurement, shape (N,)."""
    masked = np.ma.getmaskarray(response)
    for values in measured.values():
        masked = masked | np.ma.getmaskarray(values)
    return masked


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
    """Return the columns of a term over attempts by name: a category's levels against its first,
    numbers as they are, products of both for an interaction.
    """
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
    # Products tell cheaply that nothing is wrong, which is the usual case and that of a million
    # rows.
    if (length > 0).all() and np.linalg.eigvalsh(gram / np.outer(length, length))[0] > INDEPENDENT:
        return made
    matrix = made.centred_matrix()
    kept, told = independent(matrix), estimable(matrix, made.back)
    causes = {name: _cause(name, table, covariates) for name in np.array(made.names)[~told]}
    lost = {name: causes.pop(name) for name in np.array(made.names)[~kept]}
    return replace(_without(made, lost), changed=causes)


def _cause(name: str, table: pd.DataFrame, covariates: list[Covariate]) -> str:
    """Return why a coefficient cannot be told from the attempts of `table`, as far as the design
    says.
    """
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
    """Return which columns of `matrix`, shape (rows, columns), are no combination of the columns
    before them.
    """
    triangle = _triangle(matrix)
    kept = np.zeros(matrix.shape[1], bool)
    for place, column in enumerate(triangle.T):
        before = triangle[:, kept]
        rest = column - before @ np.linalg.lstsq(before, column, rcond=None)[0]
        kept[place] = rest @ rest > INDEPENDENT
    return kept


def estimable(matrix: np.ndarray, combinations: np.ndarray | None = None) -> np.ndarray:
    """Return which coefficients of a model matrix are estimable.

    Parameters
    ----------
    matrix
        The model matrix, shape (rows, columns).
    combinations
        Combinations of the coefficients to ask about instead, shape (combinations, columns).

    Returns
    -------
    numpy.ndarray
        Whether each is estimable, bool.
    """
    _, values, basis = np.linalg.svd(_triangle(matrix), full_matrices=False)
    basis = basis[values**2 > INDEPENDENT * values[0] ** 2]
    if combinations is None:
        combinations = np.eye(matrix.shape[1])
    # Coefficients of columns of length one, as the row space is of those.
    asked = combinations / _lengths(matrix)
    asked = asked / np.linalg.norm(asked, axis=1, keepdims=True)
    # Squared length of each one's projection on the row space: 1 inside it, less outside.
    return ((asked @ basis.T) ** 2).sum(axis=1) > 1 - 1e-6


def _triangle(matrix: np.ndarray) -> np.ndarray:
    """Return few rows with the row space of `matrix`, its columns scaled to length one."""
    return np.linalg.qr(matrix / _lengths(matrix), mode="r")


def _lengths(matrix: np.ndarray) -> np.ndarray:
    """Return the length of each column, 1 for an empty one."""
    length = np.linalg.norm(matrix, axis=0)
    return np.where(length > 0, length, 1.0)
