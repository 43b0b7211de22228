"""Claims counted by verdict, publication and cause."""

import pandas as pd

from study.claims.estimates import Cause
from study.claims.verdict import (
    AGREES,
    DIFFERS,
    NO_EFFECT,
    UNDECIDED,
    WITHIN,
)
from study.report.verdicts import COLUMNS
from study.results.names import PUBLICATIONS

TOO_SMALL = "experiment too small"
OTHER = "not testable for other reasons"
SMALL_EFFECT = "little or no effect, as claimed"
_KINDS = {
    AGREES: "agree",
    DIFFERS: "differ",
    UNDECIDED: "undecided",
    WITHIN: SMALL_EFFECT,
    NO_EFFECT: SMALL_EFFECT,
}
TALLY = ("agree", "differ", SMALL_EFFECT, "undecided", TOO_SMALL, OTHER)
"""Kinds of verdicts in the tally; `kind_of` says which of them counts a claim."""
TESTED = ("agree", "differ", SMALL_EFFECT, "undecided")
"""Kinds of claims that our experiments can test."""
CAUSES = {
    Cause.TOO_SMALL: "too few training steps, runs or test sequences to decide",
    Cause.NO_DATA: "we lack the paper's data, runs on them, or a measurement of the quantity",
    Cause.NO_SEEDS: "fewer than two runs, which give no interval",
    Cause.THRESHOLD: "undecided at our threshold, but decided at half or at twice it",
    Cause.PREMISE: "a condition of the claim is not met, such as that a network learned",
}
"""Why claims are not testable, in words."""
_PLURAL = {AGREES: "agree", DIFFERS: "differ"}
_SINGULAR = {plural: verdict for verdict, plural in _PLURAL.items()}


def count_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Count the claims by verdict.

    Parameters
    ----------
    table : pandas.DataFrame
        As from `judge_claims`.

    Returns
    -------
    pandas.DataFrame
        A row per ``paper`` and ``chapter``; columns `COLUMNS`.
    """
    counts = table.groupby(["paper", "chapter"], sort=False)["counted"].value_counts().unstack()
    return counts.reindex(columns=list(COLUMNS)).fillna(0).astype(int)


def kind_of(verdict: str, cause: str) -> str:
    """Return the kind of verdict in the tally that counts a claim.

    Parameters
    ----------
    verdict : str
        One of `COLUMNS`.
    cause : str
        Why it is not testable; empty if it is.

    Returns
    -------
    str
        One of `TALLY`.
    """
    if verdict in _KINDS:
        return _KINDS[verdict]
    if cause == Cause.TOO_SMALL:
        return TOO_SMALL
    return OTHER


def tally(judged: pd.DataFrame, column: str = "counted") -> pd.DataFrame:
    """Return the claims' verdicts counted by publication.

    Parameters
    ----------
    judged : pandas.DataFrame
        As from `judge_claims`.
    column : str
        ``counted``; ``corrected`` for the verdicts after Holm's correction, ``discovered`` for
        those after Benjamini and Hochberg's.

    Returns
    -------
    pandas.DataFrame
        A row per publication and one called ``all``; the columns of `TALLY`, and ``total``.
    """
    kinds = [kind_of(*row) for row in zip(judged[column], judged["cause"], strict=True)]
    counts = pd.crosstab(judged["paper"], pd.Series(kinds, judged.index))
    counts = counts.reindex(index=list(PUBLICATIONS), columns=list(TALLY), fill_value=0)
    counts.loc["all"] = counts.sum()
    counts["total"] = counts.sum(axis="columns")
    return counts


def count_causes(judged: pd.DataFrame) -> pd.DataFrame:
    """Count the claims that are not testable by the reason why.

    Parameters
    ----------
    judged : pandas.DataFrame
        As from `judge_claims`.

    Returns
    -------
    pandas.DataFrame
        A row per publication and one called ``all``; a column per `Cause`, and ``total``.
    """
    counts = pd.crosstab(judged["paper"], judged["cause"])
    columns = [cause.value for cause in CAUSES]
    counts = counts.reindex(index=list(PUBLICATIONS), columns=columns, fill_value=0)
    counts.loc["all"] = counts.sum()
    counts["total"] = counts.sum(axis="columns")
    return counts


def tally_in_words(counts: pd.Series) -> str:
    """Return a publication's row of the tally as a phrase.

    Parameters
    ----------
    counts : pandas.Series
        Numbers of claims by kind of verdict: a row of `tally`.

    Returns
    -------
    str
        Such as ``26 agree; 1 differs; 6 experiment too small``.
    """
    words = []
    for kind in TALLY:
        number = counts[kind]
        if number == 1:
            words.append(f"1 {_SINGULAR.get(kind, kind)}")
        elif number > 1:
            words.append(f"{number} {kind}")
    return "; ".join(words)


def counts_in_words(counts: pd.Series) -> str:
    """Return the number of claims by verdict as a phrase.

    Parameters
    ----------
    counts : pandas.Series
        Numbers of claims by verdict, one of `COLUMNS`.

    Returns
    -------
    str
        Such as ``26 agree, 1 differs``.
    """
    words = []
    for kind in COLUMNS:
        number = counts.get(kind, 0)
        if number == 1:
            words.append(f"1 {kind}")
        elif number > 1:
            words.append(f"{number} {_PLURAL.get(kind, kind)}")
    return ", ".join(words)
