"""Verdicts after the labels of networks are shuffled: how often the rule decides by chance."""

from copy import copy

import numpy as np
import pandas as pd
import xarray as xr

from study.claims.claim import Claim, claims
from study.claims.estimates import Estimate
from study.claims.estimating import estimate_claim
from study.claims.networks import Networks

NO_EFFECT = {"lead": 0.0, "apart": 0.0, "ratio": 1.0, "longer": 1.0, "decay": 1.0}
"""The value of each quantity that compares two networks if they are equal."""
OUTCOMES = ["step", "test", "last", "then", "improving", "completed"]
"""Columns of a table of runs that belong to a run, not to its network."""
AT_THRESHOLD = "a difference, however small"
BEYOND = "a difference beyond a threshold"
DENIED = "no difference, or only a small one"


def shuffle_labels(networks: Networks, rng: np.random.Generator) -> Networks:
    """Deal the runs of each task to its networks at random.

    Each network keeps its number of runs, and its settings as validation chose them before.

    Parameters
    ----------
    networks
        The networks of a group.
    rng
        Source of random numbers.

    Returns
    -------
    Networks
        A copy in which no network is better than another one of the same task.
    """
    rows = networks.all_rows
    dealt = np.arange(len(rows))
    for positions in rows.groupby("task", sort=False).indices.values():
        dealt[positions] = rng.permutation(positions)
    outcomes = rows[[*OUTCOMES, "score", "last_score"]].iloc[dealt].set_axis(rows.index)
    other = copy(networks)
    other.all_rows = rows.assign(**outcomes)
    other.candidates = networks.candidates.copy()
    other.candidates.loc[rows.index, OUTCOMES] = outcomes[OUTCOMES]
    other.ds = _dealt_cells(networks.ds, rows, dealt)
    return other.on_task("")


def _dealt_cells(ds: xr.Dataset, rows: pd.DataFrame, dealt: np.ndarray) -> xr.Dataset:
    """Return results in which the runs of a table are dealt in another order."""
    run = ds.indexes["run"].get_indexer(rows["run"])
    replicate = ds.indexes["replicate"].get_indexer(rows["replicate"])
    changed = {}
    for name, variable in ds.variables.items():
        if variable.dims[:2] == ("run", "replicate"):
            values = variable.values.copy()
            values[run, replicate] = values[run[dealt], replicate[dealt]]
            changed[name] = (variable.dims, values)
    return ds.assign(changed)


def judge_shuffled(ds: xr.Dataset, group: str, shuffles: int) -> pd.DataFrame:
    """Judge all claims that compare networks of a group, with shuffled labels.

    Only the interval counts here. Reservations would leave most of these claims undecided.

    Parameters
    ----------
    ds
        Results of the group.
    group
        Name of the group in ``params.yaml``.
    shuffles
        How many times labels are shuffled; each time has its own seed.

    Returns
    -------
    pandas.DataFrame
        One row per claim and shuffle that gave an interval: ``id``, ``verb``, ``says`` (one of
        `AT_THRESHOLD`, `BEYOND` and `DENIED`), ``pairs`` (how many the claim compares),
        ``excluding`` (how many of their intervals exclude no difference), and whether the claim's
        interval ``agrees`` or ``differs``.
    """
    compared = []
    for claim in claims().values():
        if claim.comparison and claim.comparison.group == group and _compares(claim):
            compared.append(claim)
    measures = dict.fromkeys(claim.comparison.measure for claim in compared)
    rows = []
    for measure in measures:
        networks = Networks(ds, measure=measure)
        for seed in range(shuffles):
            shuffled = shuffle_labels(networks, np.random.default_rng(seed))
            for claim in compared:
                if claim.comparison.measure == measure:
                    rows.append(_row(claim, estimate_claim(shuffled, claim)))
    columns = ["id", "verb", "says", "pairs", "excluding", "agrees", "differs"]
    return pd.DataFrame([row for row in rows if row], columns=columns)


def _compares(claim: Claim) -> bool:
    """Return whether a claim compares networks with each other."""
    comparison = claim.comparison
    has_pairs = bool(comparison.pairs) or bool(comparison.others)
    return has_pairs and comparison.verb in NO_EFFECT


def _row(claim: Claim, estimate: Estimate) -> dict[str, object]:
    """Return the row of one estimate; empty if there is no interval."""
    if not estimate.known:
        return {}
    region = claim.region
    equal = NO_EFFECT[claim.comparison.verb]
    says = BEYOND
    if equal in (region.above, region.below):
        says = AT_THRESHOLD
    elif region.contains(equal, equal):
        says = DENIED
    parts = estimate.parts or (estimate,)
    return {
        "id": claim.id,
        "verb": claim.comparison.verb,
        "says": says,
        "pairs": len(parts),
        "excluding": sum(not part.low <= equal <= part.high for part in parts),
        "agrees": region.contains(estimate.low, estimate.high),
        "differs": region.excludes(estimate.low, estimate.high),
    }
