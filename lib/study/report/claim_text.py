"""What pages say about a claim: its estimate, region, scale and verdict as texts."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from study.claims.caveats import read_caveats
from study.claims.estimates import Cause
from study.claims.listed import claims
from study.claims.region import Region
from study.claims.verdict import (
    AGREES,
    BETWEEN,
    DIFFERS,
    Sensitivity,
)
from study.report.claim_words import (
    p_words,
    region_words,
    scale_words,
    value_words,
    where_words,
)
from study.report.intervals import Interval, place_interval
from study.report.numbers import with_minus
from study.report.tally import CAUSES, SMALL_EFFECT, kind_of
from study.report.verdicts import DECIDED

_UNTESTED = {
    Cause.TOO_SMALL: "Experiment too small",
    Cause.NO_DATA: "Not testable: no data",
    Cause.NO_SEEDS: "Not testable: fewer than two runs",
    Cause.THRESHOLD: "Not testable: depends on our threshold",
    Cause.PREMISE: "Not testable: a premise is not met",
}
"""Why a claim is not testable, in words that begin a sentence."""
_COMPARED = {AGREES: " with the paper", DIFFERS: " from the paper"}
"""Words that follow a verdict in a sentence about the paper."""


@dataclass(frozen=True)
class ClaimText:
    """What pages say about a claim. A text is empty if it does not apply.

    Attributes
    ----------
    id, statement, quantity, region : str
        The claim, what is estimated, and the region in which the claim is true.
    quotation : str
        The paper's words.
    where : str
        Section and page of the paper.
    estimate : str
        The estimate with its interval and unit, or why there is none.
    value : str
        The estimate with its interval, for tables that show the `unit` apart.
    unit : str
        Unit of the quantity.
    decided_by : str
        The networks and the task of the estimate, if the claim is about several.
    null : str
        Where the value of no effect lies.
    at_other_thresholds : str
        The verdicts at half and at twice our threshold.
    depends_on_threshold : bool
        Whether one of them is another verdict than that at our threshold.
    caveats : tuple of str
        What a reader must know before quoting the verdict.
    objection : str
        Why the claim lacks the verdict that its interval alone would give.
    note : str
        A remark on the estimate, with the objection.
    published : str
        The paper's value.
    published_outside : bool
        Whether the paper's value lies outside the region.
    scale : str
        Size of the experiment, and its data.
    verdict, corrected, discovered : str
        One of `study.report.verdicts.COLUMNS`: without a correction, after Holm's correction, and
        after Benjamini and Hochberg's.
    cause : str
        Why it is not testable, a value of `Cause`; empty if it is.
    p, p_holm, p_bh : str
        p-values, without and with these corrections.
    interval : Interval or None
        Where to draw the estimate and its interval; None without an estimate.
    """

    id: str
    statement: str
    quotation: str
    quantity: str
    region: str
    where: str
    estimate: str
    value: str
    unit: str
    decided_by: str
    null: str
    at_other_thresholds: str
    depends_on_threshold: bool
    caveats: tuple[str, ...]
    objection: str
    note: str
    published: str
    published_outside: bool
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
        """The verdict after Holm's correction in words that begin a sentence about the paper."""
        if self.cause:
            return _UNTESTED[Cause(self.cause)]
        words = self.corrected
        if self.kind == SMALL_EFFECT and not self.withdrawn:
            words = SMALL_EFFECT
        words = f"{words[:1].upper()}{words[1:]}"
        words += _COMPARED.get(self.corrected, "")
        if self.withdrawn:
            words += f" (before Holm's correction: {self.before_correction})"
        return words

    @property
    def before_correction(self) -> str:
        """The verdict without a correction, in the words of the tally."""
        if self.kind == SMALL_EFFECT:
            return SMALL_EFFECT
        return self.verdict

    @property
    def kind(self) -> str:
        """The kind of verdict in the tally that counts the claim."""
        return kind_of(self.verdict, self.cause)

    @property
    def why_untested(self) -> str:
        """Why it is not testable, in words; empty if it is."""
        if not self.cause:
            return ""
        return CAUSES[Cause(self.cause)]

    @property
    def css(self) -> str:
        """CSS classes of the verdict."""
        classes = [self.verdict.replace(" ", "-")]
        if self.withdrawn:
            classes.append("withdrawn")
        return " ".join(classes)

    @property
    def corrected_css(self) -> str:
        """CSS class of the verdict after Holm's correction."""
        return self.corrected.replace(" ", "-")

    @property
    def decided(self) -> bool:
        """Whether the results decide the claim."""
        return self.verdict in DECIDED

    @property
    def marks(self) -> dict[str, str]:
        """The marks of a decided claim, each with its explanation."""
        if not self.decided:
            return {}
        marks = {}
        if self.caveats:
            marks["†"] = "; ".join(self.caveats)
        if self.depends_on_threshold:
            marks["‡"] = f"our threshold; {self.at_other_thresholds}"
        return marks


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
    estimate = _estimate_texts(row, region)
    published = row["published"]
    published_outside = not math.isnan(published) and not region.contains(published, published)
    thresholds = Sensitivity(row["at_half"], row["at_double"])
    return ClaimText(
        id=row["id"],
        statement=row["statement"],
        quotation=row["quotation"],
        quantity=row["quantity"],
        region=region_words(region),
        where=where_words(row["section"], row["page"]),
        estimate=estimate.estimate,
        value=estimate.value,
        unit=row["unit"],
        decided_by=_decided_by(row),
        null=_null_text(row),
        at_other_thresholds=thresholds.describe(),
        depends_on_threshold=thresholds.differs_from(row["verdict"]),
        caveats=read_caveats(row["caveat"]),
        objection=row["objection"],
        note=estimate.note,
        published=_published_text(published),
        published_outside=published_outside,
        scale=scale_words(row),
        verdict=row["counted"],
        corrected=row["corrected"],
        discovered=row["discovered"],
        cause=row["cause"],
        p=p_words(row["p"]),
        p_holm=p_words(row["p_holm"]),
        p_bh=p_words(row["p_bh"]),
        interval=estimate.interval,
    )


class _EstimateTexts(NamedTuple):
    """The fields of `ClaimText` that depend on whether there is an estimate."""

    estimate: str
    value: str
    note: str
    interval: Interval | None


def _estimate_texts(row: pd.Series, region: Region) -> _EstimateTexts:
    if pd.isna(row.get("low")):  # the note says why there is no estimate
        return _EstimateTexts(estimate=row["note"], value="", note="", interval=None)
    value = value_words(row)
    return _EstimateTexts(
        estimate=f"{value} {row['unit']}",
        value=value,
        note=row["note"],
        interval=place_interval(row, region),
    )


def _decided_by(row: pd.Series) -> str:
    """Return networks and task of the estimate; empty if the claim is about a single pair."""
    if not row["decided_by"]:
        return ""
    return f"{row['decided_by']} on {row['decided_on']}"


def _null_text(row: pd.Series) -> str:
    """State where the value of no effect lies; empty if there is none."""
    if not row["null_is"]:
        return ""
    place = f"{row['null_is']} the interval"
    if row["null_is"] == BETWEEN:
        place += " and the threshold"
    return f"the value of no effect, {row['null']:g}, lies {place}"


def _published_text(value: float) -> str:
    """Return the paper's value; empty if it gives none."""
    if math.isnan(value):
        return ""
    return with_minus(f"{value:g}")
