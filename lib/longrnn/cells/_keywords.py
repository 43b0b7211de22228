"""Declarations of hyperparameters, which are checked before a cell is built."""

import re
import reprlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

_INTERVAL = re.compile(r"([\[(])(.+), (.+)([\])])")


@dataclass(frozen=True)
class Number:
    """A number in an interval such as ``(0, 2]``.

    Parameters
    ----------
    default
        The default value. If it is None, None is allowed too.
    interval
        A bracket includes its end, a parenthesis excludes it.
    whole
        Whether only integers are allowed.
    each
        Whether a sequence of numbers, one per layer, is allowed too.

    Raises
    ------
    ValueError
        `interval` is not written like one.
    """

    default: float | None
    interval: str
    whole: bool = False
    each: bool = False

    def __post_init__(self) -> None:
        if not _INTERVAL.fullmatch(self.interval):
            raise ValueError(f"expected an interval such as '(0, 2]', got {self.interval!r}")

    def __str__(self) -> str:
        text = "a number"
        if self.whole:
            text = "a whole number"
        if self.each:
            text += ", or one for each layer,"
        text += f" in {self.interval}"
        if self.default is None:
            text += " or None"
        return text

    def admits(self, value: object) -> bool:
        """Return whether a value is allowed.

        Parameters
        ----------
        value
            Any object.

        Returns
        -------
        bool
            True for a number in the interval, for None if that is the default, and for a sequence
            of allowed numbers if `each` is set.
        """
        if self.each and isinstance(value, list | tuple):
            return len(value) > 0 and all(self._admits_number(item) for item in value)
        return self._admits_number(value)

    def _admits_number(self, value: object) -> bool:
        """Return whether a single value is allowed."""
        if value is None:
            return self.default is None
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        if not abs(value) <= sys.float_info.max:  # infinite, NaN, or an integer beyond all floats
            return False
        if self.whole and not isinstance(value, Integral):
            return False
        opening, least, most, closing = _INTERVAL.fullmatch(self.interval).groups()
        if value == float(least):
            return opening == "["
        if value == float(most):
            return closing == "]"
        return float(least) < value < float(most)


@dataclass(frozen=True)
class Choice:
    """One of a few values; the first is the default."""

    options: tuple

    @property
    def default(self) -> object:
        return self.options[0]

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.options))}"

    def admits(self, value: object) -> bool:
        """Return whether a value is allowed.

        Parameters
        ----------
        value
            Any object.

        Returns
        -------
        bool
            True if it equals an option and has its type: True is not 1.
        """
        return any(type(value) is type(option) and value == option for option in self.options)


FLAG = Choice((False, True))
"""A switch that is off by default."""

Keyword = Number | Choice


def as_python(value: object) -> object:
    """Convert NumPy scalars to Python numbers, and lists to tuples.

    Parameters
    ----------
    value
        Any object.

    Returns
    -------
    object
        The converted value; an object of another type is returned unchanged.

    Examples
    --------
    >>> as_python(np.float64(0.5)), as_python([np.int64(1), 2])
    (0.5, (1, 2))
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return tuple(as_python(item) for item in value)
    return value


def complete(
    label: str, keywords: Mapping[str, Keyword], given: Mapping[str, object]
) -> dict[str, object]:
    """Check the given keywords and fill in the defaults of the others.

    Parameters
    ----------
    label
        What the keywords belong to; error messages begin with it.
    keywords
        The declared keywords by name.
    given
        Values by name.

    Returns
    -------
    dict
        A value for every declared keyword; NumPy scalars as Python numbers, lists as tuples.

    Raises
    ------
    ValueError
        A name is unknown, or a value is not allowed.
    """
    unknown = [reprlib.repr(key) for key in given if key not in keywords]
    if unknown:
        raise ValueError(
            f"{label}: expected hyperparameters among {', '.join(keywords) or 'none'}, "
            f"got {', '.join(unknown)}"
        )
    values = {key: keyword.default for key, keyword in keywords.items()}
    for key, value in given.items():
        value = as_python(value)
        if not keywords[key].admits(value):
            raise ValueError(
                f"{label}: expected {key} to be {keywords[key]}, got {reprlib.repr(value)}"
            )
        values[key] = value
    return values
