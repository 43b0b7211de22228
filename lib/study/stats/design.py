r"""The columns of a linear model, and which of its coefficients can be estimated.

A model is a list of terms over the factors of the experiment, written as in R: ``architecture``,
``log_rate``, ``architecture:log_rate``. The factors of an attempt do not change from epoch to
epoch. So a matrix of a million rows is stored as a small one over attempts, plus a column or two
over rows.

A coefficient :math:`\beta_j` is *estimable* if the unit vector :math:`e_j` lies in the row space of
the model matrix: then every solution of the normal equations has the same :math:`\hat\beta_j` and
the same standard error. If the matrix is rank deficient, most libraries pick one of the solutions,
and the other coefficients silently change their meaning. Here columns that are combinations of
earlier columns are dropped, as in R, each with its cause, and the remaining coefficients that
change their meaning are named.

S. R. Searle, *Linear Models*, Wiley, 1971, Section 5.4.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from study.stats.reml import INDEPENDENT, Moments, moments

INTERCEPT = "intercept"
"""Name of the column of ones."""
CENTRE = 0.01
"""Learning rate inside the design of every profile. If the logarithm counts from there, its powers
are nearly orthogonal to everything else.
"""
FAR = 10.0
"""A column is centred if its mean is more than this many standard deviations from zero."""
_ESTIMABLE = 1e-6
"""Largest part of a combination's squared length outside of the row space if it is estimable."""


