"""Columns for tables of networks: who leads, and who learned."""

from collections.abc import Iterable

import pandas as pd
import xarray as xr

from study.claims.claim import NetworkRef
from study.claims.comparisons import lead
from study.claims.estimates import write_reasons
from study.claims.networks import Networks
from study.claims.region import Region
from study.claims.testable import refuse_claim
from study.claims.verdict import (
    AGREES,
    DIFFERS,
    decide,
)
from study.results.networks import compare_with_published, outcomes


def leads_over(networks: Networks, name: NetworkRef, others: Iterable[NetworkRef]) -> pd.DataFrame:
    """Compare one network with others, by the rule that judges claims that a network leads.

    Parameters
    ----------
    networks
        The networks on one task.
    name
        The network in question.
    others
        The networks to compare it with.

    Returns
    -------
    pandas.DataFrame
        One row per other network: ``rival``; ``lead``, ``low`` and ``high``, the advantage of
        `name` in score with a 95% interval over runs and test sequences (``nan`` if it can't be
        estimated); ``standing``: ahead, behind or undecided; ``note``: why it is undecided although
        the interval decides, or why it can't be estimated.
    """
    rows = []
    for rival in others:
        estimate = refuse_claim(networks, (name, rival), (name,)) or lead(networks, name, rival)
        verdict = decide(estimate, Region(above=0.0)).verdict
        standing = {AGREES: "ahead", DIFFERS: "behind"}.get(verdict, "undecided")
        notes = estimate.notes
        if estimate.known:
            notes = estimate.undecided_because
        interval = (estimate.value, estimate.low, estimate.high)
        rows.append((str(rival), *interval, standing, write_reasons(notes)))
    return pd.DataFrame(rows, columns=["rival", "lead", "low", "high", "standing", "note"])


def standing_among(leads: pd.DataFrame) -> str:
    """Summarize a table of `leads_over` as text, such as "ahead of LSTM; behind GRU".

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


def compare_learned(ds: xr.Dataset, published: pd.DataFrame) -> pd.DataFrame:
    """Add our networks to a published table, with whether they learned the task.

    Parameters
    ----------
    ds
        Results of a group.
    published
        A table of `data/published`.

    Returns
    -------
    pandas.DataFrame
        `study.results.networks.compare_with_published` of the published networks alone, with
        ``learned``: whether ours does better than chance; None if it was not trained.
    """
    table = compare_with_published(outcomes(ds), published)
    table = table[table["published"].notna()].reset_index(drop=True)
    networks = Networks(ds)
    learned = []
    for task, network in zip(table["task"], table["network"], strict=True):
        here = networks.on_task(task)
        if network in here.labels():
            learned.append(here.learned(network))
        else:
            learned.append(None)
    return table.assign(learned=learned)
