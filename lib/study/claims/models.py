"""Claims about the twelve models of the tenet (section 3.5).

The metric is rounded as float32 would have stored it, because the paper's numbers are.
Intervals come from resampling treatments (`study.stats.resample`).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from study.claims.estimates import Estimate
from study.claims.factorial import Evidence, judge_of
from study.claims.judging import Judges
from study.stats.resample import interval
from study.stats.tenet import SINGLE, TRAINING, WITHIN


class Quantity(NamedTuple):
    """A number that the models give, and draws of it.

    Attributes
    ----------
    draws
        Function of the evidence that returns the number, then draws of it.
    of_variance
        Whether it is a share of variance.
    """

    draws: Callable[[Evidence], np.ndarray]
    of_variance: bool = False


def _explained(number: int, less: int | None = None) -> Quantity:
    """Return what a model explains of the variance, or how much more than another one does."""

    def draws(evidence: Evidence) -> np.ndarray:
        if less is None:
            return evidence.r2(number)
        return evidence.r2(number) - evidence.r2(less)

    return Quantity(draws, of_variance=True)


def _training_range(evidence: Evidence) -> np.ndarray:
    metric = evidence.observations(TRAINING, SINGLE).column("metric")
    return np.abs(evidence.slope(2)) * np.ptp(metric)


def _terminal_sign(evidence: Evidence) -> np.ndarray:
    # Tasks of larger metrics may be the more accurate ones, which says nothing about networks.
    return np.minimum(evidence.slope(5), evidence.slope(5, WITHIN))


def _reverse_training_size(evidence: Evidence) -> np.ndarray:
    return np.abs([evidence.slope(7), evidence.slope(8)]).max(0)


QUANTITIES: dict[int, dict[str, Quantity]] = {
    1: {
        "diss-3.5-training-alone": _explained(1),
        "diss-3.5-training-omission": _explained(2, less=3),
        "diss-3.5-training-range": Quantity(_training_range),
    },
    2: {
        "diss-3.5-terminal-stronger": Quantity(lambda e: e.r2(4) - e.r2(1)),
        "diss-3.5-terminal-mild": _explained(4),
        "diss-3.5-terminal-factors": _explained(5, less=6),
        "diss-3.5-terminal-sign": Quantity(_terminal_sign),
    },
    3: {
        "diss-3.5-reverse-training-alone": _explained(7),
        "diss-3.5-reverse-training-beside": _explained(8, less=9),
        "diss-3.5-reverse-training-size": Quantity(_reverse_training_size),
    },
    4: {
        "diss-3.5-reverse-terminal-stronger": Quantity(lambda e: e.r2(10) - e.r2(7)),
        "diss-3.5-reverse-terminal-beside": _explained(11, less=12),
        "diss-3.5-reverse-terminal-drop": Quantity(lambda e: e.slope(11) / e.slope(10)),
    },
}
"""What decides the claims about each family of models."""


def estimate_quantity(evidence: Evidence, quantity: Quantity) -> Estimate:
    """Estimate a quantity of the models, with the interval of its draws.

    Parameters
    ----------
    evidence
        The models of the tenet.
    quantity
        One of `QUANTITIES`.

    Returns
    -------
    Estimate
    """
    return Estimate(*interval(quantity.draws(evidence)), of_variance=quantity.of_variance)


def _judges_of(quantities: dict[str, Quantity]) -> Judges:
    judges = Judges()
    for claim, quantity in quantities.items():
        judges[claim] = judge_of(partial(estimate_quantity, quantity=quantity))
    return judges


JUDGES = {family: _judges_of(quantities) for family, quantities in QUANTITIES.items()}
"""The judges of each family of models."""
