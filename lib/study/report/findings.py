"""Sentences of the front page and of README.md, with numbers from the judged claims.

``findings.yaml`` next to this file holds the sentences; no number of a result is typed there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd
from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from study.claims.caveats import NOT_ROBUST, read_caveats
from study.claims.listed import claims
from study.claims.region import Region
from study.claims.short_runs import lead_caveat
from study.claims.verdict import AGREES
from study.report.claim_text import ClaimText, describe_claim
from study.report.claim_words import begin_sentence
from study.report.readings import ReadingVerdict
from study.results.names import PUBLICATIONS

_FILE = Path(__file__).with_name("findings.yaml")


class OtherReading(BaseModel):
    """A sentence about a claim under another reading of the equations, for one verdict there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reading: str
    verdict: str
    sentence: str


class Finding(BaseModel):
    """A sentence about one claim, written for one verdict on it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: str
    verdict: str
    scale: float
    digits: int
    sentence: str
    claimed: str = ""
    """The claim in words of README.md; empty if it is not among its findings."""
    brief: str = ""
    """What README.md says after the claim and its verdict."""
    notebook: str = ""
    """The notebook to which README.md links."""
    followed_by: str = ""
    """Another claim, whose `brief` README.md adds; empty if there is none."""
    qualifier: str = ""
    """Words that follow the verdict if it holds only in a part, such as in one reading."""
    other_reading: OtherReading | None = None
    """What the front page adds about another reading of the equations."""


class FrontPageQuestion(BaseModel):
    """A question of the front page, the figure that shows the answer, and the findings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    figure: str
    findings: tuple[Finding, ...]


class Summary(BaseModel):
    """A sentence of the summary on the front page and in README.md, and when it holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sentence: str
    verdicts: dict[str, str]
    """Verdicts after Holm's correction, by claim, that the sentence needs."""
    cause: bool = False
    """Whether it also needs that our experiment shows a cause."""