class NothingToFit(ValueError):
    """No model can be fitted to the results; the message names the cause."""


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
    table: pd.DataFrame, reference: Mapping[str, str], *, centre: float = 1.0
) -> pd.DataFrame:
    """Add the columns that models need to a table of attempts or treatments.

    Parameters
    ----------
    table
        One row per attempt or treatment, with the factors as columns.
    reference
        Reference level of each factor that becomes a category. If `table` lacks that level, the
        first level in alphabetical order is the reference.
    centre
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
    table["log_rate"] = np.log(table["learning_rate"].astype(float) / centre)
    table["log_rate_squared"] = table["log_rate"] ** 2
    return table


@dataclass(frozen=True)
class Design:
    """The columns of a model over N rows of G attempts.

    Models are solved after columns far from zero were centred: products of a column such as
    x + 3.3e7 would lose the digits of x. Centring leaves the span of the columns as it is, because
    the intercept is one of them. All other columns stay as they are, so that a column that is zero
    for some group of attempts remains zero there.
    """

    columns: Mapping[str, np.ndarray]
    """Columns by name, such as ``architecture[lstm]:log_rate``, in the order of the terms. A column
    named in `measured` has shape (N,), any other has shape (G,).
    """
    measured: Collection[str]
    """Names of the columns that vary within an attempt."""
    planned: tuple[str, ...]
    """Names of all columns, including dropped ones."""
    attempt: np.ndarray
    """Attempt of each row, shape (N,)."""
    treatment: np.ndarray
    """Treatment of each attempt, shape (G,). Attempts of one treatment depend on each other."""
    response: np.ndarray
    """Shape (N,)."""
    dropped: Mapping[str, str]
    """Columns that could not be estimated, with the cause."""
    changed: Mapping[str, str]
    """Columns that stay although their coefficient is not estimable, with the cause. They overlap
    with a dropped column, so they mean something else than in a full design.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the p coefficients."""
        return tuple(self.columns)

    @cached_property
    def _constant_names(self) -> list[str]:
        return [name for name in self.names if name not in self.measured]

    @cached_property
    def _varying_names(self) -> list[str]:
        return [name for name in self.names if name in self.measured]

    @cached_property
    def constant(self) -> np.ndarray:
        """The columns over attempts side by side, shape (G, ...)."""
        return np.column_stack([self.columns[name] for name in self._constant_names])

    @cached_property
    def varying(self) -> np.ndarray:
        """The columns over rows side by side, shape (N, ...)."""
        columns = [self.columns[name] for name in self._varying_names]
        return np.array(columns).reshape(-1, len(self.response)).T

    @cached_property
    def centres(self) -> np.ndarray:
        """Number subtracted from each column, shape (p,): its mean if it is centred, else 0."""
        rows_of_attempt = np.bincount(self.attempt, minlength=len(self.constant))
        centres = np.zeros(len(self.names))
        for k, (name, column) in enumerate(self.columns.items()):
            weights = None if name in self.measured else rows_of_attempt
            mean = np.average(column, weights=weights)
            deviation = np.sqrt(np.average((column - mean) ** 2, weights=weights))
            if np.ptp(column) > 0 and abs(mean) > FAR * deviation:
                centres[k] = mean
        return centres

    def _centres_of(self, names: list[str]) -> np.ndarray:
        return self.centres[[self.names.index(name) for name in names]]

    @cached_property
    def centred_constant(self) -> np.ndarray:
        """The columns over attempts less `centres`, shape (G, ...)."""
        return self.constant - self._centres_of(self._constant_names)

    @cached_property
    def centred_varying(self) -> np.ndarray:
        """The columns over rows less `centres`, shape (N, ...)."""
        return self.varying - self._centres_of(self._varying_names)

    @cached_property
    def uncentre(self) -> np.ndarray:
        """Matrix that maps coefficients of the centred columns to those of the original columns,
        shape (p, p).
        """
        matrix = np.eye(len(self.names))
        matrix[self.names.index(INTERCEPT)] -= self.centres
        return matrix

    @cached_property
    def order(self) -> np.ndarray:
        """Index of each of `names` in ``[constant, varying]``, shape (p,)."""
        stored = self._constant_names + self._varying_names
        return np.array([stored.index(name) for name in self.names])

    def matrix(self) -> np.ndarray:
        """Return the model matrix, columns ordered as `names`.

        Returns
        -------
        numpy.ndarray
            Shape (N, p).
        """
        return np.hstack([self.constant[self.attempt], self.varying])[:, self.order]

    def centred_matrix(self) -> np.ndarray:
        """Return `matrix` with `centres` subtracted.

        Returns
        -------
        numpy.ndarray
            Shape (N, p).
        """
        columns = np.hstack([self.centred_constant[self.attempt], self.centred_varying])
        return columns[:, self.order]

    def predict(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the centred columns times their coefficients, without building the matrix.

        Parameters
        ----------
        coefficients
            Coefficients of the centred columns, ordered as `names`, shape (p,).

        Returns
        -------
        numpy.ndarray
            Shape (N,).
        """
        stored = np.empty(len(self.order))
        stored[self.order] = coefficients
        constant_count = self.constant.shape[1]
        part_of_attempt = self.centred_constant @ stored[:constant_count]
        return part_of_attempt[self.attempt] + self.centred_varying @ stored[constant_count:]

    @cached_property
    def moments(self) -> Moments:
        """Sums over attempts of ``[constant, varying, response]``, less their centres; the response
        is always centred.
        """
        columns = np.column_stack([self.centred_varying, self.response - self.response.mean()])
        return moments(self.centred_constant, columns, self.attempt)

    def gram(self) -> np.ndarray:
        """Return the products of all centred columns over rows.

        Returns
        -------
        numpy.ndarray
            Shape (p, p), ordered as `names`.
        """
        return self.moments.total(0.0)[np.ix_(self.order, self.order)]

    def condition_number(self) -> float:
        """Return the ratio of the extreme singular values of the matrix, as statsmodels does.

        Returns
        -------
        float
            The condition number.
        """
        triangle = np.linalg.cholesky(self.gram()).T
        return float(np.linalg.cond(triangle @ np.linalg.inv(self.uncentre)))


def build_design(
    terms: Sequence[str],
    table: pd.DataFrame,
    response: np.ndarray,
    *,
    attempt: np.ndarray | None = None,
    treatment: np.ndarray | None = None,
    measured: Mapping[str, np.ndarray] | None = None,
    absent: Mapping[str, str] | None = None,
) -> Design:
    """Return the columns of a model with an intercept, without those that cannot be estimated.

    Parameters
    ----------
    terms
        Terms as in R, such as ``architecture:log_rate``.
    table
        The covariates of the G attempts (`with_covariates`).
    response
        Shape (N,). Rows whose response or measurement is masked (`numpy.ma`) are left out.
    attempt
        The row of `table` that each observation belongs to, shape (N,); its own by default.
    treatment
        Number of each attempt's treatment, shape (G,); its own by default.
    measured
        Terms that vary within an attempt, with their values, shape (N,) each.
    absent
        Covariates that cannot be estimated, with the cause; `absent_covariates` by default.

    Returns
    -------
    Design
        The columns, and which were dropped or changed their meaning.

    Raises
    ------
    NothingToFit
        A response or a measurement is not finite, or all are masked.
    """
    measured = measured or {}
    values = {name: column for name, column in measured.items() if name in terms}
    if attempt is None:
        attempt = np.arange(len(table))
    if treatment is None:
        treatment = np.arange(len(table))
    rows = _Observations(table, np.asarray(attempt), np.asarray(treatment), response, values)
    rows = _without_masked(rows)
    _check_finite(rows)
    if absent is None:
        absent = absent_covariates(terms, rows.table, rows.measured)
    columns = {INTERCEPT: np.ones(len(rows.table))}
    for term in terms:
        if term in rows.measured:
            columns[term] = rows.measured[term]
        else:
            columns |= _code_term(term, rows.table)
    design = Design(
        columns=columns,
        measured=rows.measured,
        planned=tuple(columns),
        attempt=rows.attempt,
        treatment=rows.treatment,
        response=rows.response,
        dropped={},
        changed={},
    )
    design = _drop(design, _causes_of_absence(design.names, absent))
    covariates = []
    for name, covariate in COVARIATES.items():
        if name in terms and name not in absent and covariate.factor in rows.table:
            covariates.append(covariate)
    return _drop_aliases(design, rows.table, covariates)


