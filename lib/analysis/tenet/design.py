"""Design matrices of the twelve models, reduced to what the rows at hand can estimate.

The factors of an attempt do not change from epoch to epoch, so the matrix of a million rows is a small one over
attempts, made by statsmodels from the model's formula, and a column or two over rows.

A smaller experiment cannot estimate everything: with one width there is no effect of the width, with two learning rates
no curvature. Such terms are dropped and listed with their cause, and so is every single column that the ones before
it determine, as in R: which of two aliased columns stays is a convention, that one of them must go is not. The
coefficients that change their meaning by it are named.
"""

import re
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from statsmodels.regression.linear_model import OLS

from lib.analysis.estimable import estimable, independent
from lib.analysis.tenet.models import INTERCEPT, Model
from lib.analysis.tenet.rows import NothingToFit, Rows

_ROW_LEVEL = ("accuracy", "metric", "epoch")
_INDEPENDENT = 1e-10
"""Smallest eigenvalue of the products of unit columns that passes for independent without a closer look."""
_UNITS = {"log_rate": "learning_rate", "log_rate_squared": "learning_rate"}
_NEEDED = {"log_rate_squared": 3}
"""Levels that a term needs; all others need two."""


@dataclass(frozen=True)
class Design:
    """The columns of a model over N rows of G attempts.

    Attributes
    ----------
    names
        Names of the p coefficients in the order of the published tables, such as
        ``architecture[lstm]:log_rate``.
    constant
        Columns that do not vary within an attempt, shape (G, ...); named by `constant_names`.
    varying
        Columns of the rows themselves, shape (N, ...); named by `varying_names`.
    attempt
        Attempt of each row, shape (N,).
    response
        Shape (N,).
    dropped
        What could not be estimated: ``term`` and ``cause``.
    changed
        Columns that stay and yet mean another thing than in a full design, because a column was dropped that they
        overlap with: their coefficients are not estimable.
    """

    names: tuple[str, ...]
    constant: np.ndarray
    constant_names: tuple[str, ...]
    varying: np.ndarray
    varying_names: tuple[str, ...]
    attempt: np.ndarray
    response: np.ndarray
    dropped: pd.DataFrame
    changed: tuple[str, ...] = ()

    @cached_property
    def order(self) -> np.ndarray:
        """Place of each of `names` in ``[constant, varying]``."""
        made = [*self.constant_names, *self.varying_names]
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

    def gram(self) -> np.ndarray:
        """Return the products of all columns over rows, shape (p, p), without making the matrix."""
        n = np.bincount(self.attempt, minlength=len(self.constant))
        top = self.constant.T @ (self.constant * n[:, None])
        sums = (
            np.stack(
                [np.bincount(self.attempt, weights=c, minlength=len(n)) for c in self.varying.T],
                axis=1,
            )
            if self.varying.shape[1]
            else np.empty((len(n), 0))
        )
        side = self.constant.T @ sums
        whole = np.block([[top, side], [side.T, self.varying.T @ self.varying]])
        return whole[np.ix_(self.order, self.order)]


def design(model: Model, rows: Rows) -> Design:
    """Return the columns of `model` over `rows`, without what they cannot estimate.

    Raises
    ------
    NothingToFit
        The response is the same in every row, each attempt has a single row where a random intercept is asked
        for, or there are no more rows than coefficients.
    """
    response = rows.column(model.response)
    _refuse(model, rows, response)
    terms, dropped = _estimable(model, rows)
    constant, names = _constant(terms, rows)
    row_terms = [term for term in terms if term in _ROW_LEVEL]
    varying = np.stack([rows.column(term) for term in row_terms], axis=1) if row_terms else None
    varying = np.empty((len(rows), 0)) if varying is None else varying
    made = Design(
        names=tuple(_published_order(model, [*names, *row_terms])),
        constant=constant,
        constant_names=tuple(names),
        varying=varying,
        varying_names=tuple(row_terms),
        attempt=rows.attempt,
        response=response,
        dropped=pd.DataFrame(dropped, columns=["term", "cause"]),
    )
    made = _without_aliases(made)
    if len(rows) <= len(made.names):
        raise NothingToFit(
            f"{model.name} has {len(made.names)} coefficients and {len(rows)} rows; train more attempts"
        )
    return made


def _refuse(model: Model, rows: Rows, response: np.ndarray) -> None:
    if np.ptp(response) == 0:
        raise NothingToFit(
            f"{model.name}: the {model.response} is {response[0]:g} in all {len(rows):,} rows; a constant has no "
            "variance to explain"
        )
    if model.random and len(rows) == len(rows.attempts):
        raise NothingToFit(
            f"{model.name}: each of the {len(rows):,} attempts has a single {rows.kind} row, so an intercept per "
            "attempt cannot be told from the residual; train for two epochs or more"
        )


