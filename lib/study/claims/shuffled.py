"""Verdicts on shuffled data: how often the rule decides if no network is better than another.

The runs of each task are assigned to its networks at random, and the claims that compare networks
are judged again.
"""

from copy import copy

import numpy as np
import pandas as pd
import xarray as xr

from study.claims.claim import Claim
from study.claims.estimates import Estimate
from study.claims.estimating import estimate_claim
from study.claims.listed import claims
from study.claims.networks import SCORES, Networks
from study.claims.traits import TRAITS

OUTCOMES = ["step", "test", "last", "test_at_two_thirds", "improving", "completed"]
"""Columns of `study.results.runs.run_table` that hold the result of a run, not its network."""
AT_THRESHOLD = "a difference, however small"
"""Kind of a claim whose region begins at no difference."""
BEYOND = "a difference beyond a threshold"
"""Kind of a claim whose region begins beyond no difference."""
DENIED = "no difference, or only a small one"
"""Kind of a claim whose region contains no difference."""


def shuffle_labels(networks: Networks, rng: np.random.Generator) -> Networks:
    """Assign the runs of each task to its networks at random.

    Each network keeps its number of runs and the settings that validation had chosen.

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
    order = np.arange(len(rows))
    for positions in rows.groupby("task", sort=False).indices.values():
        order[positions] = rng.permutation(positions)
    outcomes = rows[[*OUTCOMES, *SCORES]].iloc[order].set_axis(rows.index)
    shuffled = copy(networks)
    shuffled.all_rows = rows.assign(**outcomes)
    shuffled.candidates = networks.candidates.copy()
    shuffled.candidates.loc[rows.index, OUTCOMES] = outcomes[OUTCOMES]
    shuffled.ds = _shuffle_measurements(networks.ds, rows, order)
    return shuffled.on_task("")


def _shuffle_measurements(ds: xr.Dataset, rows: pd.DataFrame, order: np.ndarray) -> xr.Dataset:
    """Return results in which row i of `rows` has the measurements of row ``order[i]``."""
    run = ds.indexes["run"].get_indexer(rows["run"])
    replicate = ds.indexes["replicate"].get_indexer(rows["replicate"])
    changed = {}
    for name, variable in ds.variables.items():
        if variable.dims[:2] == ("run", "replicate"):
            values = variable.values.copy()
            values[run, replicate] = values[run[order], replicate[order]]
            changed[name] = (variable.dims, values)
    return ds.assign(changed)


def judge_shuffled(ds: xr.Dataset, group: str, shuffles: int) -> pd.DataFrame:
    """Judge all claims that compare networks of a group, after shuffling which run is whose.

    Only the interval counts here. The other reasons against a verdict, such as too few runs, would
    leave most of these claims undecided.

    Parameters
    ----------
    ds
        Results of the group.
    group
        Name of the group in ``params.yaml``.
    shuffles
        Number of shuffles; each has its own seed.

    Returns
    -------
    pandas.DataFrame
        One row per claim and shuffle that gave an interval: ``id``, ``estimator``, ``says`` (one of
        `AT_THRESHOLD`, `BEYOND` and `DENIED`), ``pairs`` (number of pairs of networks),
        ``excluding`` (number of pairs whose interval excludes the value of no effect), ``agrees``
        and ``differs`` (whether the claim's interval lies inside or outside its region).
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
    columns = ["id", "estimator", "says", "pairs", "excluding", "agrees", "differs"]
    return pd.DataFrame([row for row in rows if row], columns=columns)


def _compares(claim: Claim) -> bool:
    """Return whether a claim compares networks with each other."""
    comparison = claim.comparison
    has_pairs = bool(comparison.pairs) or bool(comparison.others)
    return has_pairs and TRAITS[comparison.estimator].no_effect is not None


def _row(claim: Claim, estimate: Estimate) -> dict[str, object]:
    """Return the row of one estimate; empty if there is no interval."""
    if not estimate.known:
        return {}
    region = claim.region
    no_effect = TRAITS[claim.comparison.estimator].no_effect
    if no_effect in (region.above, region.below):
        says = AT_THRESHOLD
    elif region.contains(no_effect, no_effect):
        says = DENIED
    else:
        says = BEYOND
    parts = estimate.parts or (estimate,)
    excluding = 0
    for part in parts:
        if not part.low <= no_effect <= part.high:
            excluding += 1
    return {
        "id": claim.id,
        "estimator": claim.comparison.estimator,
        "says": says,
        "pairs": len(parts),
        "excluding": excluding,
        "agrees": region.contains(estimate.low, estimate.high),
        "differs": region.excludes(estimate.low, estimate.high),
    }
