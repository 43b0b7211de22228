"""Traits of the estimators that claims name, on which the rules about verdicts depend.

`study.claims.estimating.ESTIMATORS` has the functions. A new estimator needs a row in both tables.
"""

from typing import NamedTuple


class Traits(NamedTuple):
    """What the quantity of an estimator measures.

    Attributes
    ----------
    no_effect
        Value of the quantity if two networks are equal; None if it does not compare two networks.
    compares_scores
        Whether it compares how well two networks do.
    large_if_learned
        Whether the quantity is large (True) or small (False) if the network learned; None if it
        does not measure learning.
    is_error_ratio
        Whether it is the first network's error over another error.
    counts_steps
        Whether it is a number of training steps, or a ratio of two such numbers.
    """

    no_effect: float | None = None
    compares_scores: bool = False
    large_if_learned: bool | None = None
    is_error_ratio: bool = False
    counts_steps: bool = False


TRAITS = {
    "lead": Traits(no_effect=0.0, compares_scores=True),
    "ratio": Traits(no_effect=1.0, compares_scores=True, is_error_ratio=True),
    "apart": Traits(no_effect=0.0, compares_scores=True),
    "longer": Traits(no_effect=1.0, counts_steps=True),
    "over_chance": Traits(large_if_learned=True),
    "share_of_chance": Traits(large_if_learned=False, is_error_ratio=True),
    "gain": Traits(),
    "decay": Traits(no_effect=1.0),
    "memoryless": Traits(large_if_learned=False, is_error_ratio=True),
    "deviation": Traits(),
    "trend": Traits(),
    "steps_needed": Traits(counts_steps=True),
    "peak": Traits(),
    "span": Traits(),
    "decades": Traits(),
    "power_law": Traits(),
}
"""By the name that claims give (`study.claims.claim.Comparison.estimator`)."""
