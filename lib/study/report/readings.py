"""Verdicts on claims about iRNN under each reading of its equations.

The paper leaves open where iRNN's inner steps start, and a remark in it allows another sign. Each
claim is judged under one reading. Notebook 69 judges it under three, and its table is read here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from study.claims.listed import claims
from study.report.claim_words import value_words
from study.report.contents import Artifact
from study.report.inputs import read_table

TABLE = "own-irnn-claims"
"""The table of verdicts by reading."""
NOTEBOOK = "69_irnn_readings"
_IN_WORDS = {
    "printed": "as printed: inner steps from zero, plus sign",
    "adopted": "inner steps from the last state, plus sign",
    "minus": "inner steps from the last state, minus sign",
}


@dataclass(frozen=True)
class ReadingVerdict:
    """A verdict under one reading of the equations, without correction for multiple testing.

    Attributes
    ----------
    reading : str
        A key of `study.results.networks.READINGS`.
    name : str
        What readers call it.
    verdict, cause : str
        The verdict, and why the claim is not testable; `cause` is empty if it is.
    estimate, low, high : float
        The estimate and its 95% interval, ``nan`` if there is none.
    words : str
        The estimate with interval and unit, or why there is none.
    """

    reading: str
    name: str
    verdict: str
    cause: str
    estimate: float
    low: float
    high: float
    words: str


def read_readings(items: Iterable[Artifact]) -> dict[str, list[ReadingVerdict]]:
    """Return the verdicts by claim, under the readings in the order of the table.

    Parameters
    ----------
    items : iterable of Artifact

    Returns
    -------
    dict of str to list of ReadingVerdict
        Empty if the stored results have no such table; quick runs judge nothing.
    """
    for item in items:
        if item.artifact == TABLE and item.kind == "table" and not item.part and not item.toy:
            table = read_table(item.path(".csv"))
            break
    else:
        return {}
    table = table.fillna({"cause": "", "note": ""})
    readings = {}
    for _, row in table.iterrows():
        readings.setdefault(row["id"], []).append(_describe(row))
    return readings


def _describe(row: pd.Series) -> ReadingVerdict:
    words = row["note"]
    if pd.notna(row["low"]):
        words = f"{value_words(row)} {claims()[row['id']].unit}"
    return ReadingVerdict(
        reading=row["reading"],
        name=_IN_WORDS.get(row["reading"], row["reading"]),
        verdict=row["verdict"],
        cause=row["cause"],
        estimate=row["estimate"],
        low=row["low"],
        high=row["high"],
        words=words,
    )
