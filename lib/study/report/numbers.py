"""Format the values of a table's column for readers: equal decimals, names as in the papers."""

import math
import re
from collections.abc import Callable

import pandas as pd

from study.results.names import NAMED_COLUMNS, label
from study.results.number_format import holds_p_values, number_text, p_text, truth_text

DASH = "–"
"""Stands for a missing value."""
_DIGITS = 3
_TINY = 1e-6
"""Smaller numbers are written as powers of ten."""
_NEARLY_ZERO = "≈ 0"
_SOURCE = re.compile(r"(`[^`]*`|\$[^$]*\$)")
"""Code and formulas in a text."""
_HYPHENATED_NUMBER = re.compile(r"(?<![\w.])-(?=\.?\d)")
"""The hyphen of a negative number; that of a range follows a digit."""


def formatter(column: pd.Series, most_decimals: int | None = None) -> Callable[[object], str]:
    """Return a function that writes the values of a column as text.

    A column has one notation:

    - powers of ten if more than a quarter of its numbers are below 1e-6 (fewer such numbers are
      written as ``≈ 0``);
    - whole numbers with thousands separators;
    - the same number of decimals in all rows if the numbers span few orders of magnitude: up to
      three and no more than they have, with four significant digits for the largest number, but
      always enough for three digits of the largest and two of the smallest; zero as ``0``;
    - three significant digits for each number, and no more than it has, if they span many orders
      of magnitude;
    - levels of a factor, such as the learning rates 0.1 and 0.00001, as they are;
    - p-values (columns with the word ``p`` in their name) with two significant digits, and as
      ``< 0.0001`` if they are smaller.

    Parameters
    ----------
    column : pandas.Series
        Numbers, truth values or texts.
    most_decimals : int, optional
        Rows with the same number of decimals get no more than these.

    Returns
    -------
    callable
        Function from a value of the column to text.
    """
    if pd.api.types.is_bool_dtype(column):
        return truth_text
    if not pd.api.types.is_numeric_dtype(column):
        if column.name in NAMED_COLUMNS:
            return _write_name
        return _write_text
    if holds_p_values(column.name):
        return _write_p
    return _number_formatter(column, most_decimals)


def _number_formatter(
    column: pd.Series, most_decimals: int | None = None
) -> Callable[[float], str]:
    """Return a function that writes the numbers of a column in one notation (see `formatter`)."""
    finite = column[column.notna() & ~column.isin([math.inf, -math.inf])].abs()
    smallest = finite[finite > 0].min()
    largest = finite.max()
    if smallest < 10**-_DIGITS and all(float(f"{value:.1g}") == value for value in finite):
        return _write_level
    tiny = (finite > 0) & (finite < _TINY)
    if tiny.sum() * 4 > len(finite):
        return _write_power
    if tiny.any():
        write_others = _number_formatter(column[~column.abs().lt(_TINY)], most_decimals)

        def write_tiny(value: float) -> str:
            if 0 < abs(value) < _TINY:
                return _NEARLY_ZERO
            return write_others(value)

        return write_tiny
    if (finite % 1 == 0).all() or largest / smallest > 10**_DIGITS:
        return _write_digits
    decimals = _common_decimals(finite, smallest, largest)
    if most_decimals is not None:
        decimals = min(decimals, most_decimals)

    def write(value: float) -> str:
        if value == 0:
            return "0"  # 0.00000 would look measured
        return _special(value) or number_text(float(value), decimals)

    return write


def _common_decimals(finite: pd.Series, smallest: float, largest: float) -> int:
    """Return how many decimals all numbers of a column get."""
    needed = max(len(f"{value:.10f}".rstrip("0").partition(".")[2]) for value in finite)
    usual = min(_DIGITS, _DIGITS + 1 - math.ceil(math.log10(largest)))
    at_largest = _DIGITS - 1 - math.floor(math.log10(largest))
    at_smallest = 1 - math.floor(math.log10(smallest))
    return max(0, min(max(usual, at_largest, at_smallest), needed))


