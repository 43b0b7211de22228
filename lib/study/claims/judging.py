"""Judge every claim of an experiment: a row of a table, and a sentence."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from functools import cache, partial
from itertools import product
from typing import Literal, NamedTuple

import pandas as pd
import xarray as xr
from IPython.display import Markdown, display

from study.claims import measurements, time_steps
from study.claims.claim import (
    NOT_PRINTED,
    Claim,
    ClaimError,
    Comparison,
    NetworkName,
    Region,
    claims,
)
from study.claims.comparisons import apart, lead, longer, ratio
from study.claims.correction import p_value
from study.claims.estimates import Cause, Estimate, Z, largest, smallest, unable
from study.claims.networks import Networks
from study.claims.verdict import (
    AGREES,
    DIFFERS,
    decide,
    displayed_verdict,
    sensitivity,
    verdict_on,
)
from study.results.artefacts import Artefacts
from study.results.networks import beside_published, outcomes
from study.stats.power import detectable

TOYS = ("smoke", "quick", "simulated")
"""Profiles whose results judge nothing: they show that the pipeline runs."""


class Verb(NamedTuple):
    """A quantity that a claim can name.

    Attributes
    ----------
    estimate
        Function of `Networks` and one network, or two.
    learners
        Who must have learned: the network ``ahead`` by the claim's region, the ``second``,
        the network ``itself``, or ``nobody``; ``control``: whoever the claim names as its control.
    argument
        The field of `Comparison` that the function gets beside the networks.
    """

    estimate: Callable[..., Estimate]
    learners: Literal["ahead", "second", "itself", "nobody", "control"]
    argument: str = ""


VERBS = {
    "lead": Verb(lead, "ahead"),
    "ratio": Verb(ratio, "ahead"),
    "apart": Verb(apart, "ahead"),
    "longer": Verb(longer, "second"),
    "over_chance": Verb(measurements.over_chance, "control"),
    "share_of_chance": Verb(measurements.share_of_chance, "control"),
    "gain": Verb(measurements.gain, "nobody"),
    "decay": Verb(measurements.decay, "nobody"),
    "memoryless": Verb(measurements.memoryless, "nobody"),
    "deviation": Verb(measurements.deviation, "itself", "paper_accuracy"),
    "trend": Verb(measurements.trend, "itself", "against"),
    "steps_needed": Verb(measurements.steps_needed, "nobody"),
    "peak": Verb(time_steps.peak, "itself", "target"),
    "span": Verb(time_steps.span, "itself"),
    "decades": Verb(time_steps.decades, "itself"),
    "power_law": Verb(time_steps.power_law, "itself"),
}
"""The quantities that claims name."""

Name = NetworkName | str


def estimate_claim(networks: Networks, claim: Claim) -> Estimate:
    """Estimate the quantity that decides a claim.

    Parameters
    ----------
    networks
        The networks of the claim's group, in its measure.
    claim
        One with a comparison. With several pairs or tasks it holds if it holds for all of them;
        a claim that networks are further apart than a threshold, if it holds for one.

    Returns
    -------
    Estimate
        The smallest or the largest of the pairs' quantities, whichever decides.

    Raises
    ------
    ClaimError
        The verb is unknown, or several pairs are asked for a region with two ends.
    """
    comparison = claim.comparison
    if comparison.verb not in VERBS:
        raise ClaimError(
            f"the verb of {claim.id} is {comparison.verb!r}; expected one of {', '.join(VERBS)}"
        )
    estimates = []
    tasks, pairs_on = _tasks_and_pairs(networks, comparison)
    for task in tasks:
        here = networks.at(task, comparison.steps)
        for pair in pairs_on(here):
            estimates.append(_estimate_pair(here, claim, pair))
    takes_largest = comparison.verb == "apart" or math.isinf(claim.region.above)
    if len(estimates) > 1 and not takes_largest and claim.region.bounded:
        raise ClaimError(
            f"{claim.id} asks several pairs for a region with two ends; write a claim for each"
        )
    return largest(estimates) if takes_largest else smallest(estimates)


def _estimate_pair(networks: Networks, claim: Claim, pair: tuple[Name, ...]) -> Estimate:
    """Estimate the quantity for one network, or for two, with what stands against a verdict."""
    comparison = claim.comparison
    verb = VERBS[comparison.verb]
    refused = _without_control(networks, comparison) if verb.learners == "control" else None
    refused = refused or networks.refusal(pair, _learners(verb, pair, claim))
    if refused:
        return refused
    arguments = [getattr(comparison, verb.argument)] if verb.argument else []
    estimate = verb.estimate(networks, *pair, *arguments)
    short = networks.shorter_than_paper(*pair)
    guarded = guarded_verdicts(comparison.verb, claim.region, estimate)
    reasons = {
        "too_short_to_agree": short if AGREES in guarded else "",
        "too_short_to_differ": short if DIFFERS in guarded else "",
    }
    parts = tuple(replace(part, **reasons) for part in estimate.parts)
    return replace(estimate, parts=parts, **reasons)


def _without_control(networks: Networks, comparison: Comparison) -> Estimate | None:
    """Return that the control did not learn, so that a network at chance says nothing."""
    if comparison.control == "any":
        if networks.at_chance() == networks.labels():
            return unable(f"no network learns {networks.task}", Cause.PREMISE)
        return None
    if comparison.control:
        return networks.refusal([comparison.control], [comparison.control])
    return None


def _learners(verb: Verb, pair: tuple[Name, ...], claim: Claim) -> tuple[Name, ...]:
    """Return who must have learned for the claim to be tested."""
    if verb.learners == "second":
        return pair[1:]
    if verb.learners == "itself":
        return pair
    if verb.learners == "ahead":
        return _ahead(claim, pair)
    return ()


def _ahead(claim: Claim, pair: tuple[Name, ...]) -> tuple[Name, ...]:
    """Return who is ahead if the claim is true; both if it says that they are alike."""
    region = claim.region
    if claim.comparison.verb == "apart":
        return pair if math.isinf(region.above) else pair[:1]
    if region.bounded:
        return pair
    # A large lead is the first network's, and so is a small ratio of errors.
    first_is_ahead = math.isinf(region.below) == (claim.comparison.verb == "lead")
    return pair[:1] if first_is_ahead else pair[1:]


def guarded_verdicts(verb: str, region: Region, estimate: Estimate) -> set[str]:
    """Return the verdicts that a run shorter than the paper's cannot support.

    A network that has not learned yet proves nothing, so "differs" from a claim that it learns or
    leads falls, and so does "agrees" with a claim that it fails or does not differ.

    Parameters
    ----------
    verb
        The claim's verb.
    region
        Where the quantity lies if the claim is true.
    estimate
        The quantity; what is open at one end is already known to be incomplete.

    Returns
    -------
    set of str
        Some of "agrees" and "differs".
    """
    if verb == "longer":
        return set()  # a run that did not get there leaves the interval open
    if verb == "steps_needed":
        return {DIFFERS} if math.isinf(estimate.high) else set()
    if verb == "over_chance":
        return {DIFFERS} if math.isinf(region.below) else {AGREES}
    if verb == "share_of_chance":
        return {DIFFERS} if math.isinf(region.above) else {AGREES}
    if verb == "memoryless":
        return {DIFFERS}
    return {AGREES, DIFFERS}


def _tasks_and_pairs(networks: Networks, comparison: Comparison):
    """Return the tasks of a claim, and a function that returns the pairs on one of them."""
    tasks = list(comparison.tasks)
    names: dict[str, str] = {}
    if comparison.tasks_where:
        rows = comparison.tasks_where.select(networks.all_rows)
        rows = rows.sort_values("time_steps", kind="stable")
        trained = list(dict.fromkeys(rows["task"]))
        if not trained:
            trained = ["a task of the paper's length"]
        names = {"longest": trained[-1], "shortest": trained[0]}
        tasks = _compared_tasks(rows, trained, comparison)

    def placed(name: NetworkName) -> NetworkName:
        if not name.length:
            return name
        return name.model_copy(update={"task": names[name.length], "length": ""})

    def pairs_on(here: Networks) -> list[tuple[Name, ...]]:
        if comparison.pairs:
            return [(placed(first), placed(second)) for first, second in comparison.pairs]
        firsts = [placed(name) for name in comparison.networks]
        if comparison.others == "all":
            labels = {name.label for name in firsts}
            others = [NetworkName(label=label) for label in here.labels() if label not in labels]
        else:
            others = [placed(name) for name in comparison.others]
        if not others:
            return [(first,) for first in firsts]
        return list(product(firsts, others))

    return tasks, pairs_on


def _compared_tasks(rows: pd.DataFrame, trained: list[str], comparison: Comparison) -> list[str]:
    """Return the tasks on which both sides of a claim were trained; else the first."""
    sides = [comparison.networks]
    if comparison.control and comparison.control != "any":
        sides.append((NetworkName(label=comparison.control),))
    if comparison.others and comparison.others != "all":
        sides.append(comparison.others)
    if any(name.length for side in sides for name in side):
        return trained[:1]
    compared = []
    for task in trained:
        labels = set(rows.loc[rows["task"] == task, "label"])
        if all(labels & {name.label for name in side} for side in sides):
            compared.append(task)
    return compared or trained[:1]


# tables

Judge = Callable[[object], Estimate]


class Judges(dict[str, Judge]):
    """The judges of one experiment, by claim, in the order in which they are written."""

    def __call__(self, evidence: object) -> pd.DataFrame:
        """Judge every claim of the experiment.

        Parameters
        ----------
        evidence
            A dataset of results, or whatever an analysis made of it.

        Returns
        -------
        pandas.DataFrame
            `judged_table`.
        """
        return judged_table(evidence, self)


def judge_group(ds: xr.Dataset, group: str) -> pd.DataFrame:
    """Judge every claim on the networks of a group.

    Parameters
    ----------
    ds
        The group's results.
    group
        Its name, as in ``params.yaml``.

    Returns
    -------
    pandas.DataFrame
        `judged_table`, in the order of the claims.

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
    def in_measure(measure: str) -> Networks:
        return Networks(ds, measure=measure)

    def judge(claim: Claim, _: object) -> Estimate:
        return estimate_claim(in_measure(claim.comparison.measure), claim)

    return judged_table(ds, {claim.id: partial(judge, claim) for claim in chosen})


