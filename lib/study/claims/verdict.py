"""The one rule that turns an estimate into a verdict.

The interval decides: inside the region the claim agrees, outside it differs. In between it is
undecided. It is also undecided if a reservation applies, or if the verdict would go against a
network that could have been tuned better (`study.claims.tuning`). An experiment that could hardly
have agreed even if the paper were right does not test the claim. Neither does a run that was
shorter than the paper's, if that could explain the result (`study.claims.short_runs`).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from study.claims.claim import Claim
from study.claims.estimates import Cause, Estimate
from study.claims.power import distance, needs_all_parts, power
from study.claims.region import Region
from study.stats.power import detectable

AGREES = "agrees"
DIFFERS = "differs"
UNDECIDED = "undecided"
UNTESTABLE = "not testable at this scale"
VERDICTS = (AGREES, DIFFERS, UNDECIDED, UNTESTABLE)
NO_EFFECT = "no effect found"
"""A claim of no effect that agrees; its interval holds the value of no effect."""
WITHIN = "within the stated border"
"""A claim of no effect that agrees; there is an effect, but no larger than the claim allows."""
ENOUGH_POWER = 0.5
"""Least power at which an experiment tests a claim."""


class Verdict(NamedTuple):
    """The verdict of an experiment on a claim.

    Attributes
    ----------
    verdict
        One of `VERDICTS`.
    power
        Chance that an experiment of this size agrees if the paper is right; ``nan`` if unknown.
    reason
        Why it is weaker than the interval alone suggests, or what would decide it; empty if
        there is nothing to explain.
    cause
        Why the claim cannot be tested; None if it can.
    """

    verdict: str
    power: float
    reason: str = ""
    cause: Cause | None = None


def decide(estimate: Estimate, region: Region, published: float = math.nan) -> Verdict:
    """Return the verdict of an estimate on a claim that is true in a region.

    Parameters
    ----------
    estimate
        The quantity with its 95 % interval.
    region
        Where the quantity lies if the claim is true.
    published
        The paper's own value; ``nan`` if it prints none.

    Returns
    -------
    Verdict
        Verdict, power, reason, and cause.
    """
    chance = power(estimate, region, published)
    if not estimate.known:
        return Verdict(UNTESTABLE, chance, "", estimate.cause)
    if region.contains(estimate.low, estimate.high):
        return _decided(AGREES, estimate, region, chance)
    if region.excludes(estimate.low, estimate.high):
        if chance < ENOUGH_POWER:
            reason = f"would be “{DIFFERS}”, but {_in_words(chance)}"
            return Verdict(UNTESTABLE, chance, reason, Cause.TOO_SMALL)
        return _decided(DIFFERS, estimate, region, chance)
    larger = _larger_experiment(estimate, region)
    if chance < ENOUGH_POWER:
        return Verdict(UNTESTABLE, chance, f"{_in_words(chance)}; {larger}", Cause.TOO_SMALL)
    short = _too_short_for_what_is_open(estimate, region)
    if short:
        reason = f"would be “{UNDECIDED}”, but {short}"
        return Verdict(UNTESTABLE, chance, reason, Cause.TOO_SMALL)
    return Verdict(UNDECIDED, chance, larger)


def _too_short_for_what_is_open(estimate: Estimate, region: Region) -> str:
    """Explain that the runs were too short, if longer ones might have agreed; empty if not."""
    reasons = []
    for part in estimate.parts or (estimate,):
        if not region.contains(part.low, part.high):
            reasons.append(part.too_short_to_differ)
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _decided(verdict: str, estimate: Estimate, region: Region, chance: float) -> Verdict:
    """Return the verdict of the interval, unless objections apply."""
    inside = verdict == AGREES

    def too_short(part: Estimate) -> str:
        return part.too_short_to_agree if inside else part.too_short_to_differ

    short = find_objections(estimate, region, inside, too_short)
    if short:
        return Verdict(UNTESTABLE, chance, f"would be “{verdict}”, but {short}", Cause.TOO_SMALL)

    def against_verdict(part: Estimate) -> str:
        untuned = part.untuned_to_agree if inside else part.untuned_to_differ
        return "; ".join(text for text in (part.undecided_because, untuned) if text)

    against = find_objections(estimate, region, inside, against_verdict)
    if against:
        return Verdict(UNDECIDED, chance, f"would be “{verdict}”, but {against}")
    return Verdict(verdict, chance)


def find_objections(
    estimate: Estimate, region: Region, inside: bool, objection: Callable[[Estimate], str]
) -> str:
    """Return the objections to a verdict.

    "All do" rests on every part. "One does" and "one does not" rest on any part that does, so
    one without an objection is enough.

    Parameters
    ----------
    estimate
        The quantity, perhaps the extreme of several.
    region
        Where it lies if the claim is true.
    inside
        Whether the verdict is that it lies inside.
    objection
        Function that returns the objection to a verdict on one part; empty if there is none.

    Returns
    -------
    str
        Separated by semicolons; empty if there is none.
    """
    objections = []
    for part in estimate.parts or (estimate,):
        met = region.contains if inside else region.excludes
        if met(part.low, part.high):
            objections.append(objection(part))
    if "" in objections and not needs_all_parts(estimate, region, inside):
        return ""
    return "; ".join(dict.fromkeys(text for text in objections if text))


def _in_words(chance: float) -> str:
    return f"if the paper is right, an experiment of this size would agree {chance:.0%} of the time"


def _larger_experiment(estimate: Estimate, region: Region) -> str:
    """Return how large an experiment would decide a claim with 80 % power.

    Standard errors fall with the root of an experiment's size.
    """
    if estimate.high == math.inf:
        return "upper bound unknown, because some runs never reached the error; train longer"
    errors_away = distance(estimate, region)
    if not errors_away:
        return "the estimate lies on the threshold itself, where no experiment decides"
    times = detectable(1 / errors_away) ** 2
    size = "more than a hundred times"
    if times < 100:
        size = f"about {times:.2g} times"
    text = f"if this estimate is the truth, an experiment {size} as large would decide it"
    if estimate.sampled > 0.5:
        text += "; most of its uncertainty comes from the finite test set"
    return text


class Sensitivity(NamedTuple):
    """The verdicts at other thresholds; empty if the threshold is the paper's."""

    at_half: str
    at_double: str


