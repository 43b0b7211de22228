"""What became of the papers' claims, over all sets of results."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from study.claims.claim import Region, claim_table, claims
from study.claims.correction import (
    benjamini_hochberg_adjusted,
    corrected_verdicts,
    holm_adjusted,
)
from study.claims.estimates import Cause
from study.claims.verdict import (
    AGREES,
    DIFFERS,
    NO_EFFECT,
    UNDECIDED,
    VERDICTS,
    WITHIN,
    displayed_verdict,
)
from study.report.inputs import NO_PROFILE, SIMULATED, Artefact, read_table
from study.report.numbers import counted, significant
from study.results.names import PUBLICATIONS

NOT_JUDGED = "not judged yet"
COLUMNS = (AGREES, WITHIN, NO_EFFECT, *VERDICTS[1:], NOT_JUDGED)
"""Verdicts as pages show them, in the order of tables."""
DECIDED = (AGREES, DIFFERS, WITHIN, NO_EFFECT)
"""Verdicts of claims that the results decide."""
TOO_SMALL = "too small to test"
OTHER = "otherwise not testable"
_KINDS = {
    AGREES: "agree",
    DIFFERS: "differ",
    UNDECIDED: "undecided",
    WITHIN: "“no effect”, not refuted",
    NO_EFFECT: "“no effect”, not refuted",
}
TALLY = ("agree", "differ", "undecided", TOO_SMALL, OTHER, "“no effect”, not refuted")
"""Columns of the tally; `kind_of` says which of them counts a claim."""
CAUSES = {
    Cause.TOO_SMALL: "too few training steps, runs or test sequences to decide",
    Cause.NO_DATA: "the paper's data, or runs on them, are missing",
    Cause.NO_SEEDS: "fewer than two runs, so there is no interval",
    Cause.THRESHOLD: "undecided at our threshold, but decided at half or at twice it",
    Cause.PREMISE: "what the claim takes for granted is not so, such as that a network learned",
}
"""Why claims are not testable, in words."""
_UNTESTED = {
    Cause.TOO_SMALL: "Too small to tell",
    Cause.NO_DATA: "No data",
    Cause.NO_SEEDS: "Too few runs to tell",
    Cause.THRESHOLD: "Depends on our threshold",
    Cause.PREMISE: "Premise not met",
}
"""The same in words that begin a sentence."""
_SIZES = ("sequences", "time_steps", "epochs", "width", "replicates")
_SCALE = {
    "sequences": lambda n: counted(n, "sequence"),
    "time_steps": lambda n: f"T = {int(n):,}",
    "epochs": lambda n: counted(n, "epoch"),
    "width": lambda n: f"d = {int(n):,}",
    "replicates": lambda n: counted(n, "replicate"),
    "test_size": lambda n: f"tested on {int(n):,}",
}
_STATUS = {AGREES: "Agrees with the paper", DIFFERS: "Differs from the paper"}
_SEVERAL = {AGREES: "agree", DIFFERS: "differ"}
_UNITS = {
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


class Evidence(NamedTuple):
    """How much weight a set of results has as evidence on a claim, compared from left to right.

    Attributes
    ----------
    measured
        Whether there is an estimate.
    real
        Whether its profile does more than show that the pipeline works.
    papers_data
        Whether it is on the paper's data; what stands in for them judges no claim.
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


def evidence(row: pd.Series) -> Evidence:
    """Return the weight of a judged row; it never depends on the verdict.

    Parameters
    ----------
    row
        A row of a table of claims, with ``judged_by``, the artefact that holds it.
    """
    item = row["judged_by"]
    sizes = [row[name] for name in _SIZES if name in row and pd.notna(row[name])]
    return Evidence(
        measured=pd.notna(row["low"]),
        real=not item.toy,
        papers_data=not item.stand_in,
        learned=item.learned or item.profile == NO_PROFILE,
        at_scale=item.published_scale or item.profile == "paper",
        size=math.prod(sizes),
    )


