"""What pages say about a claim: its estimate, region, scale and verdict in words."""

import math
from dataclasses import dataclass

import pandas as pd

from study.claims.claim import claims
from study.claims.estimates import Cause
from study.claims.region import Region
from study.claims.verdict import (
    AGREES,
    DIFFERS,
)
from study.report.intervals import Interval, place_interval
from study.report.numbers import counted, significant
from study.report.tally import CAUSES, kind_of
from study.report.verdicts import DECIDED

_UNTESTED = {
    Cause.TOO_SMALL: "Too small to tell",
    Cause.NO_DATA: "No data",
    Cause.NO_SEEDS: "Too few runs to tell",
    Cause.THRESHOLD: "Depends on our threshold",
    Cause.PREMISE: "Premise not met",
}
"""The same in words that begin a sentence."""
_SCALE = {
    "sequences": lambda n: counted(n, "sequence"),
    "time_steps": lambda n: f"T = {int(n):,}",
    "epochs": lambda n: counted(n, "epoch"),
    "width": lambda n: f"d = {int(n):,}",
    "replicates": lambda n: counted(n, "replicate"),
    "test_size": lambda n: f"tested on {int(n):,}",
}
_STATUS = {AGREES: "Agrees with the paper", DIFFERS: "Differs from the paper"}
_UNITS = {
    "in units of its mean": "times the mean",
    "standard deviation over tasks of": "accuracy",
    "over that at chance": "times the error at chance",
    "over that without memory": "times",
    "over that in Model": "times",
    "decades between": "orders of magnitude",
    "difference of the errors": "squared error",
    "bits per character": "bits per character",
    "iterations until": "training steps",
    "iterations of": "times",
    "perplexity of LEM over": "times",
    "perplexity": "perplexity",
    "how many times": "times",
    " over that of": "times",
    " over those of": "times",
    "ratio of": "times",
    "share": "share",
    "error rate": "share",
    "three error rates": "share",
    "points": "points",
    "over training, geometric": "orders of magnitude",
    "log10": "orders of magnitude",
    "orders of magnitude": "orders of magnitude",
    "metric from zero": "orders of magnitude",
    "rank correlation": "rank correlation",
    "times the range": "accuracy",
    "coefficient of the metric": "accuracy per order of magnitude",
    "accuracy with the penalty": "accuracy",
    "R²": "share of variance",
}
"""Units by a phrase of the quantity that has them; the first phrase that occurs counts."""


@dataclass(frozen=True)
class ClaimText:
    """Texts of pages about a claim; a text is empty if it does not apply.

    Attributes
    ----------
    id, statement, quantity, region : str
        The claim, what is estimated, and the region in which the claim is true.
    where : str
        Section and page of the paper.
    estimate : str
        The estimate with its interval and unit, or why there is none.
    value : str
        The same without the unit, for tables.
    null : str
        Whether the interval holds the value of no effect.
    reservations : tuple of str
        What a reader must know before quoting the verdict.
    note : str
        A remark on the estimate.
    published : str
        The paper's own value, and whether it lies outside the region.
    scale : str
        How large the experiment was, and on which data.
    verdict, corrected, discovered : str
        One of `COLUMNS`: by itself, after Holm's correction, after Benjamini and Hochberg's.
    cause : str
        Why it is not testable, a value of `Cause`; empty if it is.
    p, p_holm, p_bh : str
        p-values.
    interval : Interval or None
        Where to draw it.
    """

    id: str
    statement: str
    quantity: str
    region: str
    where: str
    estimate: str
    value: str
    unit: str
    null: str
    reservations: tuple[str, ...]
    note: str
    published: str
    scale: str
    verdict: str
    corrected: str
    discovered: str
    cause: str
    p: str
    p_holm: str
    p_bh: str
    interval: Interval | None

    @property
    def withdrawn(self) -> bool:
        """Whether Holm's correction withdraws the verdict."""
        return self.corrected != self.verdict

    @property
    def status(self) -> str:
        """The verdict after Holm's correction in words that begin a sentence."""
        if self.cause:
            return _UNTESTED[Cause(self.cause)]
        words = _STATUS.get(self.corrected, f"{self.corrected[:1].upper()}{self.corrected[1:]}")
        if self.withdrawn:
            words += f" after Holm's correction ({self.verdict} without)"
        return words

    @property
    def kind(self) -> str:
        """The column of the tally that counts the claim."""
        return kind_of(self.verdict, self.cause)

    @property
    def why_untested(self) -> str:
        """Why it is not testable, in words; empty if it is."""
        return CAUSES[Cause(self.cause)] if self.cause else ""

    @property
    def css(self) -> str:
        """CSS classes of the verdict."""
        classes = [self.verdict.replace(" ", "-")]
        if self.withdrawn:
            classes.append("withdrawn")
        return " ".join(classes)

    @property
    def decided(self) -> bool:
        """Whether the results decide the claim."""
        return self.verdict in DECIDED


