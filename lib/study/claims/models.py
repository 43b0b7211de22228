"""Claims about the twelve models of the tenet (section 3.5).

The metric is rounded as float32 would have stored it, because the paper's numbers are.
Intervals come from resampling treatments (`study.stats.resample`).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from study.claims.estimates import Estimate
from study.claims.factorial import Evidence, judges_of
from study.claims.judging import Judges
from study.stats.observations import FLOAT32, TRAINING, WITHIN_TASKS
from study.stats.resample import interval


class Quantity(NamedTuple):
    """A number that the models give, with its bootstrap draws.

    Attributes
    ----------
    draws
        Function of the evidence. It returns the estimate followed by the draws, shape
        (1 + draws,).
    of_variance
        Whether the number is a share of variance, such as R².
    """

    draws: Callable[[Evidence], np.ndarray]
    of_variance: bool = False


def _r2(model: int) -> Quantity:
    """Return the share of variance that a model explains."""
    return Quantity(lambda evidence: evidence.r2(model), of_variance=True)


def _r2_gain(model: int, over: int) -> Quantity:
    """Return how much more variance a model explains than the model `over`."""
    return Quantity(lambda evidence: evidence.r2(model) - evidence.r2(over), of_variance=True)


def _r2_difference(model: int, other: int) -> Quantity:
    """Return the difference of two R², which may be negative."""
    return Quantity(lambda evidence: evidence.r2(model) - evidence.r2(other))


def _effect_over_range(evidence: Evidence) -> np.ndarray:
    """Return the size of the effect of the metric's whole range on accuracy, by Model 2."""
    metric = evidence.observations(TRAINING, FLOAT32).column("metric")
    return np.abs(evidence.slope(2)) * np.ptp(metric)


def _smaller_terminal_slope(evidence: Evidence) -> np.ndarray:
    """Return the smaller of Model 5's slopes, over all attempts and within tasks.

    Between tasks, accuracy may rise with the metric for reasons that have nothing to do with the
    networks. So the slope within tasks must be positive, too.
    """
    return np.minimum(evidence.slope(5), evidence.slope(5, WITHIN_TASKS))


def _larger_reverse_slope(evidence: Evidence) -> np.ndarray:
    """Return the larger absolute slope of Models 7 and 8."""
    return np.abs([evidence.slope(7), evidence.slope(8)]).max(0)


def _slope_ratio(evidence: Evidence) -> np.ndarray:
    """Return the slope of Model 11 over that of Model 10."""
    return evidence.slope(11) / evidence.slope(10)


QUANTITIES: dict[int, dict[str, Quantity]] = {
    1: {
        "diss-3.5-training-alone": _r2(1),
        "diss-3.5-training-omission": _r2_gain(2, over=3),
        "diss-3.5-training-range": Quantity(_effect_over_range),
    },
    2: {
        "diss-3.5-terminal-stronger": _r2_difference(4, 1),
        "diss-3.5-terminal-mild": _r2(4),
        "diss-3.5-terminal-factors": _r2_gain(5, over=6),
        "diss-3.5-terminal-sign": Quantity(_smaller_terminal_slope),
    },
    3: {
        "diss-3.5-reverse-training-alone": _r2(7),
        "diss-3.5-reverse-training-beside": _r2_gain(8, over=9),
        "diss-3.5-reverse-training-size": Quantity(_larger_reverse_slope),
    },
    4: {
        "diss-3.5-reverse-terminal-stronger": _r2_difference(10, 7),
        "diss-3.5-reverse-terminal-beside": _r2_gain(11, over=12),
        "diss-3.5-reverse-terminal-drop": Quantity(_slope_ratio),
    },
}
"""The quantity that decides each claim, by family of models and id of the claim."""


def estimate_quantity(evidence: Evidence, quantity: Quantity) -> Estimate:
    """Estimate a quantity of the models, with its bootstrap interval.

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
    estimators = {}
    for claim, quantity in quantities.items():
        estimators[claim] = partial(estimate_quantity, quantity=quantity)
    return judges_of(estimators)


JUDGES = {family: _judges_of(quantities) for family, quantities in QUANTITIES.items()}
"""The judges of each family of models."""
