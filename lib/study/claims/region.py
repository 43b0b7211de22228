"""Regions: the values of a quantity for which a claim is true, with variable thresholds."""

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator


class Frozen(BaseModel):
    """Base class of the parts of a claim: immutable, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Threshold(Frozen):
    """How to halve and double a threshold that we chose, for a sensitivity analysis.

    Attributes
    ----------
    origin
        The threshold is scaled relative to this value, usually the value of no effect.
    scale
        ``linear``: the difference to the origin is scaled. ``ratio``: the logarithm of the ratio to
        the origin. ``odds``: the odds of a proportion; the origin is not used.
    """

    origin: float = 0.0
    scale: Literal["linear", "ratio", "odds"] = "linear"

    def scaled(self, end: float, factor: float) -> float:
        """Move a threshold to a multiple of its distance from the origin.

        Parameters
        ----------
        end
            The threshold.
        factor
            The multiple; on the scale ``odds``, that of the odds.

        Returns
        -------
        float
            The moved threshold.
        """
        if self.scale == "ratio":
            return self.origin * (end / self.origin) ** factor
        if self.scale == "odds":
            return factor * end / (1 - end + factor * end)
        return self.origin + factor * (end - self.origin)


class Region(Frozen):
    """An open interval of numbers, possibly unbounded on one side."""

    above: float = -math.inf
    below: float = math.inf

    @model_validator(mode="after")
    def _not_empty(self) -> "Region":
        if not self.above < self.below or (math.isinf(self.above) and math.isinf(self.below)):
            raise ValueError(
                f"a region from {self.above} to {self.below} contains nothing or everything; "
                "give `above`, `below`, or both with above < below"
            )
        return self

    @property
    def bounded(self) -> bool:
        """Whether it is bounded on both sides."""
        return math.isfinite(self.above) and math.isfinite(self.below)

    def contains(self, low: float, high: float) -> bool:
        """Return whether the interval from `low` to `high` lies inside.

        Parameters
        ----------
        low, high
            Ends of the interval.

        Returns
        -------
        bool
            False if both are ``nan``.
        """
        clears_above = self.above < low or self.above == -math.inf
        clears_below = high < self.below or self.below == math.inf
        return clears_above and clears_below

    def excludes(self, low: float, high: float) -> bool:
        """Return whether the interval from `low` to `high` lies outside.

        Parameters
        ----------
        low, high
            Ends of the interval.

        Returns
        -------
        bool
            False if both are ``nan``.
        """
        return high <= self.above or low >= self.below

    def scaled(self, factor: float, threshold: "Threshold") -> "Region":
        """Return the region with both thresholds scaled by `factor`.

        Parameters
        ----------
        factor
            2 to double the thresholds, 0.5 to halve them.
        threshold
            How to scale them.

        Returns
        -------
        Region
            An unbounded side stays unbounded.
        """
        above = self.above
        below = self.below
        if math.isfinite(above):
            above = threshold.scaled(above, factor)
        if math.isfinite(below):
            below = threshold.scaled(below, factor)
        return Region(above=above, below=below)

    def __str__(self) -> str:
        if self.bounded:
            return f"{self.above:g} .. {self.below:g}"
        if math.isfinite(self.above):
            return f"> {self.above:g}"
        return f"< {self.below:g}"