class _Observations(NamedTuple):
    """The arguments of `build_design` with their defaults filled in."""

    table: pd.DataFrame
    attempt: np.ndarray
    treatment: np.ndarray
    response: np.ndarray
    measured: Mapping[str, np.ndarray]


def _without_masked(rows: _Observations) -> _Observations:
    """Leave out masked rows, and attempts and treatments without any other row."""
    masked = np.ma.getmaskarray(rows.response)
    for values in rows.measured.values():
        masked = masked | np.ma.getmaskarray(values)
    if masked.all():
        raise NothingToFit("all values of the response are masked")
    if not masked.any():
        return rows
    inside = np.flatnonzero(~masked)
    lines, attempt = np.unique(rows.attempt[inside], return_inverse=True)
    return _Observations(
        table=rows.table.iloc[lines].reset_index(drop=True),
        attempt=attempt,
        treatment=np.unique(rows.treatment[lines], return_inverse=True)[1],
        response=np.asarray(rows.response)[inside],
        measured={name: np.asarray(values)[inside] for name, values in rows.measured.items()},
    )


def _check_finite(rows: _Observations) -> None:
    for name, values in {"response": rows.response, **rows.measured}.items():
        bad = int((~np.isfinite(values)).sum())
        if bad:
            raise NothingToFit(
                f"{bad:,} of {len(values):,} values of the {name} are not finite; leave those "
                "rows out, and count them"
            )


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
            cause = _too_few_levels(covariate, ends, "the rows have")
        elif name in COVARIATES:
            cause = _too_few_levels(covariate, table[covariate.factor], "the attempts have")
        if cause:
            causes[name] = cause
    return causes


def _too_few_levels(covariate: Covariate, values: pd.Series, start: str) -> str:
    """Return why `values` have too few levels to estimate the effect of `covariate`, or ''."""
    levels = values.unique()
    if len(levels) >= covariate.levels:
        return ""
    factor = covariate.factor.replace("_", " ")
    if len(levels) == 1:
        return f"{start} one {factor} ({levels[0]:g})"
    return f"{start} {len(levels)} levels of {factor}, {covariate.label} needs {covariate.levels}"


