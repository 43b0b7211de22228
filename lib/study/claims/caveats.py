"""Caveats: what a reader must know before quoting a verdict on networks that stands.

A reservation bars a verdict (`study.claims.undecided`), a caveat does not. A verdict has one if

- it goes against a network that was chosen among fewer settings than the one it is compared with,
  or against networks that were each trained at one setting;
- an error counts as close to zero, but training was stopped at an error of that size;
- images were compressed, so that their pixels differ from the paper's;
- a claim says that several networks fail, and only some of them learn.
"""

import json
from typing import NamedTuple

from study.claims.claim import Claim, NetworkName
from study.claims.estimates import join_reasons
from study.claims.networks import Networks
from study.claims.search import rates_tried, settings_tried
from study.claims.short_runs import ClaimKind, claim_kind
from study.claims.tuning import losers
from study.results.data_used import COMPRESSED
from study.results.runs import first_records
from study.results.schema import COMPLETED

TUNED_MORE = "was chosen among"
"""Words of the caveat that one network was tuned over more settings than the other."""
TRIED_ONCE = "trained at one setting"
"""Words of the caveat that no network of a claim was tuned."""


class Caveats(NamedTuple):
    """What a reader must know before quoting each verdict; empty if nothing."""

    to_agree: str
    to_differ: str


def find_caveats(
    networks: Networks, claim: Claim, pair: tuple[NetworkName, ...], ahead: tuple[NetworkName, ...]
) -> Caveats:
    """Return what a reader must know before quoting each verdict on a claim.

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

    Returns
    -------
    Caveats
    """
    unequal = find_unequal(networks, claim, pair, ahead)
    to_agree = [unequal.to_agree]
    if claim_kind(claim.comparison.verb, claim.region) is ClaimKind.LEARNS:
        to_agree.extend(stopped_early(networks, name) for name in pair)
    compressed = compressed_data(networks, *pair)
    return Caveats(
        join_reasons(*to_agree, compressed),
        join_reasons(unequal.to_differ, compressed),
    )


def find_unequal(
    networks: Networks, claim: Claim, pair: tuple[NetworkName, ...], ahead: tuple[NetworkName, ...]
) -> Caveats:
    """Return which verdicts on a claim go against a network that was tuned less, or not at all.

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

    Returns
    -------
    Caveats
        Numbers of settings in words; empty if a verdict goes against a network that was chosen
        among at least as many settings as the other, unless each was trained at a single one.
    """
    against = losers(claim, pair, ahead)
    counts = {name: settings_tried(networks, name) for name in pair}
    less, *_, more = sorted((*pair, *pair), key=counts.__getitem__)
    if counts[more] == 1:
        words = f"{pair[0]} was {TRIED_ONCE}"
        if len(pair) > 1:
            words = f"{pair[0]} and {pair[1]} were each {TRIED_ONCE}"
        return Caveats(words if against.agrees else "", words if against.differs else "")
    if counts[less] == counts[more]:
        return Caveats("", "")
    words = f"{more} {TUNED_MORE} {counts[more]} settings, {less} among {counts[less]}"
    if counts[less] == 1:
        words = f"{more} {TUNED_MORE} {counts[more]} settings, {less} had one"
    return Caveats(
        words if less in against.agrees else "",
        words if less in against.differs else "",
    )


def stopped_early(networks: Networks, name: NetworkName) -> str:
    """Explain that runs of a network were stopped at the error that the design asks for.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    str
        Empty if no run was stopped.
    """
    settings = json.loads(networks.ds.attrs.get("settings", "{}"))
    goal = settings.get("stop_below", 0.0)
    if not goal:
        return ""
    rows = networks.runs(name)
    ds = networks.ds.sel(run=rows["run"].unique())
    recorded = first_records(ds, ds.variables["records"])
    losses = ds.variables["validation_loss"].where(recorded)
    reached = (losses < goal).any("record") & (ds.variables["status"] == COMPLETED)
    count = int(reached.sum())
    if not count:
        return ""
    return (
        f"training ends at a validation error below {goal:g}, which {count} of {len(rows)} runs of "
        f"{name} reached: their final errors are that of this rule, and how far they would fall is "
        "not measured"
    )


def compressed_data(networks: Networks, *names: NetworkName) -> str:
    """Explain that networks read images that were compressed again.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    names
        Some of them.

    Returns
    -------
    str
        Empty if they did not.
    """
    texts: dict[str, None] = {}
    for name in names:
        texts.update(dict.fromkeys(networks.runs(name)["substitute"]))
    return join_reasons(*(f"the data are {text}" for text in texts if COMPRESSED in text))


def runs_at_chance(networks: Networks, name: NetworkName) -> str:
    """Count the runs of a network that stay at chance, at all its learning rates.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        A network that was trained.

    Returns
    -------
    str
        Such as "15 of 15 runs of RNN on T=100, at 3 learning rates, stay at chance".
    """
    rows = networks.at_all_rates(name)
    task = rows["task"].iloc[0]
    count = int((~networks.runs_learned(rows)).sum())
    rates = len(rates_tried(networks, name))
    searched = f", at {rates} learning rates,"
    if rates == 1:
        searched = ""
    return f"{count} of {len(rows)} runs of {name} on {task}{searched} stay at chance"


def networks_that_fail(networks: Networks, names: list[NetworkName]) -> str:
    """Name the networks that stay at chance although others of the claim learn.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    names
        The networks that a claim says to fail.

    Returns
    -------
    str
        With their runs; empty if all networks learn, or none.
    """
    trained = [name for name in names if not networks.runs(name).empty]
    failing = [name for name in trained if not networks.learned(name)]
    if len(failing) == len(trained):
        return ""
    return join_reasons(*(runs_at_chance(networks, name) for name in failing))
