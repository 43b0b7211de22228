"""The region in which a claim is true, and how its thresholds are varied."""

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Threshold(Frozen):
    """How a threshold of ours is made larger or smaller, to see what depends on it.

    Attributes
    ----------
    origin
        The number that the threshold is measured from: mostly that of no effect.
    scale
        Whether distances from it are differences, ratios (of logarithms), or odds, for
        proportions.
    """

    origin: float = 0.0
    scale: Literal["linear", "ratio", "odds"] = "linear"

    def scaled(self, end: float, factor: float) -> float:
        """Return a threshold `factor` times as far from the origin."""
        if self.scale == "ratio":
            return self.origin * (end / self.origin) ** factor
        if self.scale == "odds":
            return factor * end / (1 - end + factor * end)
        return self.origin + factor * (end - self.origin)


class Region(Frozen):
    """An open interval of numbers: those above one end and below the other."""

    above: float = -math.inf
    below: float = math.inf

    @model_validator(mode="after")
    def _not_empty(self) -> "Region":
        if not self.above < self.below or (math.isinf(self.above) and math.isinf(self.below)):
            raise ValueError(
                f"a region from {self.above} to {self.below} holds nothing or everything; "
                "give `above`, `below`, or both with above < below"
            )
        return self

    @property
    def bounded(self) -> bool:
        """Whether it has two ends."""
        return math.isfinite(self.above) and math.isfinite(self.below)

    def contains(self, low: float, high: float) -> bool:
        """Return whether all numbers from `low` to `high` lie inside."""
        clears_above = self.above < low or self.above == -math.inf
        clears_below = high < self.below or self.below == math.inf
        return clears_above and clears_below

    def excludes(self, low: float, high: float) -> bool:
        """Return whether all numbers from `low` to `high` lie outside."""
        return high <= self.above or low >= self.below

    def scaled(self, factor: float, threshold: "Threshold") -> "Region":
        """Return the region with each threshold `factor` times as large.

        Parameters
        ----------
        factor
            2 for thresholds twice as large, 0.5 for half.
        threshold
            Says what twice as large means.

        Returns
        -------
        Region
            With the same open ends.
        """

        def moved(end: float) -> float:
            return end if math.isinf(end) else threshold.scaled(end, factor)

        return Region(above=moved(self.above), below=moved(self.below))

    def __str__(self) -> str:
        if self.bounded:
            return f"{self.above:g} .. {self.below:g}"
        if math.isfinite(self.above):
            return f"> {self.above:g}"
        return f"< {self.below:g}"