def _causes_of_absence(names: Sequence[str], absent: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that involve an absent covariate, each with the cause."""
    causes = {}
    for name in names:
        for part in name.split(":"):
            if part in absent:
                causes[name] = absent[part]
                break
    return causes


def _code_term(term: str, table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the columns of a term over attempts by name.

    A category gives one indicator for each level but the first, a number gives itself, and an
    interaction gives the products of the columns of its parts.
    """
    first, *others = term.split(":")
    columns = _code_factor(first, table[first])
    for name in others:
        columns = _multiply(columns, _code_factor(name, table[name]))
    return columns


def _code_factor(name: str, column: pd.Series) -> dict[str, np.ndarray]:
    if pd.api.types.is_numeric_dtype(column):
        return {name: column.to_numpy(float)}
    levels = column.astype("category").cat.categories[1:]
    return {f"{name}[{level}]": (column == level).to_numpy(float) for level in levels}


def _multiply(
    left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the product of each left column with each right one; left ones vary fastest."""
    products = {}
    for right_name, right_column in right.items():
        for left_name, left_column in left.items():
            products[f"{left_name}:{right_name}"] = left_column * right_column
    return products


def _drop(design: Design, causes: Mapping[str, str]) -> Design:
    """Drop columns, each with its cause."""
    columns = {name: column for name, column in design.columns.items() if name not in causes}
    return replace(design, columns=columns, dropped={**design.dropped, **causes})


def _drop_aliases(design: Design, table: pd.DataFrame, covariates: list[Covariate]) -> Design:
    """Drop the columns that are combinations of earlier ones, each with its cause."""
    if _has_full_rank(design.gram()):
        return design
    matrix = design.centred_matrix()
    is_independent = independent(matrix)
    is_estimable = estimable(matrix, design.uncentre)
    dropped = {}
    changed = {}
    for k, name in enumerate(design.names):
        if not is_independent[k]:
            dropped[name] = _cause_of_alias(name, table, covariates)
        elif not is_estimable[k]:
            changed[name] = _cause_of_alias(name, table, covariates)
    return replace(_drop(design, dropped), changed=changed)


def _has_full_rank(gram: np.ndarray) -> bool:
    """Return whether the columns are independent, judged by their products.

    This is the usual case, and much cheaper than a decomposition of a million rows.
    """
    length = np.sqrt(np.diag(gram))
    if not (length > 0).all():
        return False
    return bool(np.linalg.eigvalsh(gram / np.outer(length, length))[0] > INDEPENDENT)


def _cause_of_alias(name: str, table: pd.DataFrame, covariates: Iterable[Covariate]) -> str:
    """Return why a coefficient cannot be estimated from the attempts of `table`."""
    levels = dict(re.findall(r"(\w+)\[([^]]*)\]", name))
    groups = {}
    if "architecture" in table:
        reference = table["architecture"].cat.categories[0]
        for architecture in (reference, levels.get("architecture", reference)):
            groups[architecture] = table[table["architecture"] == architecture]
    if levels:
        inside = np.full(len(table), True)
        for factor, level in levels.items():
            inside &= (table[factor] == level).to_numpy()
        groups[" with ".join(levels.values())] = table[inside]
    for group, attempts in groups.items():
        if attempts.empty:
            return f"no attempt of {group} entered"
    for group, attempts in groups.items():
        for covariate in covariates:
            cause = _too_few_levels(covariate, attempts[covariate.factor], f"{group} entered with")
            if cause:
                return cause
    return "its column is a combination of others"


def independent(matrix: np.ndarray) -> np.ndarray:
    """Return which columns of a matrix are not combinations of the columns before them.

    Parameters
    ----------
    matrix
        Shape (rows, columns).

    Returns
    -------
    numpy.ndarray
        bool, shape (columns,).
    """
    triangle = _row_space(matrix)
    result = np.zeros(matrix.shape[1], bool)
    for k, column in enumerate(triangle.T):
        earlier = triangle[:, result]
        rest = column - earlier @ np.linalg.lstsq(earlier, column, rcond=None)[0]
        result[k] = rest @ rest > INDEPENDENT
    return result


def estimable(matrix: np.ndarray, combinations: np.ndarray | None = None) -> np.ndarray:
    """Return which coefficients of a model matrix are estimable.

    Parameters
    ----------
    matrix
        The model matrix, shape (rows, columns).
    combinations
        Linear combinations of the coefficients to examine instead, shape (combinations, columns).

    Returns
    -------
    numpy.ndarray
        bool, shape (columns,) or (combinations,).
    """
    if combinations is None:
        combinations = np.eye(matrix.shape[1])
    _, values, basis = np.linalg.svd(_row_space(matrix), full_matrices=False)
    basis = basis[values**2 > INDEPENDENT * values[0] ** 2]
    # The row space is that of columns of length one, so the coefficients must be theirs too.
    scaled = combinations / _column_lengths(matrix)
    scaled = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    # Squared length of each projection on the row space: 1 inside of it, less outside.
    projected = ((scaled @ basis.T) ** 2).sum(axis=1)
    return projected > 1 - _ESTIMABLE


def _row_space(matrix: np.ndarray) -> np.ndarray:
    """Return a few rows that span the row space of `matrix`, its columns scaled to length one."""
    return np.linalg.qr(matrix / _column_lengths(matrix), mode="r")


def _column_lengths(matrix: np.ndarray) -> np.ndarray:
    """Return the length of each column, 1 for a column of zeros."""
    length = np.linalg.norm(matrix, axis=0)
    return np.where(length > 0, length, 1.0)