def judged_table(evidence: object, judges: Mapping[str, Judge]) -> pd.DataFrame:
    """Judge some claims.

    Parameters
    ----------
    evidence
        A dataset of results, or an object that was made of one and has it as ``ds``; its attribute
        ``profile`` says whether the results judge anything.
    judges
        Functions of the evidence that return an `Estimate`, by claim.

    Returns
    -------
    pandas.DataFrame
        One `judged_row` per claim.
    """
    attrs = getattr(getattr(evidence, "ds", evidence), "attrs", {})
    profile = attrs.get("profile")
    rows = []
    for name, judge in judges.items():
        if profile == "simulated":
            reason = "drawn from the published tables; no network was trained"
            estimate = unable(f"profile {profile}: {reason}", Cause.NO_DATA)
        elif profile in TOYS:
            reason = "these runs show that the pipeline works; they are too small to judge a claim"
            estimate = unable(f"profile {profile}: {reason}", Cause.TOO_SMALL)
        else:
            estimate = judge(evidence)
        rows.append(judged_row(name, estimate))
    return pd.DataFrame(rows)


def judged_row(name: str, estimate: Estimate) -> dict[str, object]:
    """Return what an estimate says of a claim.

    Parameters
    ----------
    name
        Id of the claim.
    estimate
        The quantity that decides it.

    Returns
    -------
    dict
        ``id``, ``verdict``, ``cause`` (why it is not testable, else empty), ``estimate``, ``low``,
        ``high``, ``power``, ``p``, ``at_half`` and ``at_double`` (the verdicts at half and at
        twice our threshold; empty if the threshold is the paper's), ``null_is`` (whether the value
        of no effect is ``inside`` the interval or ``outside``; empty if there is none),
        ``paper_steps`` (optimizer steps in the paper; empty if it does not print them), the fields
        of `study.claims.estimates.Scale`, and ``note``.
    """
    claim = claims()[name]
    verdict = verdict_on(estimate, claim)
    other = sensitivity(estimate, claim)
    notes = [note for note in (estimate.note, verdict.reason) if note]
    if claim.no_effect and estimate.known and verdict.verdict != DIFFERS:
        notes.append(_null_note(estimate, verdict.verdict))
    null_is = ""
    if estimate.known and not math.isnan(claim.null):
        null_is = "inside" if estimate.low <= claim.null <= estimate.high else "outside"
    printed = claim.comparison.paper_steps if claim.comparison else NOT_PRINTED
    steps = None if printed == NOT_PRINTED else printed
    return {
        "id": name,
        "verdict": verdict.verdict,
        "cause": verdict.cause.value if verdict.cause else "",
        "estimate": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "power": verdict.power,
        "p": p_value(estimate, claim.region),
        "at_half": other.at_half,
        "at_double": other.at_double,
        "null_is": null_is,
        "paper_steps": steps,
        **asdict(estimate.scale),
        "note": "; ".join(notes),
    }