def judge_claims(found: Iterable[Artefact]) -> pd.DataFrame:
    """Return every claim of the papers with what the results say of it.

    If several sets of results judge a claim, the one with the most `Evidence` stands, never the
    better verdict. Simulated data judge nothing.

    Parameters
    ----------
    found : iterable of Artefact

    Returns
    -------
    pandas.DataFrame
        The columns of `study.claims.claim.claim_table` and of
        `study.claims.judging.judged_row`, and: ``judged_by`` (the artefact that holds the
        verdict), ``verdict``, ``counted`` (one of `COLUMNS`), ``corrected`` and ``discovered``
        (the same after the correction of Holm, and of Benjamini and Hochberg, within each paper),
        ``p_holm`` and ``p_bh`` (p-values after these corrections).
    """
    judged = []
    for item in found:
        if item.kind == "claims" and item.result_set != SIMULATED:
            rows = read_table(item.path(".csv"))
            judged.append(rows.assign(judged_by=[item] * len(rows)))
    listed = claim_table().reset_index(drop=True)
    texts = ("cause", "at_half", "at_double", "null_is", "data", "reservation", "note")
    empty = {"verdict": NOT_JUDGED, **dict.fromkeys(texts, "")}
    if not judged:
        nothing = dict.fromkeys(("counted", "corrected", "discovered"), NOT_JUDGED)
        nothing["low"] = math.nan
        return listed.assign(judged_by=None, p=math.nan, p_holm=math.nan, p_bh=math.nan).assign(
            **empty, **nothing
        )
    rows = pd.concat(judged, ignore_index=True)
    weights = [evidence(row) for _, row in rows.iterrows()]
    order = sorted(range(len(rows)), key=weights.__getitem__, reverse=True)
    weighed = rows.assign(size=[weight.size for weight in weights])
    weighed = weighed.iloc[order].drop_duplicates("id")
    table = listed.merge(weighed, on="id", how="left")
    table = table.astype(dict.fromkeys(empty, object)).fillna(empty)
    table["judged_by"] = [item if pd.notna(item) else None for item in table["judged_by"]]
    table["counted"] = _shown(table["verdict"], table)
    table["corrected"] = _shown(corrected_verdicts(table, "holm"), table)
    table["discovered"] = _shown(corrected_verdicts(table, "benjamini_hochberg"), table)
    by_paper = table.groupby("text")["p"]
    table["p_holm"] = by_paper.transform(holm_adjusted)
    table["p_bh"] = by_paper.transform(benjamini_hochberg_adjusted)
    return table


def _shown(verdicts: pd.Series, table: pd.DataFrame) -> list[str]:
    """Return verdicts as readers see them: agreeing that there is no effect has its own names."""
    rows = zip(verdicts, table["no_effect"], table["null_is"], strict=True)
    return [displayed_verdict(*row) for row in rows]


def count_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Count the claims by verdict.

    Parameters
    ----------
    table : pandas.DataFrame
        As from `judge_claims`.

    Returns
    -------
    pandas.DataFrame
        A row per ``text`` and ``chapter``; columns `COLUMNS`.
    """
    counts = table.groupby(["text", "chapter"], sort=False)["counted"].value_counts().unstack()
    return counts.reindex(columns=list(COLUMNS)).fillna(0).astype(int)


def kind_of(verdict: str, cause: str) -> str:
    """Return the column of the tally that counts a claim.

    Parameters
    ----------
    verdict : str
        One of `COLUMNS`.
    cause : str
        Why it is not testable; empty if it is.
    """
    if verdict in _KINDS:
        return _KINDS[verdict]
    return TOO_SMALL if cause == Cause.TOO_SMALL else OTHER


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
    counts = pd.crosstab(judged["text"], pd.Series(kinds, judged.index))
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
    counts = pd.crosstab(judged["text"], judged["cause"])
    columns = [cause.value for cause in CAUSES]
    counts = counts.reindex(index=list(PUBLICATIONS), columns=columns, fill_value=0)
    counts.loc["all"] = counts.sum()
    counts["total"] = counts.sum(axis="columns")
    return counts


def in_words(counts: pd.Series) -> str:
    """Return numbers of claims as a phrase.

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
            words.append(f"{number} {_SEVERAL.get(kind, kind)}")
    return ", ".join(words)


