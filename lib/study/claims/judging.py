"""Judge the claims about an experiment: one table row and one sentence per claim."""

import math
from collections.abc import Callable, Mapping
from functools import cache

import pandas as pd
import xarray as xr
from IPython.display import Markdown, display

from study.claims.caveats import NOT_ROBUST, write_caveats
from study.claims.claim import (
    NOT_PRINTED,
    Claim,
    ClaimError,
)
from study.claims.correction import p_value
from study.claims.estimates import Cause, Estimate, Reasons, gather, not_testable, write_reasons
from study.claims.estimating import estimate_claim
from study.claims.kinds import ClaimKind, claim_kind
from study.claims.listed import claims
from study.claims.networks import Networks
from study.claims.power import arm_in_errors
from study.claims.short_runs import lead_caveat
from study.claims.verdict import (
    AGREES,
    BETWEEN,
    DIFFERS,
    ENOUGH_POWER,
    INSIDE,
    OUTSIDE,
    UNDECIDED,
    UNTESTABLE,
    Sensitivity,
    Verdict,
    displayed_verdict,
    find_objections,
    low_power_in_words,
    sensitivity,
    verdict_on,
)
from study.results.artifacts import Artifacts
from study.results.manifest import TOYS
from study.stats.power import detectable

COMPARING = (ClaimKind.LEADS, ClaimKind.NO_WORSE, ClaimKind.EQUAL, ClaimKind.COUNTS_STEPS)
"""Kinds of claims that compare networks with each other, in scores or in training steps.

They get a caveat if one is at chance.
"""
Judge = Callable[[object], Estimate]
"""A function that estimates the quantity of one claim, from a dataset or tables made of it."""


class Judges(dict[str, Judge]):
    """The judges of one experiment by id of the claim, in the order of the table."""

    def __call__(self, evidence: object) -> pd.DataFrame:
        """Judge every claim of the experiment.

        Parameters
        ----------
        evidence
            Argument of the judges: a dataset of results, or an object computed from it.

        Returns
        -------
        pandas.DataFrame
            One `judged_row` per claim.
        """
        return judged_table(evidence, self)


def judge_group(ds: xr.Dataset, group: str) -> pd.DataFrame:
    """Judge all claims about a group of runs.

    Parameters
    ----------
    ds
        Results of the group.
    group
        Name of the group in ``params.yaml``.

    Returns
    -------
    pandas.DataFrame
        One `judged_row` per claim, in the order of `study.claims.listed.claims`.

    Raises
    ------
    ClaimError
        No claim is about the group.
    """
    compared = [claim for claim in claims().values() if claim.comparison]
    chosen = [claim for claim in compared if claim.comparison.group == group]
    if not chosen:
        groups = ", ".join(sorted({claim.comparison.group for claim in compared}))
        raise ClaimError(f"no claim is about the group {group!r}; expected one of {groups}")

    @cache
    def networks_in(measure: str) -> Networks:
        return Networks(ds, measure=measure)

    def judge_of(claim: Claim) -> Judge:
        return lambda _: estimate_claim(networks_in(claim.comparison.measure), claim)

    return judged_table(ds, {claim.id: judge_of(claim) for claim in chosen})


def judged_table(evidence: object, judges: Mapping[str, Judge]) -> pd.DataFrame:
    """Judge claims with given judges.

    Parameters
    ----------
    evidence
        Argument of the judges: a dataset of results, or an object with the dataset as ``ds``. No
        claim is testable if the dataset's profile is ``simulated`` or one of
        `study.results.manifest.TOYS`.
    judges
        Functions that return an `Estimate`, by id of the claim.

    Returns
    -------
    pandas.DataFrame
        One `judged_row` per claim.
    """
    ds = evidence
    if not isinstance(evidence, xr.Dataset):
        ds = evidence.ds
    refusal = _refuse_profile(ds.attrs["profile"])
    rows = []
    for claim_id, judge in judges.items():
        estimate = refusal or judge(evidence)
        rows.append(judged_row(claim_id, estimate))
    return pd.DataFrame(rows)


def _refuse_profile(profile: str) -> Estimate | None:
    """Return an estimate without a value if results of a profile judge nothing; None if they do."""
    if profile == "simulated":
        reason = "drawn from the published tables; no network was trained"
    elif profile in TOYS:
        reason = "these runs show that the pipeline works; they are too small to judge a claim"
    else:
        return None
    return not_testable(f"profile {profile}: {reason}", Cause.NO_DATA)