def _estimable(model: Model, rows: Rows) -> tuple[list[str], list[tuple[str, str]]]:
    """Split the terms of `model` into those that the levels at hand allow and those that they do not."""
    causes = {}
    for name in dict.fromkeys(part for term in model.terms for part in term.split(":")):
        levels = _levels(rows, _UNITS.get(name, name))
        if len(levels) < _NEEDED.get(name, 2):
            shown = ", ".join(
                f"{level}" if isinstance(level, str) else f"{level:g}" for level in levels
            )
            what = _UNITS.get(name, name).replace("_", " ")
            number = "one level" if len(levels) == 1 else f"{len(levels)} levels"
            causes[name] = f"{what} has {number} ({shown})"
    kept, dropped = [], []
    for term in model.terms:
        why = [causes[part] for part in term.split(":") if part in causes]
        if why:
            dropped.append((term, why[0]))
        else:
            kept.append(term)
    return kept, dropped


def _levels(rows: Rows, name: str) -> list:
    """Return the distinct values of a factor; of a measurement its extremes, which is all that is asked of it."""
    if name in _ROW_LEVEL:
        values = rows.column(name)
        return sorted({float(values.min()), float(values.max())})
    return sorted(rows.attempts[name].unique())


def _constant(terms: list[str], rows: Rows) -> tuple[np.ndarray, list[str]]:
    """Return the columns that statsmodels makes of the terms over attempts, and their names."""
    wanted = [term for term in terms if term not in _ROW_LEVEL]
    if not wanted:
        return np.ones((len(rows.attempts), 1)), [INTERCEPT]
    used = list(dict.fromkeys(part for term in wanted for part in term.split(":")))
    # One line per treatment: replicates repeat it.
    treatments = rows.attempts[used].drop_duplicates().reset_index(drop=True)
    for name in used:
        if isinstance(treatments[name].dtype, pd.CategoricalDtype):
            treatments[name] = treatments[name].cat.remove_unused_categories()
    line = rows.attempts[used].merge(treatments.assign(line=range(len(treatments))), on=used)[
        "line"
    ]
    made = OLS.from_formula(f"zero ~ {' + '.join(wanted)}", treatments.assign(zero=0.0))
    names = [
        INTERCEPT if name == "Intercept" else re.sub(r"\[T\.", "[", name)
        for name in made.exog_names
    ]
    return np.asarray(made.exog)[line.to_numpy()], names


def _published_order(model: Model, names: list[str]) -> list[str]:
    """Return `names` in the order of the terms of `model`, the intercept first."""
    terms = [INTERCEPT, *model.terms]

    def term(name: str) -> str:
        return re.sub(r"\[[^]]*\]", "", name)

    def place(name: str) -> int:
        found = term(name)
        # A published table has the noise inside and the architecture outside of their interaction.
        return terms.index(found if found in terms else ":".join(found.split(":")[::-1]))

    return sorted(names, key=place)


def _without_aliases(made: Design) -> Design:
    """Drop the columns that those before them determine, each with its cause."""
    gram = made.gram()
    length = np.sqrt(np.diag(gram))
    unit = gram / np.outer(length, length) if (length > 0).all() else np.zeros((1, 1))
    # Products tell cheaply that nothing is wrong, which is the usual case and that of a million rows.
    if np.linalg.eigvalsh(unit)[0] > _INDEPENDENT:
        return made
    matrix = made.matrix()
    kept, told = independent(matrix), estimable(matrix)
    lost = [
        (
            name,
            "no row has this combination"
            if size == 0
            else "the columns before it determine it: cells of the design are empty",
        )
        for name, size in zip(made.names, length, strict=True)
        if name not in np.array(made.names)[kept]
    ]
    names = [name for name, keep in zip(made.names, kept, strict=True) if keep]

    def chosen(all_names: tuple[str, ...]) -> list[int]:
        return [at for at, name in enumerate(all_names) if name in names]

    return replace(
        made,
        names=tuple(names),
        constant=made.constant[:, chosen(made.constant_names)],
        constant_names=tuple(name for name in made.constant_names if name in names),
        varying=made.varying[:, chosen(made.varying_names)],
        varying_names=tuple(name for name in made.varying_names if name in names),
        dropped=pd.concat(
            [made.dropped, pd.DataFrame(lost, columns=["term", "cause"])], ignore_index=True
        ),
        changed=tuple(
            name
            for name, keep, known in zip(made.names, kept, told, strict=True)
            if keep and not known
        ),
    )
