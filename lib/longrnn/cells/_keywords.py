"""What a hyper-parameter may be: declared once, by its cell, and checked before anything is built."""

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A number in an interval such as ``(0, 2]``; None, too, where that is the default.

    `whole` asks for an integer; with `each` a sequence of numbers will do, one for each layer.
    """

    default: float | None
    interval: str
    whole: bool = False
    each: bool = False

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        many = ", or one for each layer," if self.each else ""
        return f"{kind}{many} in {self.interval}" + (" or None" if self.default is None else "")

    def admits(self, value: object) -> bool:
        if self.each and isinstance(value, list | tuple):
            return len(value) > 0 and all(map(self._admits, value))
        return self._admits(value)

    def _admits(self, value: object) -> bool:
        if value is None:
            return self.default is None
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        parts = re.fullmatch(r"([\[(])(.+), (.+)([\])])", self.interval).groups()
        (opens, closes), (least, most) = parts[::3], map(float, parts[1:3])
        above = value > least if opens == "(" else value >= least
        below = value < most if closes == ")" else value <= most
        return above and below  # as neither NaN nor infinity is


@dataclass(frozen=True)
class Choice:
    """One of a few values, the first by default."""

    options: tuple

    @property
    def default(self) -> object:
        return self.options[0]

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.options))}"

    def admits(self, value: object) -> bool:
        return any(type(value) is type(one) and value == one for one in self.options)


FLAG = Choice((False, True))
"""Off unless asked for."""

Keyword = Number | Choice


def complete(
    label: str, keywords: Mapping[str, Keyword], given: Mapping[str, object]
) -> dict[str, object]:
    """Return all keywords with their values, lists as tuples; raises `ValueError` in one sentence that begins with `label`."""
    if unknown := [key for key in given if key not in keywords]:
        raise ValueError(
            f"{label}: expected hyper-parameters among {', '.join(keywords) or 'none'}, "
            f"got {', '.join(map(reprlib.repr, unknown))}"
        )
    for key, value in given.items():
        if not keywords[key].admits(value):
            raise ValueError(
                f"{label}: expected {key} to be {keywords[key]}, got {reprlib.repr(value)}"
            )
    values = {key: given.get(key, keyword.default) for key, keyword in keywords.items()}
    return {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
