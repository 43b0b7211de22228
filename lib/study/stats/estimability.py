r"""Which columns of a model matrix are independent, and which coefficients are estimable.

A coefficient :math:`\beta_j` is *estimable* if the unit vector :math:`e_j` lies in the row space of
the model matrix: then every solution of the normal equations has the same :math:`\hat\beta_j` and
the same standard error.

S. R. Searle, *Linear Models*, Wiley, 1971, Section 5.4.
"""

import numpy as np

from study.stats.reml import INDEPENDENT

_ESTIMABLE = 1e-6
"""Largest part of a combination's squared length outside of the row space if it is estimable."""


def has_full_rank(gram: np.ndarray) -> bool:
    """Return whether the columns are independent, judged by their products.

    This is the usual case, and much cheaper than a decomposition of a million rows.

    Parameters
    ----------
    gram
        Products of all columns over rows, shape (columns, columns).

    Returns
    -------
    bool
        Whether no column is a combination of the others.
    """
    length = np.sqrt(np.diag(gram))
    if not (length > 0).all():
        return False
    return bool(np.linalg.eigvalsh(gram / np.outer(length, length))[0] > INDEPENDENT)


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
