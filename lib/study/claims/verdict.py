"""The one rule that turns an estimate into a verdict.

The interval decides. If the whole 95% interval lies in the claim's region, our result *agrees*
with the claim. If it lies entirely outside, our result *differs*. Otherwise the claim is
*undecided*. There are four exceptions, the objections:

- a claim stays undecided if there is another reason against a verdict (`study.claims.undecided`);
- a claim stays undecided if the verdict would go against a network that could have been tuned
  better (`study.claims.tuning`);
- a claim that the interval leaves open is not testable if the experiment could hardly have agreed
  even if the paper is right (`study.claims.power`);
- a claim is not testable if our runs were shorter than the paper's and that could explain the
  result (`study.claims.short_runs`).

The power to agree says nothing against an interval that lies entirely outside. Wherever in the
region the true value is, such an interval has a probability of at most 2.5% on either side of the
region, no matter how often an experiment of this size agrees. The same holds for an interval that
lies inside although the power is low.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from study.claims.claim import Claim
from study.claims.estimates import Cause, Estimate, Reasons, gather, write_reasons
from study.claims.power import distance, needs_all_parts, power_to_agree
from study.claims.region import Region
from study.stats.power import detectable

AGREES = "agrees"
DIFFERS = "differs"
UNDECIDED = "undecided"
SCALE_WORDS = " at this scale"
"""The end of the longest verdict, which narrow columns leave out."""
UNTESTABLE = f"not testable{SCALE_WORDS}"
VERDICTS = (AGREES, DIFFERS, UNDECIDED, UNTESTABLE)
NO_EFFECT = "no effect found"
"""Our result agrees with a claim of no effect, and the interval contains the value of no effect."""
WITHIN = "within the stated margin"
"""Our result agrees with a claim of no effect; there is one, but none larger than it allows."""
INSIDE = "inside"
"""The value of no effect lies inside the interval."""
OUTSIDE = "outside"
"""The value of no effect lies outside the interval, and `BETWEEN` does not apply."""
BETWEEN = "between"
"""The value of no effect lies between the claim's threshold and the interval: there is an effect,
but not the one that the claim denies. An example is a claim that accuracy does not fall, and it
rises.
"""
ENOUGH_POWER = 0.5
"""Smallest power at which a claim that the interval leaves open counts as tested."""


class Verdict(NamedTuple):
    """The verdict of an experiment on a claim.

    Attributes
    ----------
    verdict
        One of `VERDICTS`.
    power
        Probability that an experiment of this size agrees if the paper is right; ``nan`` if
        unknown.
    reason
        Why the verdict is weaker than the interval alone suggests, or what would decide the claim;
        empty if there is nothing to explain.
    cause
        Why the claim cannot be tested; None if it can.
    objections
        What bars the verdict that the interval alone would give; empty if nothing does. `reason`
        says both.
    """

    verdict: str
    power: float
    reason: str = ""
    cause: Cause | None = None
    objections: Reasons = ()


def decide(estimate: Estimate, region: Region, published: float = math.nan) -> Verdict:
    """Return the verdict of an estimate on a claim that is true in a region.

    Parameters
    ----------
    estimate
        The quantity with its 95% interval.
    region
        Where the quantity lies if the claim is true.
    published
        The paper's own value; ``nan`` if it prints none.

    Returns
    -------
    Verdict
    """
    power = power_to_agree(estimate, region, published)
    if not estimate.known:
        return Verdict(UNTESTABLE, power, "", estimate.cause)
    if region.contains(estimate.low, estimate.high):
        return _decided(AGREES, estimate, region, power)
    if region.excludes(estimate.low, estimate.high):
        return _decided(DIFFERS, estimate, region, power)
    larger = _larger_experiment(estimate, region)
    if power < ENOUGH_POWER:
        reason = f"{low_power_in_words(power)}; {larger}"
        return Verdict(UNTESTABLE, power, reason, Cause.TOO_SMALL)
    short = _too_short_to_decide(estimate, region)
    if short:
        return _barred(UNDECIDED, short, UNTESTABLE, power)
    return Verdict(UNDECIDED, power, larger)


def _too_short_to_decide(estimate: Estimate, region: Region) -> Reasons:
    """Return why short runs can't rule out that the undecided parts would have agreed."""
    reasons = []
    for part in estimate.parts or (estimate,):
        if not region.contains(part.low, part.high):
            reasons.append(part.too_short.to_differ)
    return gather(*reasons)


def _decided(verdict: str, estimate: Estimate, region: Region, power: float) -> Verdict:
    """Return the verdict that the interval reaches, unless there are objections."""
    inside = verdict == AGREES

    def too_short(part: Estimate) -> Reasons:
        return part.too_short.on(inside)

    short = find_objections(estimate, region, inside, too_short)
    if short:
        return _barred(verdict, short, UNTESTABLE, power)

    def leaves_undecided(part: Estimate) -> Reasons:
        return gather(part.undecided_because, part.untuned.on(inside))

    against = find_objections(estimate, region, inside, leaves_undecided)
    if against:
        return _barred(verdict, against, UNDECIDED, power)
    return Verdict(verdict, power)


def _barred(by_interval: str, objections: Reasons, verdict: str, power: float) -> Verdict:
    """Return the verdict that remains if objections bar the one that the interval gives."""
    cause = None
    if verdict == UNTESTABLE:
        cause = Cause.TOO_SMALL
    reason = f"would be “{by_interval}”, but {write_reasons(objections)}"
    return Verdict(verdict, power, reason, cause, objections)


