"""Scale the estimate, the interval and the region of a claim for a drawing."""

import math
from dataclasses import dataclass

import pandas as pd

from study.claims.region import Region


@dataclass(frozen=True)
class Interval:
    """Where a claim's estimate, interval and region lie on a line from 0 to 100.

    The threshold of the region that is nearest to the estimate is at 50, and the region is to its
    right; ``far`` is the region's other end. Each claim has its own scale.
    """

    estimate: float
    low: float
    high: float
    far: float
    published: float | None


def place_interval(row: pd.Series, region: Region) -> Interval:
    """Return where to draw a claim's interval.

    An end at infinity is drawn at the edge.

    Parameters
    ----------
    row : pandas.Series
        A row of `study.report.verdicts.judge_claims` with an estimate.
    region : Region
        Where the quantity lies if the claim is true.

    Returns
    -------
    Interval
        Positions on a line from 0 to 100.
    """
    estimate = row["estimate"]
    ends = [end for end in (region.above, region.below) if math.isfinite(end)]
    threshold = min(ends, key=lambda end: abs(end - estimate))
    if threshold == region.below:
        direction = -1.0
        far = region.above
    else:
        direction = 1.0
        far = region.below
    distances = []
    for value in (estimate, row["low"], row["high"], row["published"]):
        if math.isfinite(value):
            distances.append(abs(value - threshold))
    span = max(distances) or 1.0

    def position(value: float) -> float:
        distance = direction * (value - threshold) / span
        return 50 + 45 * max(-1.1, min(1.1, distance))

    low, high = sorted((position(row["low"]), position(row["high"])))
    published = None
    if not math.isnan(row["published"]):
        published = position(row["published"])
    return Interval(
        estimate=position(estimate),
        low=low,
        high=high,
        far=min(position(far), 100.0),
        published=published,
    )
