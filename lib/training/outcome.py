"""What comes of a training."""

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass
class Fit:
    """What came of a training.

    Attributes
    ----------
    status
        `lib.results.schema.COMPLETED` or `DIVERGED`.
    steps
        Steps taken.
    rows
        What was recorded, with ``step``; of a diverged training what was recorded before.
    kept
        The row of the model that is kept, and its weights; none where nothing asks for it.
    """

    status: int
    steps: int
    rows: list[dict[str, float]]
    kept: tuple[dict[str, float], dict[str, Tensor]] | None = None

    def column(self, name: str, length: int) -> list[float]:
        """Return one measurement of all rows, filled up with ``nan`` to `length`."""
        values = [row[name] for row in self.rows]
        return values + [math.nan] * (length - len(values))
