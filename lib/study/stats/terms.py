"""A model's columns, built from its terms, without those that cannot be estimated.

A model is a list of terms over the factors of the experiment, written as in R: ``architecture``,
``log_rate``, ``architecture:log_rate``.

If the matrix is rank deficient, most libraries pick one of the solutions of the normal equations,
and the other coefficients silently change their meaning. Here columns that are combinations of
earlier columns are dropped, as in R, each with its cause, and the remaining coefficients that
change their meaning are named (`study.stats.estimability`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from study.stats.covariates import COVARIATES, Covariate, absent_covariates, why_too_few_levels
from study.stats.design import INTERCEPT, Design, NothingToFit
from study.stats.estimability import estimable, has_full_rank, independent


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
        Row of `table` that each observation belongs to, shape (N,); by default row i for
        observation i.
    treatment
        Number of each attempt's treatment, shape (G,); by default all differ.
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
    columns = _build_columns(terms, rows)
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
    covariates = _covariates_of(terms, rows.table, absent)
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


def _build_columns(terms: Sequence[str], rows: _Observations) -> dict[str, np.ndarray]:
    """Return the intercept and the columns of all terms by name."""
    columns = {INTERCEPT: np.ones(len(rows.table))}
    for term in terms:
        if term in rows.measured:
            columns[term] = rows.measured[term]
        else:
            columns |= _code_term(term, rows.table)
    return columns


def _covariates_of(
    terms: Sequence[str], table: pd.DataFrame, absent: Mapping[str, str]
) -> list[Covariate]:
    """Return the covariates among the terms that vary enough over the whole table."""
    covariates = []
    for name, covariate in COVARIATES.items():
        if name in terms and name not in absent and covariate.factor in table:
            covariates.append(covariate)
    return covariates


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
    if has_full_rank(design.gram()):
        return design
    matrix = design.centered_matrix()
    is_independent = independent(matrix)
    is_estimable = estimable(matrix, design.uncenter)
    dropped = {}
    changed = {}
    for k, name in enumerate(design.names):
        if not is_independent[k]:
            dropped[name] = _cause_of_alias(name, table, covariates)
        elif not is_estimable[k]:
            changed[name] = _cause_of_alias(name, table, covariates)
    return replace(_drop(design, dropped), changed=changed)


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
            cause = why_too_few_levels(
                covariate, attempts[covariate.factor], f"{group} entered with"
            )
            if cause:
                return cause
    return "its column is a combination of others"