def describe_claim(row: pd.Series) -> ClaimText:
    """Return the texts of pages about a claim.

    Parameters
    ----------
    row : pandas.Series
        A row of `study.report.verdicts.judge_claims`.

    Returns
    -------
    ClaimText
    """
    region = claims()[row["id"]].region
    unit = unit_of(row)
    null = ""
    if row["null_is"]:
        null = f"{row['null']:g} {row['null_is']}"
    if pd.notna(row.get("low")):
        value = _value_words(row)
        estimate = f"{value} {unit}".strip()
        note = row["note"]
        interval = place_interval(row, region)
    else:  # the note says why it could not be estimated
        value = ""
        estimate = row["note"]
        note = ""
        interval = None
    return ClaimText(
        id=row["id"],
        statement=row["statement"],
        quantity=row["quantity"],
        region=region_words(region),
        where=_where_words(row),
        estimate=estimate,
        value=value,
        unit=unit,
        null=null,
        reservations=tuple(text for text in row["reservation"].split("; ") if text),
        note=note,
        published=_published(row["published"], region),
        scale=scale_words(row),
        verdict=row["counted"],
        corrected=row["corrected"],
        discovered=row["discovered"],
        cause=row["cause"],
        p=p_words(row["p"]),
        p_holm=p_words(row["p_holm"]),
        p_bh=p_words(row["p_bh"]),
        interval=interval,
    )


def _where_words(row: pd.Series) -> str:
    """Return section and page of the paper."""
    if row["page"]:
        return f"Section {row['section']}, page {row['page']}"
    return f"Section {row['section']}"


def _value_words(row: pd.Series) -> str:
    """Return an estimate with its interval, such as ``0.12 (0.08 to 0.16)``."""
    low = significant(row["low"])
    high = significant(row["high"])
    return f"{significant(row['estimate'])} ({low} to {high})"


def scale_words(row: pd.Series) -> str:
    """Return how large the experiment behind a claim was, and on which data.

    Parameters
    ----------
    row : pandas.Series
        A row of `study.report.verdicts.judge_claims`.

    Returns
    -------
    str
        Such as ``5,000 sequences, T = 100; MNIST``; empty if nothing is known.
    """
    sizes = [write(row[name]) for name, write in _SCALE.items() if pd.notna(row.get(name))]
    steps = pd.to_numeric(row.get("steps"), errors="coerce")
    paper_steps = pd.to_numeric(row.get("paper_steps"), errors="coerce")
    if pd.notna(steps) and steps == paper_steps:
        sizes.append(f"the paper's {int(steps):,} training steps")
    elif pd.notna(steps) and pd.notna(paper_steps):
        sizes.append(f"{int(steps):,} of the paper's {int(paper_steps):,} training steps")
    elif pd.notna(steps):
        sizes.append(f"{int(steps):,} training steps")
    data = row["data"] or getattr(row["judged_by"], "trained_on", "")
    return "; ".join(text for text in (", ".join(sizes), data) if text)


def unit_of(row: pd.Series) -> str:
    """Return the unit of a claim's quantity.

    Parameters
    ----------
    row : pandas.Series
        A row of `study.report.verdicts.judge_claims`.

    Returns
    -------
    str
        Its column ``unit`` if it has one, else the unit that the words of ``quantity`` name;
        empty if they name none.
    """
    if isinstance(row.get("unit"), str) and row["unit"]:
        return row["unit"]
    for phrase, unit in _UNITS.items():
        if phrase in row["quantity"]:
            return unit
    return ""


def region_words(region: Region) -> str:
    """Return a region in words, such as ``above 0.05``.

    Parameters
    ----------
    region
        Where a claim's quantity lies if the claim is true.

    Returns
    -------
    str
    """
    if math.isinf(region.above):
        return f"below {region.below:g}"
    if math.isinf(region.below):
        return f"above {region.above:g}"
    return f"between {region.above:g} and {region.below:g}"


def p_words(p: float) -> str:
    """Write a p-value for reading.

    Parameters
    ----------
    p
        A p-value, or nan.

    Returns
    -------
    str
        Two digits; empty for nan.
    """
    if pd.isna(p):
        return ""
    if p < 1e-4:
        return "below 0.0001"
    return f"{min(p, 1.0):.2g}"


def _published(value: float, region: Region) -> str:
    """Return the paper's value; mention if it is outside the claim's region."""
    if math.isnan(value):
        return ""
    if region.contains(value, value):
        return f"{value:g}"
    return f"{value:g}, outside the region"
