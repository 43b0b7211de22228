"""Which verdicts are possible if our runs were shorter than the paper's.

Short training can explain why an advantage did not appear. It can also explain one that did appear:
the network that leads may only learn faster. After 6,000 of the paper's 53,400 steps on sMNIST, our
LEM leads the LSTM by about 40 points; after all of the steps, five runs show no lead. So neither
verdict on a lead can rest on short runs. What a network has learned in a few steps, it has learned.
The rule depends on the kind of claim:

===========================  ==========================  ==========================
a claim that ...             "agrees"                    "differs" and "undecided"
===========================  ==========================  ==========================
one network leads another    becomes not testable        become not testable
a network learns             stays                       become not testable
a network fails to learn     becomes not testable        stay
networks do equally well     becomes not testable        become not testable
a network is not worse       becomes not testable        become not testable
networks have a property     becomes not testable        become not testable
training takes steps         stays                       stay, if the runs got there
===========================  ==========================  ==========================

The properties are spreads, gradients, and time steps after training. All of them depend on how far
the networks have converged.
"""

import math
from enum import Enum
from typing import NamedTuple

from study.claims.claim import NetworkRef
from study.claims.estimates import Estimate
from study.claims.networks import Networks
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
    """Also applies to undecided claims."""


_BARRED = {
    ClaimKind.LEADS: Barred(agrees=True, differs=True),
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
    if estimator in _NO_DIFFERENCE:
        same = _NO_DIFFERENCE[estimator]
        if not region.contains(same, same):
            return ClaimKind.LEADS
        one_sided = estimator != "apart" and not region.bounded
        if one_sided:
            return ClaimKind.NO_WORSE
        return ClaimKind.EQUAL
    if estimator in _LARGE_IF_LEARNED:
        says_large = math.isinf(region.below)
        if says_large == _LARGE_IF_LEARNED[estimator]:
            return ClaimKind.LEARNS
        return ClaimKind.FAILS
    if estimator in ("longer", "steps_needed"):
        return ClaimKind.COUNTS_STEPS
    return ClaimKind.CONVERGED


def barred_verdicts(estimator: str, region: Region, estimate: Estimate) -> Barred:
    """Return which verdicts cannot rest on runs that are shorter than the paper's.

    Parameters
    ----------
    estimator
        The claim's estimator.
    region
        Where the quantity lies if the claim is true.
    estimate
        The quantity. If some runs never reached the goal, the upper end of their number of steps is
        infinite, and the claim can't be refuted.

    Returns
    -------
    Barred
        According to the table of this module.
    """
    if estimator == "steps_needed" and math.isinf(estimate.high):
        return Barred(agrees=False, differs=True)
    return _BARRED[claim_kind(estimator, region)]


def shorter_than_paper(networks: Networks, *names: NetworkRef) -> str:
    """Explain that a network was trained for fewer steps than in the paper.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    names
        Some of them.

    Returns
    -------
    str
        The reason; empty if all of them were trained for as long as in the paper.
    """
    steps = min(networks.steps_trained(name) for name in names)
    if steps < networks.paper_steps:
        return steps_in_words(steps, networks.paper_steps)
    return ""


def rule_in_words() -> list[tuple[str, str, str]]:
    """Return the table of this module for readers.

    Returns
    -------
    list of tuple of str
        For each kind of claim: its description, what happens to “agrees”, and what happens to
        “differs” and “undecided”.
    """
    rows = []
    for kind, barred in _BARRED.items():
        agrees = "stays"
        if barred.agrees:
            agrees = "becomes not testable"
        differs = "stay"
        if barred.differs:
            differs = "become not testable"
        if kind is ClaimKind.COUNTS_STEPS:
            differs += ", if our runs got there"
        rows.append((kind.value, agrees, differs))
    return rows


def steps_in_words(steps: int, paper_steps: float) -> str:
    """Compare the number of training steps of our runs with the paper's, in words.

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
