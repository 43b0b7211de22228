"""The list of claims, and verdicts on stored results and on evidence drawn at random.

``python tests/claim_verdicts.py`` writes ``tests/data/verdicts.csv``, what the stored results say
about each claim. A test compares it with what is judged now, so a change needs a reason.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from evidence_for_comparisons import evidence
from evidence_for_judges import FALSE, IN_NOTEBOOKS, JUDGES
from study.claims.claim import Claim
from study.claims.estimates import Estimate
from study.claims.estimating import estimate_claim
from study.claims.judging import judge_group
from study.claims.listed import claims
from study.claims.networks import Networks
from study.claims.verdict import decide
from study.paths import DATA
from study.results.datasets import load

CLAIMS = claims()
"""The claims by identifier."""
COMPARED = [claim for claim in CLAIMS.values() if claim.comparison]
"""Claims that name networks and an estimator."""
REFERENCE = DATA / "reference" / "real"
KNOWN_FILE = Path(__file__).parent / "data" / "verdicts.csv"
NUMBERS = ["estimate", "low", "high"]
"""Columns of `KNOWN_FILE` besides the id, the verdict and its cause."""


class StoredResults(NamedTuple):
    """Stored results, and the claims that they judge."""

    name: str
    path: Path
    """The file; that of the worms may be missing, because its archive is not always at hand."""
    judge: Callable[[xr.Dataset], pd.DataFrame]
    ids: list[str]


def stored_results() -> list[StoredResults]:
    """Return the stored results of every judge, with the claims that they judge.

    Returns
    -------
    list of StoredResults
        One for each judge.
    """
    stored = []
    for name, judges in JUDGES.items():
        path = REFERENCE / f"{name.partition(',')[0]}.nc"
        stored.append(StoredResults(name, path, judges, [*judges]))
    by_group: dict[str, list[str]] = {}
    for claim in COMPARED:
        by_group.setdefault(claim.comparison.group, []).append(claim.id)
    for group, ids in by_group.items():
        judge = partial(judge_group, group=group)
        stored.append(StoredResults(group, REFERENCE / f"{group}.nc", judge, ids))
    return stored


def write_known() -> None:
    """Judge the stored results and write `KNOWN_FILE`.

    Claims whose results are not at hand keep their rows. Claims that are not listed lose them.
    """
    known = pd.read_csv(KNOWN_FILE, index_col="id").reindex(columns=["verdict", "cause", *NUMBERS])
    present = [stored for stored in stored_results() if stored.path.exists()]
    tables = [stored.judge(load(stored.path)) for stored in present]
    judged = pd.concat(tables).set_index("id")[known.columns]
    others = known.index.difference(judged.index).intersection(list(CLAIMS))
    kept = known.loc[others]
    pd.concat([judged, kept]).sort_index().to_csv(KNOWN_FILE, float_format="%.7g")


def estimated(ds: xr.Dataset, claim: Claim) -> Estimate:
    """Estimate the quantity of a claim.

    Parameters
    ----------
    ds
        A group of runs.
    claim
        One of `COMPARED`.

    Returns
    -------
    Estimate
    """
    return estimate_claim(Networks(ds, measure=claim.comparison.measure), claim)


def verdict_of(name: str, estimate: Estimate) -> str:
    """Return the verdict on a claim.

    Parameters
    ----------
    name
        The claim's identifier.
    estimate
        Of its quantity.

    Returns
    -------
    str
    """
    return decide(estimate, CLAIMS[name].region).verdict


def between(low: float, high: float) -> Estimate:
    """Return an estimate with this interval, whose value is in the middle.

    Parameters
    ----------
    low, high
        Ends of the interval.

    Returns
    -------
    Estimate
    """
    return Estimate((low + high) / 2, low, high)


def true_of(claim: Claim, **more) -> xr.Dataset:
    """Return one group in which a claim is true.

    Parameters
    ----------
    claim
        One of `COMPARED`.
    more
        Keywords of `evidence_for_comparisons.evidence`.

    Returns
    -------
    xr.Dataset
    """
    return evidence(claim, np.random.default_rng(1), true=True, **more)


def judgments_of_false_data(name: str, draws: int) -> list[Estimate]:
    """Judge a claim on results in which it is false.

    Parameters
    ----------
    name
        Identifier of a claim that has a judge of its own, or is counted in a notebook.
    draws
        Number of results.

    Returns
    -------
    list of Estimate
        One for each.
    """
    rng = np.random.default_rng(20)
    if name in IN_NOTEBOOKS:
        return [IN_NOTEBOOKS[name](rng) for _ in range(draws)]
    (judge,) = (judges[name] for judges in JUDGES.values() if name in judges)
    return [judge(FALSE[name](rng)) for _ in range(draws)]


def verdicts_on_evidence(claim: Claim, draws: int, *, true: bool) -> list[str]:
    """Return verdicts on groups in which a claim is true, or false.

    Parameters
    ----------
    claim
        One of `COMPARED`.
    draws
        Number of groups.
    true
        Whether the claim is true in them.

    Returns
    -------
    list of str
    """
    rng = np.random.default_rng(20 + true)
    verdicts = []
    for _ in range(draws):
        estimate = estimated(evidence(claim, rng, true=true), claim)
        verdicts.append(verdict_of(claim.id, estimate))
    return verdicts


if __name__ == "__main__":
    write_known()