def _null_note(estimate: Estimate, verdict: str) -> str:
    """Return how a claim of no effect is to be read, and what effect would have been detected."""
    effect = detectable((estimate.high - estimate.low) / (2 * Z))
    power = f"detectable at 80 % power: an effect of {effect:.2g}"
    if verdict == AGREES:
        return f"null claim (shuffled data would agree too): read the interval; {power}"
    return f"null claim; {power}"


def sentences(judged: pd.DataFrame) -> list[str]:
    """Return one sentence in Markdown per row of a `judged_table`."""
    written = []
    for row in judged.itertuples():
        claim = claims()[row.id]
        known = not math.isnan(row.low)
        verdict = displayed_verdict(row.verdict, claim.no_effect, row.null_is)
        if row.cause:
            verdict += f": {row.cause}"
        result = row.note or "nothing could be measured"
        if known:
            result = f"{row.estimate:.3g} [{row.low:.3g}, {row.high:.3g}]"
        sentence = (
            f"*{claim.said}*: **{verdict}** ({claim.quantity}: {result}; true if {claim.region})."
        )
        if known and row.note:
            sentence += f" Note: {row.note}."
        written.append(sentence)
    return written


def show_claims(artefacts: Artefacts, judged: pd.DataFrame) -> None:
    """Keep judged claims for the report, and display one sentence each.

    Parameters
    ----------
    artefacts
        The notebook's artefacts.
    judged
        A `judged_table`.
    """
    artefacts.save_claims(judged)
    display(Markdown("\n".join(f"- {sentence}" for sentence in sentences(judged))))