class Findings(BaseModel):
    """The content of ``findings.yaml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    questions: tuple[FrontPageQuestion, ...]
    summary: tuple[Summary, ...]
    readme: tuple[str, ...]
    """Claims of the main findings of README.md."""

    @property
    def by_claim(self) -> dict[str, Finding]:
        """All findings by their claim."""
        known = {}
        for question in self.questions:
            for finding in question.findings:
                known[finding.claim] = finding
        return known

    @property
    def main(self) -> tuple[Finding, ...]:
        """The main findings of README.md."""
        known = self.by_claim
        return tuple(known[claim] for claim in self.readme)


@dataclass(frozen=True)
class Sentence:
    """A finding in words, with the claim behind it.

    Attributes
    ----------
    text : str
        The finding.
    claim : ClaimText
        The claim and its verdict.
    qualifier : str
        Words that follow the verdict; may be empty.
    """

    text: str
    claim: ClaimText
    qualifier: str = ""


@cache
def read_findings() -> Findings:
    """Read ``findings.yaml``.

    Returns
    -------
    Findings
        Its questions and the entries of README.md.
    """
    return Findings.model_validate(YAML(typ="safe", pure=True).load(_FILE.read_text("utf-8")))


def summarize(judged: pd.DataFrame, *, cause: bool) -> list[str]:
    """Return the sentences of the summary that hold.

    Parameters
    ----------
    judged : pandas.DataFrame
        Claims as of `study.report.verdicts.judge_claims`.
    cause : bool
        Whether our experiment shows a cause (`study.report.intervention.shows_cause`).

    Returns
    -------
    list of str
        Those whose claims have the verdicts that they were written for.
    """
    corrected = judged.set_index("id")["corrected"]
    sentences = []
    for part in read_findings().summary:
        holds = all(corrected[claim] == verdict for claim, verdict in part.verdicts.items())
        if part.cause and not cause:
            holds = False
        if holds:
            sentences.append(part.sentence)
    return sentences


def write_sentence(
    finding: Finding, row: pd.Series, readings: Sequence[ReadingVerdict] = ()
) -> Sentence:
    """Return a finding with its numbers, and a sentence about a lead in short runs.

    Parameters
    ----------
    finding : Finding
    row : pandas.Series
        The claim's row of `study.report.verdicts.judge_claims`.
    readings : sequence of ReadingVerdict
        Verdicts on the claim under other readings of the equations.

    Returns
    -------
    Sentence
        The finding's own sentence, or the claim and its verdict if the verdict after Holm's
        correction is not the one that the sentence was written for.
    """
    claim = describe_claim(row)
    text = _fill(finding, finding.sentence, row, claim)
    if text is None:
        return Sentence(_state_claim(claim), claim)
    text += _in_other_reading(finding, readings) + _caveat(row)
    return Sentence(text, claim, finding.qualifier)


def write_brief(finding: Finding, rows: pd.DataFrame) -> str:
    """Return a finding as README.md shows it: the claim, our verdict, and the numbers.

    Parameters
    ----------
    finding : Finding
        One with words for README.md.
    rows : pandas.DataFrame
        Rows of `study.report.verdicts.judge_claims`, labeled by claim.

    Returns
    -------
    str
        Markdown, with the marks of `ClaimText.marks` after the verdict, which is a link to the
        notebook behind it. The numbers have no
        sentence if the verdict after Holm's correction is not the one that it was written for. The
        sentence of the claim that follows (`Finding.followed_by`) is left out in that case.
    """
    row = rows.loc[finding.claim]
    claim = describe_claim(row)
    words = claim.corrected
    if claim.cause:
        words = claim.kind
    verdict = f"{words[:1].upper()}{words[1:]}{''.join(claim.marks)}"
    verdict = f"[{verdict}](notebooks/{finding.notebook}.ipynb)"
    if claim.withdrawn:
        verdict += f" (before the correction: {claim.before_correction})"
    text = _fill(finding, finding.brief, row, claim)
    if text is None:
        return f"*{finding.claimed}* **{verdict}:** {claim.estimate}."
    if finding.qualifier:
        verdict += f" {finding.qualifier}"
    text += _following(finding, rows)
    return f"*{finding.claimed}* **{verdict}:** {text}"


def _following(finding: Finding, rows: pd.DataFrame) -> str:
    """Return the sentence about the claim that follows; empty if it has another verdict."""
    if not finding.followed_by:
        return ""
    following = read_findings().by_claim[finding.followed_by]
    row = rows.loc[following.claim]
    text = _fill(following, following.brief, row, describe_claim(row))
    if text is None:
        return ""
    return f" {text}"


def _in_other_reading(finding: Finding, readings: Sequence[ReadingVerdict]) -> str:
    """Return the sentence about another reading; empty if it was written for another verdict."""
    other = finding.other_reading
    if other is None:
        return ""
    for reading in readings:
        if (reading.reading, reading.verdict) == (other.reading, other.verdict):
            numbers = {
                "value": _scaled(reading.estimate, finding),
                "interval": f"{_scaled(reading.low, finding)} to {_scaled(reading.high, finding)}",
            }
            return " " + other.sentence.format(**numbers)
    return ""


def _fill(finding: Finding, sentence: str, row: pd.Series, claim: ClaimText) -> str | None:
    """Return a sentence with its numbers; None if it was written for another verdict."""
    if claim.interval is None or claim.corrected != finding.verdict:
        return None
    return sentence.format(**_write_numbers(finding, row))


def _write_numbers(finding: Finding, row: pd.Series) -> dict[str, str]:
    """Return what the braces in the words of a finding stand for."""

    def write(value: float) -> str:
        return _scaled(value, finding)

    region = claims()[finding.claim].region
    if math.isinf(row["high"]):
        interval = f"at least {write(row['low'])}: some runs never get there"
    elif row["low"] == 0 and row["estimate"] == 0:
        interval = f"at most {write(row['high'])}"
    else:
        interval = f"{write(row['low'])} to {write(row['high'])}"
    if not math.isnan(row["published"]):
        interval += f"; published: {write(row['published'])}"
    return {
        "value": write(row["estimate"]),
        "interval": interval,
        "decided_by": _quote_networks(row),
        "task": row["decided_on"],
        "images": _without_padding(row["decided_on"]),
        "threshold": write(_threshold(region)),
        "limit": write(region.below),
        "steps": _short_steps(row),
    }


def _scaled(value: float, finding: Finding) -> str:
    """Write a number as a finding shows it."""
    if value == 0:
        return "0"
    return f"{value * finding.scale:,.{finding.digits}f}".replace("-", "−")


def _without_padding(task: str) -> str:
    """Return the images of a task, for a sentence that already says how much noise follows."""
    return task.removesuffix(" Pad12x")


def _short_steps(row: pd.Series) -> str:
    """Return how many of the paper's training steps our runs take; empty if they are as long."""
    steps = row.get("steps", math.nan)
    paper_steps = row.get("paper_steps", math.nan)
    if steps < paper_steps:
        return f", after {steps:,.0f} of the paper's {paper_steps:,.0f} training steps"
    return ""


def _threshold(region: Region) -> float:
    """Return the end of a region that is open to one side; the lower one if it has two."""
    if math.isinf(region.above):
        return region.below
    return region.above


def _quote_networks(row: pd.Series) -> str:
    """Return networks and task of an estimate, or nothing if the claim is about a single pair.

    The networks are in quotation marks, because the name of one may be a word.
    """
    if not row["decided_by"]:
        return ""
    return f"“{row['decided_by']}” on {_without_padding(row['decided_on'])}"


def _state_claim(claim: ClaimText) -> str:
    """Return a claim and its verdict as a sentence."""
    text = f"{begin_sentence(claim.statement)}: {claim.corrected}"
    if claim.interval:
        text += f" ({claim.estimate})"
    return f"{text}."


def _caveat(row: pd.Series) -> str:
    """Return the caveats about a verdict that agrees, as sentences.

    These are that runs are shorter than the paper's, and that the verdict is not robust.
    """
    if row["verdict"] != AGREES:
        return ""
    caveats = []
    if not pd.isna(row.get("steps")):
        name = PUBLICATIONS[row["paper"]].name
        short = lead_caveat(claims()[row["id"]], int(row["steps"]))
        caveats.append(short.replace("the paper's", f"the {name} paper's"))
    for caveat in read_caveats(row["caveat"]):
        if caveat.startswith(NOT_ROBUST):
            caveats.append(caveat)
    sentences = [f" {begin_sentence(text)}." for text in caveats if text]
    return "".join(sentences)