def judged_row(claim_id: str, estimate: Estimate) -> dict[str, object]:
    """Judge one claim by an estimate.

    Parameters
    ----------
    claim_id
        Id of the claim.
    estimate
        The claim's quantity with its interval.

    Returns
    -------
    dict
        The columns of a `judged_table`:

        - ``id`` and ``verdict``; ``cause``: why the claim is not testable, else empty;
        - ``estimate``, ``low``, ``high``, ``power`` and ``p``;
        - ``at_half`` and ``at_double``: the verdicts at half and at twice our threshold; empty if
          the threshold is the paper's;
        - ``null_is``: whether `Claim.null` is ``inside`` the interval, ``outside``, or ``between``
          it and the threshold; empty if there is none;
        - ``paper_steps``: optimizer steps in the paper; None if not printed;
        - the columns of `study.claims.estimates.Scale`;
        - ``decided_by`` and ``decided_on``: the networks and the task of the estimate, if the claim
          is about several; else empty;
        - ``caveat``: what a reader must know before quoting the verdict, separated by semicolons;
        - ``objection``: what bars the verdict that the interval alone would give; empty if nothing
          does;
        - ``note``: remarks on the estimate, the paper's value and the verdict, with the objection.
    """
    claim = claims()[claim_id]
    verdict = verdict_on(estimate, claim)
    cause = ""
    if verdict.cause:
        cause = verdict.cause.value
    decided_by = ""
    decided_on = ""
    if estimate.known and estimate.about:
        decided_by, decided_on = estimate.about
    at_other_thresholds = sensitivity(estimate, claim)
    caveats = gather(
        _caveats(estimate, claim, verdict.verdict),
        _reversal(verdict.verdict, at_other_thresholds),
    )
    paper_steps = None
    if claim.comparison and claim.comparison.paper_steps != NOT_PRINTED:
        paper_steps = claim.comparison.paper_steps
    return {
        "id": claim_id,
        "verdict": verdict.verdict,
        "cause": cause,
        "estimate": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "power": verdict.power,
        "p": p_value(estimate, claim.region),
        "at_half": at_other_thresholds.at_half,
        "at_double": at_other_thresholds.at_double,
        "null_is": _null_is(estimate, claim),
        "paper_steps": paper_steps,
        **estimate.scale.columns(),
        "decided_by": decided_by,
        "decided_on": decided_on,
        "caveat": write_caveats(caveats),
        "objection": write_reasons(verdict.objections),
        "note": write_reasons(_notes(estimate, claim, verdict)),
    }


def _null_is(estimate: Estimate, claim: Claim) -> str:
    """Return where the value of no effect lies: `INSIDE`, `OUTSIDE` or `BETWEEN`.

    Empty if there is no such value or no interval.
    """
    if not estimate.known or math.isnan(claim.null):
        return ""
    if estimate.low <= claim.null <= estimate.high:
        return INSIDE
    region = claim.region
    if math.isinf(region.below) and region.above < claim.null < estimate.low:
        return BETWEEN
    if math.isinf(region.above) and estimate.high < claim.null < region.below:
        return BETWEEN
    return OUTSIDE


def _notes(estimate: Estimate, claim: Claim, verdict: Verdict) -> Reasons:
    """Return remarks on an estimate and its verdict."""
    notes = [*estimate.notes, verdict.reason]
    if verdict.verdict == DIFFERS and verdict.power < ENOUGH_POWER:
        rarely_agrees = low_power_in_words(verdict.power)
        notes.append(f"the interval excludes the claim, although {rarely_agrees}")
    null_is = _null_is(estimate, claim)
    agrees_on_no_effect = verdict.verdict == AGREES and null_is in (INSIDE, OUTSIDE)
    if claim.denies_effect and (agrees_on_no_effect or null_is == INSIDE):
        notes.append(_null_note(estimate, verdict.verdict))
    if estimate.known:
        notes.append(_published_note(estimate, claim, verdict.verdict))
    return gather(*notes)


