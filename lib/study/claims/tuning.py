"""Verdicts that would go against a network that could have been tuned better.

A better learning rate or time step, or longer training, can only improve a network. So a verdict
must not go against a network that was not tuned fairly. Which network a verdict goes against
depends on the kind of claim:

===========================  ==============================  ==============================
a claim that ...             "agrees" goes against           "differs" goes against
===========================  ==============================  ==============================
one network leads another    the network behind              the network ahead in the paper
a network learns             no network                      the network
a network fails to learn     the network                     no network
training takes few steps     no network                      the network
networks do equally well     each of them                    each of them
networks have a property     each of them                    each of them
===========================  ==============================  ==============================

A network was not tuned fairly if

- its best learning rate is at the edge of the grid, and the verdict would change if each of the
  next two rates improved the network as much as the last step of the grid did;
- it is at chance at all its learning rates, and these are fewer than three or span less than a
  factor of ten;
- its sequences differ in length from the paper's, but it kept the paper's time step dt;
- it has fewer units than in the paper, relative to the network that it is compared with;
- its error is compared with chance, and was still falling when training stopped.

A claim whose verdict goes against such a network is undecided. If the verdict favors the network,
it stands, and reports print a caveat. So it is with the number of settings that were tried
(`study.claims.caveats`).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from study.claims.claim import Claim, NetworkRef, NetworkSelection
from study.claims.estimates import ByVerdict, Estimate, Reasons, gather
from study.claims.kinds import ClaimKind, claim_kind
from study.claims.networks import Networks
from study.claims.search import gain_of_last_rate, rate_at_edge, rates_tried
from study.claims.traits import TRAITS

FURTHER_RATES = 2
"""Number of steps beyond the edge of the grid whose gain is extrapolated."""
FAIR_RATES = 3
"""Learning rates at which a network must be at chance before that counts as its own failure."""
FAIR_RANGE = 10.0
"""Factor that these rates must span."""
FAIR_UNITS = 1.5
"""Factor by which a ratio of numbers of units may exceed that of the paper's networks."""
SMALL_ERROR = 0.1
"""Share of the error at chance below which an error is small."""


class Losers(NamedTuple):
    """The networks that each verdict on a claim goes against."""

    agrees: tuple[NetworkRef, ...]
    differs: tuple[NetworkRef, ...]


def losers(claim: Claim, pair: tuple[NetworkRef, ...], ahead: tuple[NetworkRef, ...]) -> Losers:
    """Return the networks that each verdict on a claim goes against (table of this module).

    Parameters
    ----------
    claim
        A claim with a comparison.
    pair
        The network that it is about, or the two that it compares.
    ahead
        Those of `pair` that are ahead if the claim is true.

    Returns
    -------
    Losers
    """
    estimator = claim.comparison.estimator
    kind = claim_kind(estimator, claim.region)
    if kind is ClaimKind.LEADS and estimator != "apart":
        behind = tuple(name for name in pair if name not in ahead)
        return Losers(behind or pair, ahead)
    if kind is ClaimKind.LEARNS:
        return Losers((), pair)
    if kind is ClaimKind.FAILS:
        return Losers(pair, ())
    if kind is ClaimKind.COUNTS_STEPS and not claim.region.bounded:
        # More steps are worse for the first network of a pair, and for a single network.
        says_more_steps = math.isinf(claim.region.below)
        slow = pair[:1]
        fast = pair[1:]
        if says_more_steps:
            return Losers(agrees=slow, differs=fast)
        return Losers(agrees=fast, differs=slow)
    return Losers(pair, pair)


def find_untuned(
    networks: Networks,
    claim: Claim,
    pair: tuple[NetworkRef, ...],
    ahead: tuple[NetworkRef, ...],
    estimate: Estimate,
) -> ByVerdict:
    """Return why each verdict on a claim would go against a network that was not tuned fairly.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    claim
        A claim with a comparison.
    pair
        The network that it is about, or the two that it compares.
    ahead
        Those of `pair` that are ahead if the claim is true.
    estimate
        The quantity of `pair`.

    Returns
    -------
    ByVerdict
    """
    against = losers(claim, pair, ahead)
    comparison = claim.comparison

    def reasons(losing: tuple[NetworkRef, ...], holds: Callable[[float, float], bool]) -> Reasons:
        """Return the reasons against a verdict that `holds` for an interval."""
        texts = []
        for name in losing:
            texts.append(_rate_at_edge_matters(networks, claim, pair, name, estimate, holds))
            texts.append(_at_chance_at_few_rates(networks, name))
            texts.append(dt_kept(networks, name, comparison.paper_dt, comparison.paper_length))
            texts.extend(fewer_units(networks, name, pair, comparison.paper_width))
            if comparison.estimator == "share_of_chance":
                texts.append(still_falling(networks, name))
        return gather(*texts)

    return ByVerdict(
        to_agree=reasons(against.agrees, claim.region.contains),
        to_differ=reasons(against.differs, claim.region.excludes),
    )


def _rate_at_edge_matters(
    networks: Networks,
    claim: Claim,
    pair: tuple[NetworkRef, ...],
    name: NetworkRef,
    estimate: Estimate,
    holds: Callable[[float, float], bool],
) -> str:
    """Explain that the best learning rate is at the edge of the grid, and a better one may matter.

    `holds` returns whether the verdict is true of an interval. The text is empty if the verdict
    would also be true of the interval that better rates might give.
    """
    if not networks.learned(name):
        return ""
    edge = rate_at_edge(networks, name)
    if not edge or holds(*_with_better_rate(networks, claim, pair, name, estimate)):
        return ""
    return f"the best learning rate is at the edge of the grid: {edge}"