@dataclass(frozen=True)
class Interval:
    """Where a claim's estimate, interval and region lie on a line from 0 to 100.

    The threshold of the region nearest to the estimate lies at 50, and the region to its right;
    ``far`` is the region's other end. Each claim has its own scale.
    """

    estimate: float
    low: float
    high: float
    far: float
    published: float | None


@dataclass(frozen=True)
class ClaimText:
    """What pages say of a claim; each text is empty if there is nothing to say.

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
        What else there is to know about the estimate.
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
    """Return what pages say of a claim.

    Parameters
    ----------
    row : pandas.Series
        A row of `judge_claims`.
    """
    region = claims()[row["id"]].region
    unit = unit_of(row)
    where = f"Section {row['section']}"
    if row["page"]:
        where += f", page {row['page']}"
    null = ""
    if row["null_is"]:
        null = f"{row['null']:g} {row['null_is']}"
    value, note, interval = "", "", None
    estimate = row["note"]
    if pd.notna(row.get("low")):
        low, high = significant(row["low"]), significant(row["high"])
        value = f"{significant(row['estimate'])} ({low} to {high})"
        estimate = f"{value} {unit}".strip()
        note = row["note"]
        interval = place_interval(row, region)
    return ClaimText(
        id=row["id"],
        statement=row["statement"],
        quantity=row["quantity"],
        region=region_words(region),
        where=where,
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


def scale_words(row: pd.Series) -> str:
    """Return how large the experiment behind a claim was, and on which data."""
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
    """Return the unit of a claim's quantity: its column ``unit``, or what its words name."""
    if isinstance(row.get("unit"), str) and row["unit"]:
        return row["unit"]
    for phrase, unit in _UNITS.items():
        if phrase in row["quantity"]:
            return unit
    return ""


def region_words(region: Region) -> str:
    """Return a region in words, such as ``above 0.05``."""
    if math.isinf(region.above):
        return f"below {region.below:g}"
    if math.isinf(region.below):
        return f"above {region.above:g}"
    return f"between {region.above:g} and {region.below:g}"


def p_words(p: float) -> str:
    """Return a p-value for reading."""
    if pd.isna(p):
        return ""
    if p < 1e-4:
        return "below 0.0001"
    return f"{min(p, 1.0):.2g}"


def _published(value: float, region: Region) -> str:
    """Return the paper's own value, and say so if it lies outside the claim's region."""
    if math.isnan(value):
        return ""
    if region.contains(value, value):
        return f"{value:g}"
    return f"{value:g}, which does not bear the claim out"


def place_interval(row: pd.Series, region: Region) -> Interval:
    """Return where to draw a claim's interval; see `Interval`.

    An end at infinity is drawn at the edge.
    """
    estimate, low, high = row["estimate"], row["low"], row["high"]
    ends = [end for end in (region.above, region.below) if math.isfinite(end)]
    threshold = min(ends, key=lambda end: abs(end - estimate))
    sign, far = 1.0, region.below
    if threshold == region.below:
        sign, far = -1.0, region.above
    distances = [
        abs(end - threshold)
        for end in (estimate, low, high, row["published"])
        if math.isfinite(end)
    ]
    span = max(distances) or 1.0

    def place(value: float) -> float:
        away = sign * (value - threshold) / span
        return 50 + 45 * max(-1.1, min(1.1, away))

    first, last = sorted((place(low), place(high)))
    published = None
    if not math.isnan(row["published"]):
        published = place(row["published"])
    return Interval(place(estimate), first, last, min(place(far), 100.0), published)
