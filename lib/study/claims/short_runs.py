"""Which verdicts are possible if our runs were shorter than the paper's.

Short training can explain why an advantage did not appear. An advantage that did appear is shown,
but may only reflect faster learning, which a caveat says: on sMNIST, a large lead of LEM over the
LSTM in short runs is nearly gone after as many steps as in the paper. The rule depends on the kind
of claim:

===========================  ==========================  ==========================
a claim that ...             "agrees"                    "differs" and "undecided"
===========================  ==========================  ==========================
one network leads another    stays, with a caveat        become not testable
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
from typing import NamedTuple

from study.claims.claim import Claim, NetworkRef
from study.claims.estimates import Estimate
from study.claims.kinds import ClaimKind, claim_kind
from study.claims.networks import Networks
from study.claims.region import Region
from study.claims.traits import TRAITS


class Barred(NamedTuple):
    """Whether each verdict is impossible with runs shorter than the paper's."""

    agrees: bool
    differs: bool
    """Also applies to undecided claims."""


_BARRED = {
    ClaimKind.LEADS: Barred(agrees=False, differs=True),
    ClaimKind.LEARNS: Barred(agrees=False, differs=True),
    ClaimKind.FAILS: Barred(agrees=True, differs=False),
    ClaimKind.EQUAL: Barred(agrees=True, differs=True),
    ClaimKind.NO_WORSE: Barred(agrees=True, differs=True),
    ClaimKind.CONVERGED: Barred(agrees=True, differs=True),
    ClaimKind.COUNTS_STEPS: Barred(agrees=False, differs=False),
}


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
    barred = _BARRED[claim_kind(estimator, region)]
    if _is_even_ahead(estimator, region, estimate):
        return barred._replace(agrees=False)
    return barred


def _is_even_ahead(estimator: str, region: Region, estimate: Estimate) -> bool:
    """Return whether a network leads although the claim is only that it is not worse."""
    if claim_kind(estimator, region) is not ClaimKind.NO_WORSE:
        return False
    no_effect = TRAITS[estimator].no_effect
    large_is_better = math.isinf(region.below)
    if large_is_better:
        return estimate.low > no_effect
    return estimate.high < no_effect


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
        if kind is ClaimKind.LEADS:
            agrees += ", with a caveat"
        if kind is ClaimKind.NO_WORSE:
            agrees += ", unless our interval shows it ahead"
        differs = "stay"
        if barred.differs:
            differs = "become not testable"
        if kind is ClaimKind.COUNTS_STEPS:
            differs += ", if our runs got there"
        rows.append((kind.value, agrees, differs))
    return rows


def lead_caveat(claim: Claim, steps: int | None) -> str:
    """Return the caveat about a lead that agrees; empty if the runs were long enough.

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
    if comparison is None or steps is None:
        return ""
    shorter = steps < comparison.steps  # False if the paper gives no number of steps
    if not shorter:
        return ""
    kind = claim_kind(comparison.estimator, claim.region)
    # After short runs, a claim "not worse" agrees only if the network is even ahead.
    if kind not in (ClaimKind.LEADS, ClaimKind.NO_WORSE):
        return ""
    return f"{steps_in_words(steps, comparison.steps)}: the lead may only reflect faster learning"


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