def _with_better_rate(
    networks: Networks,
    claim: Claim,
    pair: tuple[NetworkRef, ...],
    name: NetworkRef,
    estimate: Estimate,
) -> tuple[float, float]:
    """Return the interval of a quantity if one network had `FURTHER_RATES` better learning rates.

    Each is assumed to bring the gain of the last step of the grid. The interval is infinite unless
    the quantity is a difference of scores or a ratio of errors.
    """
    is_lead = claim.comparison.estimator == "lead"
    is_error_ratio = TRAITS[claim.comparison.estimator].is_error_ratio
    if not is_lead and not is_error_ratio:
        return -math.inf, math.inf
    gain = FURTHER_RATES * gain_of_last_rate(networks, name, logs=is_error_ratio)
    shift = gain
    if name != pair[0]:
        shift = -gain
    if is_lead:
        return estimate.low + shift, estimate.high + shift
    factor = math.exp(-shift)  # a smaller error makes the ratio smaller
    return estimate.low * factor, estimate.high * factor


def few_rates_at_chance(networks: Networks, name: NetworkRef) -> list[float]:
    """Return the learning rates of a network at chance if they are too few to blame the network.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    list of float
        The smallest first. Empty if the network learned, or if it was trained at `FAIR_RATES` or
        more that span a factor of `FAIR_RANGE`.
    """
    rates = rates_tried(networks, name)
    if networks.learned(name):
        return []
    # Rounding must not matter: .003 / .0003 is a factor of ten.
    wide_enough = rates[-1] / rates[0] > 0.99 * FAIR_RANGE
    if len(rates) >= FAIR_RATES and wide_enough:
        return []
    return rates


def _at_chance_at_few_rates(networks: Networks, name: NetworkRef) -> str:
    """Explain that a network is at chance at several learning rates, but too few; empty if not.

    A single rate bars both verdicts (`study.claims.undecided.one_rate_at_chance`).
    """
    rates = few_rates_at_chance(networks, name)
    if len(rates) < 2:
        return ""
    tried = " and ".join(f"{rate:g}" for rate in rates)
    return f"{name} is at chance, and only the learning rates {tried} were tried"


def dt_kept(
    networks: Networks, name: NetworkRef, paper_dt: dict[str, float], paper_length: int | None
) -> str:
    """Explain that a network kept the paper's time step dt on sequences of another length.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.
    paper_dt
        The paper's dt by label of the network.
    paper_length
        Time steps of the paper's sequences; None if the length does not matter.

    Returns
    -------
    str
        Empty if several dt were tried, or if dt times the length is within a factor of two of the
        paper's product.
    """
    label = _label_of(name)
    if paper_length is None or label not in paper_dt:
        return ""
    levels = networks.levels(name)
    if "dt" not in levels or levels["dt"].nunique() != 1:
        return ""
    dt = levels["dt"].iloc[0]
    length = levels["time_steps"].iloc[0]
    if 0.5 <= dt * length / (paper_dt[label] * paper_length) <= 2:
        return ""
    return (
        f"{label} was trained only at dt = {dt:g}, on {length:,} time steps; the paper has "
        f"dt = {paper_dt[label]:g} on {paper_length:,} time steps"
    )


def fewer_units(
    networks: Networks, name: NetworkRef, pair: tuple[NetworkRef, ...], paper_width: dict[str, int]
) -> list[str]:
    """Explain that a network has fewer units than its rival, where the paper has as many.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.
    pair
        It and the network that it is compared with.
    paper_width
        The paper's units per layer, by label of the network.

    Returns
    -------
    list of str
        A reason for each rival; none if the ratio of the rival's units to those of the network is
        at most `FAIR_UNITS` times the paper's, or if the paper's units are not known.
    """
    label = _label_of(name)
    reasons = []
    for rival in pair:
        rival_label = _label_of(rival)
        if rival == name or not {label, rival_label} <= set(paper_width):
            continue
        units = int(networks.runs(name)["width"].iloc[0])
        rival_units = int(networks.runs(rival)["width"].iloc[0])
        paper_ratio = paper_width[rival_label] / paper_width[label]
        if rival_units / units > FAIR_UNITS * paper_ratio:
            reasons.append(
                f"{rival_label} has {rival_units} units and {label} {units}; in the paper they "
                f"have {paper_width[rival_label]} and {paper_width[label]}"
            )
    return reasons


def still_falling(networks: Networks, name: NetworkRef) -> str:
    """Explain that an error would become small if the network were trained for twice as long.

    The progress in the last third of the training is extrapolated. An error is small below
    `SMALL_ERROR` of that at chance.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    str
        The reason; empty if the error is small already, or would not become small.
    """
    runs = networks.runs(name)
    share_of_chance = (runs["score"] / runs["guess"]).mean()
    fall = ((runs["score_at_two_thirds"] - runs["score"]) / runs["guess"]).mean()
    if share_of_chance - 3 * fall < SMALL_ERROR < share_of_chance:
        return f"the error of {name} was still falling when training stopped"
    return ""


def _label_of(name: NetworkRef) -> str:
    if isinstance(name, NetworkSelection):
        return name.label
    return name
