"""Sentences of the front page and of README.md, with numbers from the judged claims.

``findings.yaml`` next to this file holds the sentences; no number of a result is typed there.
"""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd
from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from study.claims.caveats import NOT_ROBUST, read_caveats
from study.claims.listed import claims
from study.claims.region import Region
from study.claims.short_runs import lead_caveat, steps_in_words
from study.claims.verdict import AGREES
from study.report.claim_text import ClaimText, describe_claim
from study.report.numbers import counted

_FILE = Path(__file__).with_name("findings.yaml")


class Finding(BaseModel):
    """A sentence about one claim, written for one verdict on it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: str
    verdict: str
    scale: float
    digits: int
    sentence: str
    short: str = ""
    """The sentence of README.md; empty if the claim is not among its findings."""
    qualifier: str = ""
    """Words that follow the verdict if it holds only in a part, such as in one reading."""


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


class Topic(BaseModel):
    """An entry of the findings in README.md: the short sentences about `claims`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    notebook: str
    claims: tuple[str, ...]


class Findings(BaseModel):
    """The content of ``findings.yaml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    questions: tuple[FrontPageQuestion, ...]
    summary: tuple[Summary, ...]
    readme: tuple[Topic, ...]

    def of_topic(self, topic: Topic) -> list[Finding]:
        """Return the findings that an entry of README.md prints.

        Parameters
        ----------
        topic : Topic
            One of `readme`.

        Returns
        -------
        list of Finding
            Those of the questions that it names by their claim.
        """
        known = {}
        for question in self.questions:
            for finding in question.findings:
                known[finding.claim] = finding
        return [known[claim] for claim in topic.claims]


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


def write_sentence(finding: Finding, row: pd.Series) -> Sentence:
    """Return a finding with its numbers, and a sentence about a lead in short runs.

    Parameters
    ----------
    finding : Finding
    row : pandas.Series
        The claim's row of `study.report.verdicts.judge_claims`.

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
    return Sentence(text + _caveat(row), claim, finding.qualifier)


def write_short_sentence(finding: Finding, row: pd.Series) -> Sentence:
    """Return a finding with its numbers, in the words of README.md.

    Parameters
    ----------
    finding : Finding
        One with a `short` sentence.
    row : pandas.Series
        The claim's row of `study.report.verdicts.judge_claims`.

    Returns
    -------
    Sentence
        The finding's short sentence, or the claim and its verdict as for `write_sentence`.
    """
    claim = describe_claim(row)
    size = ""
    if not math.isnan(row["replicates"]):
        size += f"; {counted(row['replicates'], 'seed')}"
    text = _fill(finding, finding.short, row, claim, more=size)
    if text is None:
        return Sentence(_state_claim(claim), claim)
    return Sentence(text, claim, finding.qualifier)


def _fill(
    finding: Finding, sentence: str, row: pd.Series, claim: ClaimText, more: str = ""
) -> str | None:
    """Return a sentence with its numbers; None if it was written for another verdict.

    `more` follows the interval and the paper's value.
    """
    if claim.interval is None or claim.corrected != finding.verdict:
        return None

    def write(value: float) -> str:
        return f"{value * finding.scale:,.{finding.digits}f}".replace("-", "−")

    if math.isinf(row["high"]):
        interval = f"at least {write(row['low'])}"
    elif row["low"] == 0 and row["estimate"] == 0:
        interval = f"at most {write(row['high'])}"
    else:
        interval = f"{write(row['low'])} to {write(row['high'])}"
    published = ""
    if not math.isnan(row["published"]):
        published = write(row["published"])
        interval += f"; paper: {published}"
    interval += more
    return sentence.format(
        value=write(row["estimate"]),
        interval=interval,
        published=published,
        decided_by=_quote_networks(row),
        threshold=write(_threshold(claims()[finding.claim].region)),
        shorter=_shorter(row),
    )


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
    return f"“{row['decided_by']}” on {row['decided_on']}"


def _state_claim(claim: ClaimText) -> str:
    """Return a claim and its verdict as a sentence."""
    text = f"{claim.statement[:1].upper()}{claim.statement[1:]}: {claim.corrected}"
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
        caveats.append(lead_caveat(claims()[row["id"]], int(row["steps"])))
    for caveat in read_caveats(row["caveat"]):
        if caveat.startswith(NOT_ROBUST):
            caveats.append(caveat)
    sentences = [f" {text[:1].upper()}{text[1:]}." for text in caveats if text]
    return "".join(sentences)


def _shorter(row: pd.Series) -> str:
    """Return how much shorter our runs are than the paper's; empty if that is unknown."""
    if pd.isna(row.get("steps")) or pd.isna(row.get("paper_steps")):
        return ""
    return steps_in_words(int(row["steps"]), row["paper_steps"])