def sensitivity(estimate: Estimate, claim: Claim) -> Sensitivity:
    """Return the verdicts with our threshold at half and at twice its distance.

    Parameters
    ----------
    estimate
        The quantity with its 95 % interval.
    claim
        Its `threshold` says what half and double mean.

    Returns
    -------
    Sensitivity
        Two of `VERDICTS`, or two empty texts.
    """
    if claim.threshold is None:
        return Sensitivity("", "")
    verdicts = []
    for factor in (0.5, 2.0):
        region = claim.region.scaled(factor, claim.threshold)
        verdicts.append(decide(estimate, region, claim.published).verdict)
    return Sensitivity(*verdicts)


def verdict_on(estimate: Estimate, claim: Claim) -> Verdict:
    """Return the verdict of an estimate on a claim.

    Parameters
    ----------
    estimate
        The quantity with its 95 % interval.
    claim
        Its region and its published value count.

    Returns
    -------
    Verdict
        As `decide` returns it. If the experiment is too small at our threshold but decides at
        half or at twice the threshold, the cause is the threshold and not the size.
    """
    verdict = decide(estimate, claim.region, claim.published)
    low_power = verdict.power < ENOUGH_POWER
    if verdict.cause is Cause.TOO_SMALL and low_power:
        other = sensitivity(estimate, claim)
        if {AGREES, DIFFERS} & set(other):
            return verdict._replace(cause=Cause.THRESHOLD)
    return verdict


def displayed_verdict(verdict: str, denies_effect: bool, null_is: str) -> str:
    """Return the verdict that readers see: `NO_EFFECT` and `WITHIN` are kinds of "agrees".

    Parameters
    ----------
    verdict
        One of `VERDICTS`.
    denies_effect
        Whether the claim is true without an effect (`Claim.denies_effect`).
    null_is
        Whether the value of no effect lies ``inside`` or ``outside`` the interval.

    Returns
    -------
    str
        The verdict, or the kind of agreement.
    """
    if not denies_effect or verdict != AGREES:
        return verdict
    if null_is == "outside":
        return WITHIN
    return NO_EFFECT
