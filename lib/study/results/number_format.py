"""Format the values of tables, in the same way for notebooks and for the report."""

import math
from collections.abc import Iterable
from numbers import Integral, Real

SMALLEST_P = 1e-4
"""Smaller p-values are written as below this one."""


def p_text(value: float) -> str:
    """Write a p-value with two significant digits.

    Parameters
    ----------
    value
        The p-value, not nan.

    Returns
    -------
    str

    Examples
    --------
    >>> p_text(0.01234), p_text(3e-12)
    ('0.012', '< 0.0001')
    """
    if 0 <= value < SMALLEST_P:
        return f"< {SMALLEST_P:.4f}"
    return f"{value:.2g}"


def number_text(value: object, precision: int) -> object:
    """Write a number with thousands separators.

    Parameters
    ----------
    value
        A number; anything else is returned as it is.
    precision
        Decimals of a number that is not an integer.

    Returns
    -------
    object
        A text without a minus sign if all its digits are zero.

    Examples
    --------
    >>> number_text(-0.0004, 3), number_text(-1234.5, 1), number_text(2520, 3)
    ('0.000', '-1,234.5', '2,520')
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    if isinstance(value, Integral):
        return f"{value:,}"
    if math.isfinite(value) and round(float(value), precision) == 0:
        value = 0.0
    return f"{value:,.{precision}f}"


def truth_text(value: bool) -> str:
    """Write a truth value.

    Parameters
    ----------
    value
        Whether it is true.

    Returns
    -------
    str

    Examples
    --------
    >>> truth_text(True), truth_text(False)
    ('yes', 'no')
    """
    if value:
        return "yes"
    return "no"


def range_text(smallest: int, largest: int) -> str:
    """Write a range of whole numbers with thousands separators.

    Parameters
    ----------
    smallest, largest
        Its ends.

    Returns
    -------
    str
        A single number if both are equal.

    Examples
    --------
    >>> range_text(196, 196), range_text(250, 2000)
    ('196', '250 to 2,000')
    """
    if smallest == largest:
        return f"{largest:,}"
    return f"{smallest:,} to {largest:,}"


def rates_text(rates: Iterable[float]) -> str:
    """Write the different learning rates of some runs.

    Parameters
    ----------
    rates
        Learning rates, in any order; those that occur several times are written once.

    Returns
    -------
    str
        From the smallest to the largest, with commas.

    Examples
    --------
    >>> rates_text([0.01, 0.0003, 0.01])
    '0.0003, 0.01'
    """
    return ", ".join(f"{rate:g}" for rate in sorted(set(rates)))


def holds_p_values(name: object) -> bool:
    """Return whether the values of a column are p-values.

    Parameters
    ----------
    name
        Name of the column; a tuple if it has several levels.

    Returns
    -------
    bool
        Whether one of its words is ``p``.

    Examples
    --------
    >>> holds_p_values("robust_p"), holds_p_values("its p"), holds_p_values("pairs")
    (True, True, False)
    """
    parts = (name,)
    if isinstance(name, tuple):
        parts = name
    words = []
    for part in parts:
        words += str(part).replace("_", " ").split()
    return "p" in words
