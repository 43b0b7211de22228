"""The kinds of claim about networks, on which the rules about verdicts depend.

What short training, tuning, or the choice of networks can do to a verdict depends on whether the
claim is that a network leads, that it learns, that it fails, and so on. The kind follows from the
claim's estimator and region, so that no claim has to name it.
"""

import math
from enum import Enum

from study.claims.region import Region
from study.claims.traits import TRAITS


class ClaimKind(Enum):
    """The kind of a claim about networks."""

    LEADS = "one network leads another"
    LEARNS = "a network learns"
    FAILS = "a network fails to learn"
    EQUAL = "networks do equally well"
    NO_WORSE = "one network is not worse than another, within a margin"
    CONVERGED = "networks have a spread, gradients or time steps after training"
    COUNTS_STEPS = "training takes a number of steps"


def claim_kind(estimator: str, region: Region) -> ClaimKind:
    """Return the kind of a claim about networks.

    Parameters
    ----------
    estimator
        The claim's estimator.
    region
        Where the quantity lies if the claim is true.

    Returns
    -------
    ClaimKind
    """
    traits = TRAITS[estimator]
    if traits.compares_scores:
        if not region.contains(traits.no_effect, traits.no_effect):
            return ClaimKind.LEADS
        one_sided = estimator != "apart" and not region.bounded
        if one_sided:
            return ClaimKind.NO_WORSE
        return ClaimKind.EQUAL
    if traits.large_if_learned is not None:
        says_large = math.isinf(region.below)
        if says_large == traits.large_if_learned:
            return ClaimKind.LEARNS
        return ClaimKind.FAILS
    if traits.counts_steps:
        return ClaimKind.COUNTS_STEPS
    return ClaimKind.CONVERGED
