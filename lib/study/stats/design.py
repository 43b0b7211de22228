"""The columns of a linear model over the rows of many attempts.

The factors of an attempt do not change from epoch to epoch. So a matrix of a million rows is stored
as a small one over attempts, plus a column or two over rows. `study.stats.terms.build_design` makes
a `Design` from the terms of a model.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from study.stats.reml import Moments, moments

INTERCEPT = "intercept"
"""Name of the column of ones."""
FAR = 10.0
"""A column is centered if its mean is more than this many standard deviations from zero."""


class NothingToFit(ValueError):
    """No model can be fitted to the results; the message names the cause."""


@dataclass(frozen=True)
class Design:
    """The columns of a model over N rows of G attempts.

    Columns far from zero are centered before a model is solved, because products of a column such
    as x + 3.3e7 would lose the digits of x. Centering does not change the span of the columns,
    because the intercept is one of them. Other columns are not centered, so a column that is zero
    for a group of attempts stays zero there.
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
    def centers(self) -> np.ndarray:
        """Number subtracted from each column, shape (p,): its mean if it is centered, else 0."""
        rows_of_attempt = np.bincount(self.attempt, minlength=len(self.constant))
        centers = np.zeros(len(self.names))
        for k, (name, column) in enumerate(self.columns.items()):
            weights = rows_of_attempt
            if name in self.measured:  # has a value for every row
                weights = None
            mean = np.average(column, weights=weights)
            deviation = np.sqrt(np.average((column - mean) ** 2, weights=weights))
            if np.ptp(column) > 0 and abs(mean) > FAR * deviation:
                centers[k] = mean
        return centers

    def _centers_of(self, names: list[str]) -> np.ndarray:
        return self.centers[[self.names.index(name) for name in names]]

    @cached_property
    def centered_constant(self) -> np.ndarray:
        """The columns over attempts minus `centers`, shape (G, ...)."""
        return self.constant - self._centers_of(self._constant_names)

    @cached_property
    def centered_varying(self) -> np.ndarray:
        """The columns over rows minus `centers`, shape (N, ...)."""
        return self.varying - self._centers_of(self._varying_names)

    @cached_property
    def uncenter(self) -> np.ndarray:
        """Matrix from coefficients of the centered columns to those of the original, (p, p)."""
        matrix = np.eye(len(self.names))
        matrix[self.names.index(INTERCEPT)] -= self.centers
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

    def centered_matrix(self) -> np.ndarray:
        """Return `matrix` with `centers` subtracted.

        Returns
        -------
        numpy.ndarray
            Shape (N, p).
        """
        columns = np.hstack([self.centered_constant[self.attempt], self.centered_varying])
        return columns[:, self.order]

    def predict(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the centered columns times their coefficients, without building the matrix.

        Parameters
        ----------
        coefficients
            Coefficients of the centered columns, ordered as `names`, shape (p,).

        Returns
        -------
        numpy.ndarray
            Shape (N,).
        """
        stored = np.empty(len(self.order))
        stored[self.order] = coefficients
        constant_count = self.constant.shape[1]
        part_of_attempt = self.centered_constant @ stored[:constant_count]
        return part_of_attempt[self.attempt] + self.centered_varying @ stored[constant_count:]

    @cached_property
    def moments(self) -> Moments:
        """Sums over attempts of ``[constant, varying, response]``, less their centers; the response
        is always centered.
        """
        columns = np.column_stack([self.centered_varying, self.response - self.response.mean()])
        return moments(self.centered_constant, columns, self.attempt)

    def gram(self) -> np.ndarray:
        """Return the products of all centered columns over rows.

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
        return float(np.linalg.cond(triangle @ np.linalg.inv(self.uncenter)))