def _published_note(estimate: Estimate, claim: Claim, verdict: str) -> str:
    """Return what a verdict does not tell about the paper's value; empty if there is nothing.

    A verdict compares our interval with the claim's region. An interval in the region may still
    exclude the paper's value. And a paper's value may contradict its own claim.
    """
    published = claim.published
    if math.isnan(published):
        return ""
    contained = estimate.low <= published <= estimate.high
    contradicts_claim = not claim.region.contains(published, published)
    if contradicts_claim:
        note = f"the paper's own value, {published:g}, contradicts its claim"
        if contained:
            note += " and lies in our interval"
        return note
    if contained or verdict == DIFFERS:
        return ""
    return f"the interval excludes the paper's value, {published:g}"


def _caveats(estimate: Estimate, claim: Claim, verdict: str) -> Reasons:
    """Return the caveats about a verdict."""
    if not estimate.known or verdict == UNTESTABLE:
        return ()
    scale = estimate.scale
    caveats = []
    if verdict == AGREES:
        caveats.append(lead_caveat(claim, scale.steps))
    if verdict != UNDECIDED:
        caveats.extend(_network_caveats(estimate, claim, verdict))
    if scale.at_edge:
        edges = ", ".join(scale.at_edge)
        caveats.append(f"best learning rate at the edge of the grid: {edges}")
    if scale.at_chance and _compares_networks(claim):
        caveats.append(f"no better than chance: {', '.join(scale.at_chance)}")
    return gather(*caveats)


def _compares_networks(claim: Claim) -> bool:
    """Return whether a claim compares networks with each other, and not each with chance."""
    if claim.comparison is None:
        return False
    return claim_kind(claim.comparison.estimator, claim.region) in COMPARING


def _reversal(verdict: str, at_other_thresholds: Sensitivity) -> str:
    """Return the caveat that another threshold reverses a verdict; empty if none does."""
    reverse = {AGREES: DIFFERS, DIFFERS: AGREES}.get(verdict)
    if reverse is None:
        return ""
    if at_other_thresholds.at_half == reverse:
        return f"{NOT_ROBUST} at half of our threshold, the verdict would be “{reverse}”"
    if at_other_thresholds.at_double == reverse:
        return f"{NOT_ROBUST} at twice our threshold, the verdict would be “{reverse}”"
    return ""


def _network_caveats(estimate: Estimate, claim: Claim, verdict: str) -> Reasons:
    """Return the caveats of the networks on which a verdict rests."""
    inside = verdict == AGREES

    def caveats_of(part: Estimate) -> Reasons:
        return part.caveats.on(inside)

    return find_objections(estimate, claim.region, inside, caveats_of)


def _null_note(estimate: Estimate, verdict: str) -> str:
    """Return how to read a verdict on "no effect", with the smallest detectable effect."""
    error = (estimate.high - estimate.low) / (2 * arm_in_errors(estimate))
    effect = detectable(error, df=estimate.df)
    power = f"smallest effect detectable with 80% power: {effect:.2g}"
    if verdict == AGREES:
        return (
            "claim of no effect: even shuffled data would agree, so judge by the width of the "
            f"interval; {power}"
        )
    return f"claim of no effect; {power}"


def sentences(judged: pd.DataFrame) -> list[str]:
    """Write one sentence per judged claim.

    Parameters
    ----------
    judged
        A `judged_table`.

    Returns
    -------
    list of str
        Markdown, in the order of the rows.
    """
    written = []
    for row in judged.itertuples():
        claim = claims()[row.id]
        known = not math.isnan(row.low)
        verdict = displayed_verdict(row.verdict, claim.denies_effect, row.null_is)
        if row.cause:
            verdict += f": {row.cause}"
        if known:
            result = f"{row.estimate:.3g} [{row.low:.3g}, {row.high:.3g}]"
        else:
            result = row.note or "nothing could be measured"
        condition = f"{claim.quantity}: {result}; true if {claim.region}"
        sentence = f"*{claim.statement}*: **{verdict}** ({condition})."
        if row.caveat:
            sentence += f" Caveat: {row.caveat}."
        if known and row.note:
            sentence += f" Note: {row.note}."
        written.append(sentence)
    return written


def show_claims(artifacts: Artifacts, judged: pd.DataFrame) -> None:
    """Save judged claims for the report, and display one sentence per claim.

    Parameters
    ----------
    artifacts
        The notebook's artifacts.
    judged
        A `judged_table`.
    """
    artifacts.save_claims(judged)
    display(Markdown("\n".join(f"- {sentence}" for sentence in sentences(judged))))