def _write_name(value: object) -> str:
    """Return how the papers write an architecture or a data set, on one line."""
    if pd.isna(value):
        return DASH
    return " ".join(label(value).split())


def _write_text(value: object) -> str:
    """Return a text on one line, and a truth value in words."""
    if pd.isna(value):
        return DASH
    if isinstance(value, bool):
        return truth_text(value)
    return " ".join(str(value).split())


def _write_p(value: float) -> str:
    """Return a p-value with two significant digits."""
    return _special(value) or p_text(value)


def _write_power(value: float) -> str:
    """Return a number as a power of ten."""
    if value == 0:
        return "0"
    return _special(value) or f"{value:.{_DIGITS - 1}e}"


def _write_level(value: float) -> str:
    """Return a level of a factor with all of its digits."""
    return _special(value) or f"{value:.15f}".rstrip("0").rstrip(".")


def _write_digits(value: float) -> str:
    """Return a number with three significant digits, and no more than it has."""
    text = significant(value)
    if "." in text and "e" not in text and float(text.replace(",", "")) == value:
        return text.rstrip("0").rstrip(".")
    return text


def significant(value: float) -> str:
    """Write a number with three significant digits.

    Large and whole numbers are written whole, tiny ones as a power of ten.

    Parameters
    ----------
    value : float
        A number; may be nan or infinite.

    Returns
    -------
    str

    Examples
    --------
    >>> significant(0.012345), significant(1234.5), significant(0.000000123)
    ('0.0123', '1,234', '1.23e-07')
    """
    special = _special(value)
    if special:
        return special
    if value % 1 == 0:
        return f"{value:,.0f}"
    if abs(value) < _TINY:
        return _write_power(value)
    magnitude = math.floor(math.log10(abs(value)))
    return f"{value:,.{max(0, _DIGITS - 1 - magnitude)}f}"


def counted(number: float, what: str) -> str:
    """Write a number of things in words.

    Parameters
    ----------
    number : float
        A whole number.
    what : str
        The thing, in the singular.

    Returns
    -------
    str

    Examples
    --------
    >>> counted(1, "run"), counted(3456, "run")
    ('1 run', '3,456 runs')
    """
    if number == 1:
        return f"1 {what}"
    return f"{int(number):,} {what}s"


def percent(value: float, decimals: int = 1) -> str:
    """Write a share as a percentage.

    Parameters
    ----------
    value : float
        A share from 0 to 1, or nan.
    decimals : int
        Number of decimals.

    Returns
    -------
    str

    Examples
    --------
    >>> percent(0.125), percent(0.8, decimals=0)
    ('12.5%', '80%')
    """
    if pd.isna(value):
        return DASH
    return f"{100 * value:.{decimals}f}%"


def with_minus(number: str) -> str:
    """Write the sign of a negative number as a minus instead of a hyphen.

    Parameters
    ----------
    number : str
        A number, such as ``-0.2`` or ``-1e-05``.

    Returns
    -------
    str

    Examples
    --------
    >>> with_minus("-1e-05")
    '−1e-05'
    """
    if number.startswith("-"):
        return f"−{number[1:]}"
    return number


def with_minuses(text: str) -> str:
    """Write the signs of the negative numbers in a text as minuses instead of hyphens.

    Parameters
    ----------
    text : str
        Text with `code` in backticks and formulas between dollar signs, which stay as they are.

    Returns
    -------
    str

    Examples
    --------
    >>> with_minuses("a lead of -0.88 in models 1-3, `x[-1]`")
    'a lead of −0.88 in models 1-3, `x[-1]`'
    """
    parts = _SOURCE.split(text)
    parts[::2] = [_HYPHENATED_NUMBER.sub("−", part) for part in parts[::2]]
    return "".join(parts)


def _special(value: float) -> str:
    """Return a missing or infinite value in words, or an empty text."""
    if pd.isna(value):
        return DASH
    if value == math.inf:
        return "∞"
    if value == -math.inf:
        return "−∞"
    return ""
