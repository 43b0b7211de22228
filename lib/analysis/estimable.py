r"""Which coefficients of a linear model the data can tell.

A coefficient :math:`\beta_j` is *estimable* if the unit vector :math:`e_j` lies in the row space of the model matrix
X: then every solution of the normal equations has the same :math:`\hat\beta_j` and the same standard error. A library
that meets a deficient X picks one of its solutions, and the other coefficients silently change their meaning.

References
----------
S. R. Searle, *Linear Models*, Wiley, 1971, Section 5.4.
"""

import numpy as np

_TOLERANCE = 1e-9
"""What is left of a column of length one counts as rounding below this."""


def independent(matrix: np.ndarray) -> np.ndarray:
    """Return which columns of `matrix` are no combination of the columns before them.

    Parameters
    ----------
    matrix
        Shape (rows, columns).

    Returns
    -------
    numpy.ndarray
        Booleans, shape (columns,). The columns marked true span the same space as all of them.
    """
    basis = np.empty((matrix.shape[0], 0))
    kept = np.zeros(matrix.shape[1], bool)
    for place, column in enumerate(_unit_columns(matrix).T):
        rest = column
        for _ in range(2):  # the second time takes away what rounding left
            rest = rest - basis @ (basis.T @ rest)
        size = np.linalg.norm(rest)
        if size > _TOLERANCE:
            kept[place] = True
            basis = np.column_stack([basis, rest / size])
    return kept


def estimable(matrix: np.ndarray) -> np.ndarray:
    """Return which coefficients of the model matrix are estimable.

    Parameters
    ----------
    matrix
        Shape (rows, columns), with at least one row and one column.

    Returns
    -------
    numpy.ndarray
        Booleans, shape (columns,); all true where `matrix` has full column rank.
    """
    # The triangle has the row space of the whole matrix and few rows.
    triangle = np.linalg.qr(_unit_columns(matrix), mode="r")
    _, values, rows = np.linalg.svd(triangle, full_matrices=False)
    rows = rows[values > _TOLERANCE * values[0]]
    # Squared length of the projection of each unit vector on the row space: 1 inside it, less outside.
    return (rows**2).sum(axis=0) > 1 - 1e-6


def _unit_columns(matrix: np.ndarray) -> np.ndarray:
    """Return `matrix` with columns of length one: a change of units does not change what can be told."""
    length = np.linalg.norm(matrix, axis=0)
    return matrix / np.where(length > 0, length, 1.0)
