"""Verdicts that would go against a network that could have been tuned better.

A better learning rate or time step makes a network better, never worse. So a verdict must not go
against a network that was not given its chance. The rule, by what a claim says:

===========================  ==============================  ==============================
a claim that ...             "agrees" goes against           "differs" goes against
===========================  ==============================  ==============================
one network leads another    the network behind              the network ahead in the paper
a network learns             nobody                          the network
a network fails to learn     the network                     nobody
training takes few steps     nobody                          the network
networks do equally well     each of them                    each of them
networks have a property     each of them                    each of them
===========================  ==============================  ==============================

A network was not given its chance if

- its best learning rate is an end of those tried, and the verdict would fall if the next two rates
  gained as much as the last one did;
- it is at chance at the rates tried, and these are fewer than three or within a factor of ten;
- its sequences have another length than the paper's, and it kept the paper's time step dt.

Such a verdict becomes undecided. A flaw of the other network stays a reservation. How many settings
were tried does not bar a verdict either (`study.claims.caveats`).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from study.claims.claim import Claim, NetworkName, NetworkSelection
from study.claims.estimates import Estimate, join_reasons
from study.claims.networks import Networks
from study.claims.search import gain_of_last_rate, rate_at_edge, rates_tried
from study.claims.short_runs import ClaimKind, claim_kind

FURTHER_RATES = 2
"""Learning rates beyond the end of those tried, each as far away as the last one from its
neighbor."""
FAIR_RATES = 3
"""Learning rates at which a network must be at chance before that counts as its own failure."""
FAIR_RANGE = 10.0
"""The factor that these rates must cover."""
_ERROR_RATIOS = ("ratio", "share_of_chance", "memoryless")
"""Verbs whose quantity is a ratio of errors, the first network's over another one."""


class Losers(NamedTuple):
    """The networks that each verdict on a claim goes against."""

    agrees: tuple[NetworkName, ...]
    differs: tuple[NetworkName, ...]


class Untuned(NamedTuple):
    """Why each verdict must not rest on an estimate; empty if it may."""

    to_agree: str
    to_differ: str


def losers(claim: Claim, pair: tuple[NetworkName, ...], ahead: tuple[NetworkName, ...]) -> Losers:
    """Return the networks that each verdict on a claim goes against, by this module's table.

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
    verb = claim.comparison.verb
    kind = claim_kind(verb, claim.region)
    if kind is ClaimKind.LEADS and verb != "apart":
        behind = tuple(name for name in pair if name not in ahead)
        return Losers(behind or pair, ahead)
    if kind is ClaimKind.LEARNS:
        return Losers((), pair)
    if kind is ClaimKind.FAILS:
        return Losers(pair, ())
    if kind is ClaimKind.COUNTS_STEPS and not claim.region.bounded:
        says_many = math.isinf(claim.region.below)
        if verb == "longer":
            first, second = pair
            if says_many:
                return Losers((first,), (second,))
            return Losers((second,), (first,))
        if says_many:
            return Losers(pair, ())
        return Losers((), pair)
    return Losers(pair, pair)


def find_untuned(
    networks: Networks,
    claim: Claim,
    pair: tuple[NetworkName, ...],
    ahead: tuple[NetworkName, ...],
    estimate: Estimate,
) -> Untuned:
    """Return why each verdict on a claim would go against a network without its chance.

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
    Untuned
    """
    against = losers(claim, pair, ahead)
    region = claim.region

    def flaws(name: NetworkName, survives: Callable[[float, float], bool]) -> str:
        comparison = claim.comparison
        return join_reasons(
            _rate_flaw(networks, claim, pair, name, estimate, survives),
            _at_chance_at_few_rates(networks, name),
            dt_kept(networks, name, comparison.paper_dt, comparison.paper_length),
        )

    return Untuned(
        join_reasons(*(flaws(name, region.contains) for name in against.agrees)),
        join_reasons(*(flaws(name, region.excludes) for name in against.differs)),
    )


def _rate_flaw(
    networks: Networks,
    claim: Claim,
    pair: tuple[NetworkName, ...],
    name: NetworkName,
    estimate: Estimate,
    survives: Callable[[float, float], bool],
) -> str:
    """Explain that a learning rate is at an end of those tried, and a better one could matter.

    `survives` returns whether the verdict holds for an interval. Empty if the verdict survives the
    gain that further rates could bring.
    """
    if not networks.learned(name):
        return ""
    edge = rate_at_edge(networks, name)
    if not edge or survives(*_with_better_rate(networks, claim, pair, name, estimate)):
        return ""
    return f"the best learning rate is at the end of those tried: {edge}"


def _with_better_rate(
    networks: Networks,
    claim: Claim,
    pair: tuple[NetworkName, ...],
    name: NetworkName,
    estimate: Estimate,
) -> tuple[float, float]:
    """Return the interval of a quantity if one network gained as much again, twice.

    Other quantities than differences of scores and ratios of errors could take any value.
    """
    verb = claim.comparison.verb
    if verb != "lead" and verb not in _ERROR_RATIOS:
        return -math.inf, math.inf
    gain = FURTHER_RATES * gain_of_last_rate(networks, name, logs=verb in _ERROR_RATIOS)
    shift = gain
    if name != pair[0]:
        shift = -gain
    if verb == "lead":
        return estimate.low + shift, estimate.high + shift
    factor = math.exp(-shift)  # a smaller error makes the ratio smaller
    return estimate.low * factor, estimate.high * factor


def few_rates_at_chance(networks: Networks, name: NetworkName) -> list[float]:
    """Return the learning rates of a network at chance that are too few to blame the network.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    list of float
        Fewer than `FAIR_RATES`, or within a factor of `FAIR_RANGE`, smallest first; empty if the
        network learned, or if enough rates were tried.
    """
    rates = rates_tried(networks, name)
    if networks.learned(name):
        return []
    # Rates are printed with few digits: .003 / .0003 is a factor of ten.
    if len(rates) >= FAIR_RATES and rates[-1] / rates[0] > 0.99 * FAIR_RANGE:
        return []
    return rates


def _at_chance_at_few_rates(networks: Networks, name: NetworkName) -> str:
    """Explain that a network is at chance at several learning rates, but too few; empty if not.

    A single rate is a reservation about both networks, `undecided.one_rate_at_chance`.
    """
    rates = few_rates_at_chance(networks, name)
    if len(rates) < 2:
        return ""
    tried = " and ".join(f"{rate:g}" for rate in rates)
    return f"{name} is at chance, and only the learning rates {tried} were tried"


def dt_kept(
    networks: Networks, name: NetworkName, paper_dt: dict[str, float], paper_length: int | None
) -> str:
    """Explain that a network kept the paper's time step on sequences of another length.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.
    paper_dt
        The paper's dt by label of the network.
    paper_length
        Time steps of the paper's sequences; None if they do not matter.

    Returns
    -------
    str
        Empty if several dt were tried, or if the length of the sequence times dt is within a
        factor of two of the paper's.
    """
    label = name
    if isinstance(name, NetworkSelection):
        label = name.label
    if paper_length is None or label not in paper_dt:
        return ""
    levels = networks.levels(name)
    if "dt" not in levels or levels["dt"].nunique() != 1:
        return ""
    dt = levels["dt"].iloc[0]
    ours = dt * levels["time_steps"].iloc[0]
    if 0.5 <= ours / (paper_dt[label] * paper_length) <= 2:
        return ""
    return (
        f"{label} was trained at dt = {dt:g} alone on {levels['time_steps'].iloc[0]:,} time steps, "
        f"where the paper has dt = {paper_dt[label]:g} on {paper_length:,}"
    )
