"""Which verdicts are possible if our runs were shorter than the paper's.

Training too little can explain why an advantage did not appear. It can't explain one that did. The
rule depends on the kind of claim:

===========================  ==========================  ==========================
a claim that ...             "agrees"                    "differs" and "undecided"
===========================  ==========================  ==========================
one network leads another    stays, with a reservation   become not testable
a network learns             stays                       become not testable
a network fails to learn     becomes not testable        stay
networks do equally well     becomes not testable        become not testable
a network is not worse       stays, if it is ahead       become not testable
networks have a property     becomes not testable        become not testable
training takes steps         stays                       stay, if the runs got there
===========================  ==========================  ==========================

The properties are spreads, gradients, and time steps after training. All of them depend on how far
the networks have converged.
"""

import math
from enum import Enum
from typing import NamedTuple

from study.claims.claim import Claim
from study.claims.estimates import Estimate
from study.claims.region import Region


class ClaimKind(Enum):
    """The kind of a claim about networks."""

    LEADS = "one network leads another"
    LEARNS = "a network learns"
    FAILS = "a network fails to learn"
    EQUAL = "networks do equally well"
    NO_WORSE = "one network is not worse than another, within a margin"
    CONVERGED = "networks have a spread, gradients or time steps after training"
    COUNTS_STEPS = "training takes a number of steps"


class Barred(NamedTuple):
    """Whether each verdict is impossible with runs shorter than the paper's."""

    agrees: bool
    differs: bool
    """Also applies to the verdict "undecided"."""


_BARRED = {
    ClaimKind.LEADS: Barred(agrees=False, differs=True),
    ClaimKind.LEARNS: Barred(agrees=False, differs=True),
    ClaimKind.FAILS: Barred(agrees=True, differs=False),
    ClaimKind.EQUAL: Barred(agrees=True, differs=True),
    ClaimKind.NO_WORSE: Barred(agrees=True, differs=True),
    ClaimKind.CONVERGED: Barred(agrees=True, differs=True),
    ClaimKind.COUNTS_STEPS: Barred(agrees=False, differs=False),
}
_NO_DIFFERENCE = {"lead": 0.0, "apart": 0.0, "ratio": 1.0}
"""The value of a comparison if both networks do equally well."""
_LARGE_IF_LEARNED = {"over_chance": True, "share_of_chance": False, "memoryless": False}
"""Whether a quantity is large if the network learned, or small."""


def claim_kind(verb: str, region: Region) -> ClaimKind:
    """Return the kind of a claim about networks.

    Parameters
    ----------
    verb
        The claim's verb.
    region
        Where the quantity lies if the claim is true.

    Returns
    -------
    ClaimKind
    """
    if verb in _NO_DIFFERENCE:
        same = _NO_DIFFERENCE[verb]
        if not region.contains(same, same):
            return ClaimKind.LEADS
        within_margin = verb != "apart" and not region.bounded
        return ClaimKind.NO_WORSE if within_margin else ClaimKind.EQUAL
    if verb in _LARGE_IF_LEARNED:
        says_large = math.isinf(region.below)
        learns = says_large == _LARGE_IF_LEARNED[verb]
        return ClaimKind.LEARNS if learns else ClaimKind.FAILS
    if verb in ("longer", "steps_needed"):
        return ClaimKind.COUNTS_STEPS
    return ClaimKind.CONVERGED


def barred_verdicts(verb: str, region: Region, estimate: Estimate) -> Barred:
    """Return which verdicts a run that is shorter than the paper's cannot support.

    Parameters
    ----------
    verb
        The claim's verb.
    region
        Where the quantity lies if the claim is true.
    estimate
        The quantity. If some runs never reached the goal, the upper end of their number of steps is
        infinite, and a claim about it can't be refuted.

    Returns
    -------
    Barred
        By the table of this module.
    """
    if verb == "steps_needed" and math.isinf(estimate.high):
        return Barred(agrees=False, differs=True)
    barred = _BARRED[claim_kind(verb, region)]
    if _ahead_of_a_margin(verb, region, estimate):
        return barred._replace(agrees=False)
    return barred


def _ahead_of_a_margin(verb: str, region: Region, estimate: Estimate) -> bool:
    """Return whether a network that, by the claim, is not worse than another is even ahead."""
    if claim_kind(verb, region) is not ClaimKind.NO_WORSE:
        return False
    same = _NO_DIFFERENCE[verb]
    return estimate.low > same if math.isinf(region.below) else estimate.high < same


def rule_in_words() -> list[tuple[str, str, str]]:
    """Return the table of this module for readers.

    Returns
    -------
    list of tuple of str
        A claim, what becomes of “agrees”, what becomes of “differs”.
    """
    rows = []
    for kind, barred in _BARRED.items():
        agrees = "becomes not testable" if barred.agrees else "stays"
        if kind is ClaimKind.LEADS:
            agrees += ", with a reservation"
        if kind is ClaimKind.NO_WORSE:
            agrees += ", unless our interval shows it ahead"
        differs = "become not testable" if barred.differs else "stay"
        if kind is ClaimKind.COUNTS_STEPS:
            differs += ", if our runs got there"
        rows.append((kind.value, agrees, differs))
    return rows


def lead_reservation(claim: Claim, steps: int | None) -> str:
    """Return the reservation about a lead that agrees; empty if the runs were long enough.

    Parameters
    ----------
    claim
        A claim of a paper.
    steps
        Optimizer steps of our shortest run; None if unknown.

    Returns
    -------
    str
    """
    comparison = claim.comparison
    if comparison is None or steps is None or not steps < comparison.steps:
        return ""
    kind = claim_kind(comparison.verb, claim.region)
    # A claim "not worse" agrees after short runs only if the network is ahead.
    if kind not in (ClaimKind.LEADS, ClaimKind.NO_WORSE):
        return ""
    return f"{steps_in_words(steps, comparison.steps)}: the lead may only reflect faster learning"


def steps_in_words(steps: int, paper_steps: float) -> str:
    """Return the lengths of our runs and of the paper's as text.

    Parameters
    ----------
    steps
        Optimizer steps of our shortest run.
    paper_steps
        Optimizer steps in the paper.

    Returns
    -------
    str

    Examples
    --------
    >>> steps_in_words(474, 200000)
    "our runs take 474 of the paper's 200,000 steps"
    """
    return f"our runs take {steps:,} of the paper's {paper_steps:,.0f} steps"
