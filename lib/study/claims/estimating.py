"""Estimate the quantity that decides a claim, on the networks of its group."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Literal, NamedTuple

import pandas as pd

from study.claims import time_steps, training_steps
from study.claims.caveats import find_caveats, networks_that_fail
from study.claims.claim import Claim, ClaimError, Comparison, NetworkRef, NetworkSelection
from study.claims.comparisons import apart, lead, ratio
from study.claims.estimates import ByVerdict, Compared, Estimate, Reasons, gather
from study.claims.extremes import largest, smallest
from study.claims.gradient_norms import decay, gain
from study.claims.kinds import ClaimKind, claim_kind
from study.claims.networks import Networks
from study.claims.relative_to_chance import memoryless, over_chance, share_of_chance
from study.claims.scores_over_runs import deviation, trend
from study.claims.short_runs import barred_verdicts, shorter_than_paper
from study.claims.testable import refuse_claim, refuse_without_control
from study.claims.tuning import find_untuned


class Estimator(NamedTuple):
    """How to estimate the quantity of a claim, by the name that the claim gives.

    Attributes
    ----------
    estimate
        Function of `Networks` and one network, or two.
    learners
        Which networks must have learned: the one ``ahead`` by the claim's region, the ``second``,
        the network ``itself``, or ``nobody``; ``control``: the control that the claim names.
    argument
        The field of `Comparison` that is a further argument of the function.
    """

    estimate: Callable[..., Estimate]
    learners: Literal["ahead", "second", "itself", "nobody", "control"]
    argument: str = ""


ESTIMATORS = {
    "lead": Estimator(lead, "ahead"),
    "ratio": Estimator(ratio, "ahead"),
    "apart": Estimator(apart, "ahead"),
    "longer": Estimator(training_steps.longer, "second"),
    "over_chance": Estimator(over_chance, "control"),
    "share_of_chance": Estimator(share_of_chance, "control"),
    "gain": Estimator(gain, "nobody"),
    "decay": Estimator(decay, "nobody"),
    "memoryless": Estimator(memoryless, "nobody"),
    "deviation": Estimator(deviation, "itself", "paper_accuracy"),
    "trend": Estimator(trend, "itself", "against"),
    "steps_needed": Estimator(training_steps.steps_needed, "nobody"),
    "peak": Estimator(time_steps.peak, "itself", "peak_dt"),
    "span": Estimator(time_steps.span, "itself"),
    "decades": Estimator(time_steps.decades, "itself"),
    "power_law": Estimator(time_steps.power_law, "itself"),
}
"""By the name that claims give (`Comparison.estimator`); see also `study.claims.traits.TRAITS`."""


def estimate_claim(networks: Networks, claim: Claim) -> Estimate:
    """Estimate the quantity that decides a claim.

    Parameters
    ----------
    networks
        The networks of the claim's group, in its measure.
    claim
        A claim with a comparison. A claim about several pairs or tasks is true if it is true of
        each of them. There is one exception: the claim that networks are further apart than a
        threshold is true if a single pair is.

    Returns
    -------
    Estimate
        The smallest or the largest of the pairs' quantities, whichever decides the claim.

    Raises
    ------
    ClaimError
        The estimator is unknown, or several pairs are compared for a region with two ends.
    """
    comparison = claim.comparison
    if comparison.estimator not in ESTIMATORS:
        raise ClaimError(
            f"the estimator of {claim.id} is {comparison.estimator!r}; expected one of "
            f"{', '.join(ESTIMATORS)}"
        )
    estimates = []
    tasks = _tasks_of(networks, comparison)
    for task in tasks.names:
        here = networks.on_task(task, comparison.steps)
        pairs = _pairs_on(here, comparison, tasks.by_length)
        failing = _note_failing(here, claim, pairs)
        for pair in pairs:
            estimate = _estimate_pair(here, claim, pair)
            to_differ = gather(estimate.caveats.to_differ, failing)
            caveats = estimate.caveats._replace(to_differ=to_differ)
            about = Compared(" and ".join(map(str, pair)), task)
            estimates.append(replace(estimate, caveats=caveats, about=about))
    takes_largest = comparison.estimator == "apart" or math.isinf(claim.region.above)
    if len(estimates) > 1 and not takes_largest and claim.region.bounded:
        raise ClaimError(
            f"{claim.id} compares several pairs, but its region has two ends; "
            "write a claim for each pair"
        )
    if takes_largest:
        return largest(estimates)
    return smallest(estimates)


def _estimate_pair(networks: Networks, claim: Claim, pair: tuple[NetworkRef, ...]) -> Estimate:
    """Estimate the quantity for one network or a pair, with the objections to each verdict."""
    comparison = claim.comparison
    estimator = ESTIMATORS[comparison.estimator]
    if estimator.learners == "control":
        refusal = refuse_without_control(networks, comparison)
        if refusal:
            return refusal
    refusal = refuse_claim(networks, pair, _learners(estimator, pair, claim))
    if refusal:
        return refusal
    arguments = []
    if estimator.argument:
        arguments = [getattr(comparison, estimator.argument)]
    estimate = estimator.estimate(networks, *pair, *arguments)
    if not estimate.known:
        return estimate
    ahead = _ahead(claim, pair)
    estimate = replace(
        estimate,
        untuned=find_untuned(networks, claim, pair, ahead, estimate),
        caveats=find_caveats(networks, claim, pair, ahead, estimate),
    )
    return _mark_too_short(estimate, shorter_than_paper(networks, *pair), claim)


def _note_failing(
    networks: Networks, claim: Claim, pairs: list[tuple[NetworkSelection, ...]]
) -> Reasons:
    """Name the networks that fail, if a claim says that several fail and only some of them do."""
    kind = claim_kind(claim.comparison.estimator, claim.region)
    if kind is not ClaimKind.FAILS or len(pairs) < 2:
        return ()
    return networks_that_fail(networks, [name for (name,) in pairs])


def _mark_too_short(estimate: Estimate, short: str, claim: Claim) -> Estimate:
    """Add the reason `short` to an estimate and its parts, for the verdicts that short runs bar."""
    barred = barred_verdicts(claim.comparison.estimator, claim.region, estimate)
    too_short = ByVerdict()
    if barred.agrees:
        too_short = too_short._replace(to_agree=gather(short))
    if barred.differs:
        too_short = too_short._replace(to_differ=gather(short))
    parts = tuple(replace(part, too_short=too_short) for part in estimate.parts)
    return replace(estimate, parts=parts, too_short=too_short)


def _learners(
    estimator: Estimator, pair: tuple[NetworkRef, ...], claim: Claim
) -> tuple[NetworkRef, ...]:
    """Return the networks that must have learned for the claim to be tested."""
    if estimator.learners == "second":
        return pair[1:]
    if estimator.learners == "itself":
        return pair
    if estimator.learners == "ahead":
        return _ahead(claim, pair)
    return ()


def _ahead(claim: Claim, pair: tuple[NetworkRef, ...]) -> tuple[NetworkRef, ...]:
    """Return the network that is ahead if the claim is true; both if they are then equal."""
    region = claim.region
    if claim.comparison.estimator == "apart":
        if math.isinf(region.above):
            return pair
        return pair[:1]
    if region.bounded:
        return pair
    # The first network is ahead if its lead is large, or if its ratio of errors is small.
    says_large = math.isinf(region.below)
    large_is_better = claim.comparison.estimator == "lead"
    if says_large == large_is_better:
        return pair[:1]
    return pair[1:]


class _Tasks(NamedTuple):
    """The tasks of a claim."""

    names: list[str]
    by_length: dict[str, str]
    """Names of the tasks with the ``longest`` and the ``shortest`` sequences, if the tasks were
    chosen by a condition; empty if the claim names its tasks.
    """


def _tasks_of(networks: Networks, comparison: Comparison) -> _Tasks:
    """Return the tasks on which a claim compares networks."""
    if not comparison.tasks_where:
        return _Tasks(list(comparison.tasks), {})
    rows = comparison.tasks_where.select(networks.all_rows)
    rows = rows.sort_values("time_steps", kind="stable")
    trained = list(dict.fromkeys(rows["task"]))
    if not trained:
        # A task on which no network was trained, so that the claim is refused with a reason.
        trained = ["a task of the paper's length"]
    by_length = {"longest": trained[-1], "shortest": trained[0]}
    return _Tasks(_compared_tasks(rows, trained, comparison), by_length)


def _pairs_on(
    networks: Networks, comparison: Comparison, by_length: dict[str, str]
) -> list[tuple[NetworkSelection, ...]]:
    """Return the networks of a claim on one task, alone or as pairs to compare."""

    def on_task(name: NetworkSelection) -> NetworkSelection:
        if not name.length:
            return name
        return name.model_copy(update={"task": by_length[name.length], "length": ""})

    if comparison.pairs:
        return [(on_task(first), on_task(second)) for first, second in comparison.pairs]
    firsts = [on_task(name) for name in comparison.networks]
    if comparison.others == "all":
        labels = {name.label for name in firsts}
        others = [
            NetworkSelection(label=label) for label in networks.labels() if label not in labels
        ]
    else:
        others = [on_task(name) for name in comparison.others]
    if not others:
        return [(first,) for first in firsts]
    return list(product(firsts, others))


def _compared_tasks(rows: pd.DataFrame, trained: list[str], comparison: Comparison) -> list[str]:
    """Return the tasks on which all sides of a claim were trained; the first task if none is.

    A side is a list of networks: those that the claim is about, those that they are compared with,
    and the control.
    """
    sides = [comparison.networks]
    if comparison.control and comparison.control != "any":
        sides.append((NetworkSelection(label=comparison.control),))
    if comparison.others and comparison.others != "all":
        sides.append(comparison.others)
    labels_of_sides = []
    for side in sides:
        if any(name.length for name in side):  # such a network has a task of its own
            return trained[:1]
        labels_of_sides.append({name.label for name in side})
    compared = []
    for task in trained:
        labels = set(rows.loc[rows["task"] == task, "label"])
        if all(labels & side for side in labels_of_sides):
            compared.append(task)
    return compared or trained[:1]
