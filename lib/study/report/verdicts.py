"""Which set of results judges each of the papers' claims, and the verdicts after correction."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from study.claims.correction import (
    benjamini_hochberg_adjusted,
    corrected_verdicts,
    holm_adjusted,
)
from study.claims.listed import claim_table
from study.claims.verdict import (
    AGREES,
    DIFFERS,
    NO_EFFECT,
    VERDICTS,
    WITHIN,
    displayed_verdict,
)
from study.report.contents import NO_PROFILE, SIMULATED, Artifact
from study.report.inputs import read_table

NOT_JUDGED = "not judged yet"
COLUMNS = (AGREES, WITHIN, NO_EFFECT, *VERDICTS[1:], NOT_JUDGED)
"""Verdicts as pages show them, in the order of tables."""
DECIDED = (AGREES, DIFFERS, WITHIN, NO_EFFECT)
"""Verdicts of claims that the results decide."""
_SIZES = ("sequences", "time_steps", "epochs", "width", "replicates")
TEXT_COLUMNS = (
    *("cause", "at_half", "at_double", "null_is", "data"),
    *("decided_by", "decided_on", "caveat", "objection", "note"),
)
"""Columns of `study.claims.judging.judged_row` whose empty cells are empty texts."""
_UNJUDGED = {"verdict": NOT_JUDGED, **dict.fromkeys(TEXT_COLUMNS, "")}
"""Columns of a claim that no results judge."""


class Weight(NamedTuple):
    """The weight of a set of results as evidence on a claim, compared from left to right.

    Attributes
    ----------
    measured
        Whether there is an estimate.
    real
        Whether its profile does more than show that the pipeline works.
    papers_data
        Whether it is on the paper's data; no claim is judged on other data.
    learned
        Whether its networks learned.
    at_scale
        Whether it has the size that the paper prints.
    size
        Product of sequences, time steps, epochs, width and replicates.
    """

    measured: bool
    real: bool
    papers_data: bool
    learned: bool
    at_scale: bool
    size: float


def weigh(row: pd.Series) -> Weight:
    """Return the weight of a judged row; it never depends on the verdict.

    Parameters
    ----------
    row
        A row of a table of claims, with ``judged_by``, the artifact that holds it.

    Returns
    -------
    Weight
    """
    item = row["judged_by"]
    sizes = [row[name] for name in _SIZES if name in row and pd.notna(row[name])]
    return Weight(
        measured=pd.notna(row["low"]),
        real=not item.toy,
        papers_data=not item.stand_in,
        learned=item.learned or item.profile == NO_PROFILE,
        at_scale=item.published_scale or item.profile == "paper",
        size=math.prod(sizes),
    )


def judge_claims(artifacts: Iterable[Artifact]) -> pd.DataFrame:
    """Return every claim of the papers with what the results say about it.

    If several sets of results judge a claim, the one with the largest `Weight` counts, never the
    better verdict. Simulated data judge nothing.

    Parameters
    ----------
    artifacts : iterable of Artifact
        Everything that the pipeline made.

    Returns
    -------
    pandas.DataFrame
        The columns of `study.claims.listed.claim_table` and of
        `study.claims.judging.judged_row`, and: ``judged_by`` (the artifact that holds the
        verdict), ``verdict``, ``counted`` (one of `COLUMNS`), ``corrected`` and ``discovered``
        (the same after the correction of Holm, and of Benjamini and Hochberg, within each paper),
        ``p_holm`` and ``p_bh`` (p-values after these corrections).
    """
    listed = claim_table().reset_index(drop=True)
    judged = _judged_rows(artifacts)
    if judged.empty:
        return _nothing_judged(listed)
    table = listed.merge(_weightiest(judged), on="id", how="left")
    table = table.astype(dict.fromkeys(_UNJUDGED, object)).fillna(_UNJUDGED)
    table["judged_by"] = table["judged_by"].astype(object).where(table["judged_by"].notna(), None)
    table["counted"] = _displayed(table["verdict"], table)
    table["corrected"] = _displayed(corrected_verdicts(table, "holm"), table)
    table["discovered"] = _displayed(corrected_verdicts(table, "benjamini_hochberg"), table)
    by_paper = table.groupby("paper")["p"]
    table["p_holm"] = by_paper.transform(holm_adjusted)
    table["p_bh"] = by_paper.transform(benjamini_hochberg_adjusted)
    return table


def _judged_rows(artifacts: Iterable[Artifact]) -> pd.DataFrame:
    """Return the rows of all tables of claims, with the artifact that holds each."""
    tables = []
    for item in artifacts:
        if item.kind == "claims" and item.result_set != SIMULATED:
            rows = read_table(item.path(".csv"))
            tables.append(rows.assign(judged_by=[item] * len(rows)))
    if not tables:
        return pd.DataFrame()
    return pd.concat(tables, ignore_index=True)


def _weightiest(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the row of each claim that has the most evidence, with the ``size`` behind it."""
    weights = [weigh(row) for _, row in rows.iterrows()]
    order = sorted(range(len(rows)), key=weights.__getitem__, reverse=True)
    weighed = rows.assign(size=[weight.size for weight in weights])
    return weighed.iloc[order].drop_duplicates("id")


def _nothing_judged(listed: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `judge_claims` if no results judge any claim."""
    numbers = dict.fromkeys(("low", "p", "p_holm", "p_bh"), math.nan)
    verdicts = dict.fromkeys(("counted", "corrected", "discovered"), NOT_JUDGED)
    return listed.assign(judged_by=None, **numbers, **_UNJUDGED, **verdicts)


def _displayed(verdicts: pd.Series, table: pd.DataFrame) -> list[str]:
    """Return verdicts as readers see them (`study.claims.verdict.displayed_verdict`)."""
    rows = zip(verdicts, table["denies_effect"], table["null_is"], strict=True)
    return [displayed_verdict(*row) for row in rows]