# beside tables of results


def leads_over(networks: Networks, name: Name, others: Iterable[Name]) -> pd.DataFrame:
    """Compare one network with others, by the rule of claims, for the claim that it leads.

    Parameters
    ----------
    networks
        The networks on one task.
    name
        The network in question.
    others
        Those it is compared with.

    Returns
    -------
    pandas.DataFrame
        One row per other network: ``rival``; ``lead``, ``low`` and ``high``, by how much `name`
        scores better, with a 95 % interval over runs and test sequences (``nan`` if it is
        unknown); ``standing``: ahead, behind or undecided; ``note``: what speaks against a
        verdict, or why there is no lead.
    """
    rows = []
    for rival in others:
        estimate = networks.refusal((name, rival), (name,)) or lead(networks, name, rival)
        verdict = decide(estimate, Region(above=0.0)).verdict
        standing = {AGREES: "ahead", DIFFERS: "behind"}.get(verdict, "undecided")
        note = estimate.note if not estimate.known else estimate.reservation
        interval = (estimate.value, estimate.low, estimate.high)
        rows.append((str(rival), *interval, standing, note))
    return pd.DataFrame(rows, columns=["rival", "lead", "low", "high", "standing", "note"])


def standing_among(leads: pd.DataFrame) -> str:
    """Return a table of `leads_over` as a phrase, such as "ahead of LSTM; behind GRU".

    Parameters
    ----------
    leads
        `leads_over`.

    Returns
    -------
    str
        The rivals by standing; empty if there are none.
    """
    phrases = {"ahead": "ahead of", "behind": "behind", "undecided": "undecided against"}
    parts = []
    for standing, phrase in phrases.items():
        rivals = leads.loc[leads["standing"] == standing, "rival"]
        if len(rivals):
            parts.append(f"{phrase} {', '.join(rivals)}")
    return "; ".join(parts)


def beside_learned(ds: xr.Dataset, published: pd.DataFrame) -> pd.DataFrame:
    """Put our networks beside a published table, with whether they learned.

    Parameters
    ----------
    ds
        Results of a group.
    published
        A table of `data/published`.

    Returns
    -------
    pandas.DataFrame
        `study.results.networks.beside_published` of the published networks alone, with
        ``learned``: whether ours does better than chance; None if it was not trained.
    """
    table = beside_published(outcomes(ds), published)
    table = table[table["published"].notna()].reset_index(drop=True)
    networks = Networks(ds)
    learned = []
    for task, network in zip(table["task"], table["network"], strict=True):
        here = networks.at(task)
        learned.append(here.learned(network) if network in here.labels() else None)
    return table.assign(learned=learned)