def find_objections(
    estimate: Estimate,
    region: Region,
    inside: bool,
    objections_to: Callable[[Estimate], Reasons],
) -> Reasons:
    """Collect the objections to a verdict from the parts of an estimate that it rests on.

    A verdict of the form "all parts are ..." needs every part, so an objection to any part counts.
    A verdict of the form "some part is ..." needs one supporting part, so it stands if at least one
    supporting part has no objection. At least one part always supports the verdict, because the
    interval of an extreme is at least as wide as that of the part that decides it.

    Parameters
    ----------
    estimate
        The quantity. If it is the smallest or the largest of several, it has parts.
    region
        Where it lies if the claim is true.
    inside
        Whether the verdict is that it lies inside.
    objections_to
        Function that returns the objections to a verdict on one part.

    Returns
    -------
    tuple of str
        Empty if there is none.
    """
    objections = []
    for part in estimate.parts or (estimate,):
        if inside:
            supports_verdict = region.contains(part.low, part.high)
        else:
            supports_verdict = region.excludes(part.low, part.high)
        if supports_verdict:
            objections.append(objections_to(part))
    part_without_objection = () in objections
    if part_without_objection and not needs_all_parts(estimate, region, inside):
        return ()
    return gather(*objections)


def low_power_in_words(power: float) -> str:
    """Say how seldom an experiment would agree.

    Parameters
    ----------
    power
        Its power.

    Returns
    -------
    str
    """
    start = "even if the paper is right, an experiment of this size would agree"
    if power < 0.01:
        return f"{start} less than 1% of the time"
    return f"{start} only {power:.0%} of the time"


def _larger_experiment(estimate: Estimate, region: Region) -> str:
    """Return how large an experiment would decide a claim with 80% power.

    Standard errors shrink with the square root of an experiment's size.
    """
    if estimate.high == math.inf:
        return "the interval has no upper bound, so the size that would decide is unknown"
    distance_in_se = distance(estimate, region)
    if not distance_in_se:
        return "the estimate lies exactly on the threshold, where no experiment can decide"
    times = detectable(1 / distance_in_se) ** 2
    experiment = "an experiment more than a hundred times as large"
    if times <= 1:  # so few runs that Student's t, not the standard error, makes the interval wide
        experiment = "an experiment with a few more runs"
    elif times < 100:
        experiment = f"an experiment about {times:.2g} times as large"
    text = f"if the true value is our estimate, {experiment} would decide"
    if estimate.sampled > 0.5:
        text += "; most of the uncertainty comes from the finite test set"
    return text


class Sensitivity(NamedTuple):
    """The verdicts at other thresholds; empty if the threshold is the paper's."""

    at_half: str
    at_double: str

    def describe(self) -> str:
        """Return both verdicts as text, such as ``at half agrees, at twice undecided``.

        Returns
        -------
        str
            Empty if the threshold is the paper's.
        """
        if not self.at_half:
            return ""
        at_half = self.at_half.removesuffix(SCALE_WORDS)
        at_double = self.at_double.removesuffix(SCALE_WORDS)
        if at_half == at_double:
            return f"at half and at twice {at_half}"
        return f"at half {at_half}, at twice {at_double}"

    def differs_from(self, verdict: str) -> bool:
        """Return whether another threshold gives another verdict.

        Parameters
        ----------
        verdict
            One of `VERDICTS`: that at our threshold.

        Returns
        -------
        bool
            False if the threshold is the paper's.
        """
        return bool(self.at_half) and {self.at_half, self.at_double} != {verdict}


def sensitivity(estimate: Estimate, claim: Claim) -> Sensitivity:
    """Return the verdicts if our threshold were half or twice as far from the value of no effect.

    Parameters
    ----------
    estimate
        The quantity with its 95% interval.
    claim
        Its `threshold` defines what half and twice mean.

    Returns
    -------
    Sensitivity
        Two of `VERDICTS`; two empty texts if the threshold is the paper's.
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
        The quantity with its 95% interval.
    claim
        The claim, with its region and the paper's value.

    Returns
    -------
    Verdict
        As `decide` returns it. If the power is too low at our threshold, but the claim is decided
        at half or at twice the threshold, the cause is the threshold and not the size.
    """
    verdict = decide(estimate, claim.region, claim.published)
    low_power = verdict.power < ENOUGH_POWER and not verdict.objections
    if verdict.cause is Cause.TOO_SMALL and low_power:
        other = sensitivity(estimate, claim)
        if {AGREES, DIFFERS} & set(other):
            return verdict._replace(cause=Cause.THRESHOLD)
    return verdict


def displayed_verdict(verdict: str, denies_effect: bool, null_is: str) -> str:
    """Return the verdict that readers see: claims of no effect agree in words of their own.

    Parameters
    ----------
    verdict
        One of `VERDICTS`.
    denies_effect
        Whether the claim is true without an effect (`Claim.denies_effect`).
    null_is
        Where the value of no effect lies: `INSIDE`, `OUTSIDE` or `BETWEEN`.

    Returns
    -------
    str
        `NO_EFFECT` or `WITHIN` for a claim of no effect that agrees, otherwise `verdict`. An
        interval beyond the value of no effect agrees like that of any other claim.
    """
    if not denies_effect or verdict != AGREES or null_is == BETWEEN:
        return verdict
    if null_is == OUTSIDE:
        return WITHIN
    return NO_EFFECT
