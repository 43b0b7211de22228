"""The texts' claims as data, and their verdicts: computed by one rule from an estimate with an interval.

`data/published/claims.csv` lists every claim: its words, where they stand, the quantity that decides it, and the region in
which that quantity must lie for the claim to be true. A judge is a function that finds the quantity, with a 95 % interval,
in a set of results; it stands with the analysis of its experiment::

    judges = Judges("adding")

    @judges.judge("diss-2.9-lu-100", false=no_network_learns)
    def lu_rnn_learns(ds) -> Finding:
        return geometric_mean(errors(ds, "lu_rnn", 100) / GUESS, scale(ds))

    judged = judges(ds)  # a row per claim: estimate, interval, power, scale, verdict

Every judge says how data are drawn in which its claim is false; `tests/test_claims.py` draws them and demands that hardly
any verdict is "agrees". What holds whatever the data is no claim and is not listed.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import stats

from lib.paths import PUBLISHED

AGREES, DIFFERS, UNDECIDED, UNTESTABLE = (
    "agrees",
    "differs",
    "undecided",
    "not testable at this scale",
)
VERDICTS = (AGREES, DIFFERS, UNDECIDED, UNTESTABLE)
NO_EFFECT = "no effect found"
"""What "agrees" is called where the claim says that there is no effect: shuffled data agree as well."""
CONFIDENCE = 0.95
FOUND = 0.8
"""Chance with which a minimum detectable effect would be found."""
ENOUGH_POWER = 0.5
"""Least chance of "agrees", were the text right, at which an undecided claim counts as tested."""


class ClaimError(LookupError):
    """A claim was judged that no text makes, or the list of claims is damaged."""


@dataclass(frozen=True)
class Region:
    """An open interval of numbers.

    >>> Region.parse("> 0.5"), Region.parse("0.02 .. 0.13")
    (Region(low=0.5, high=inf), Region(low=0.02, high=0.13))
    """

    low: float
    high: float

    @classmethod
    def parse(cls, text: str) -> "Region":
        """Return the region written as ``> a``, ``< b`` or ``a .. b``.

        Raises
        ------
        ClaimError
            The text is none of these.
        """
        try:
            if text.startswith(">"):
                return cls(float(text[1:]), math.inf)
            if text.startswith("<"):
                return cls(-math.inf, float(text[1:]))
            low, high = map(float, text.split(".."))
        except ValueError:
            raise ClaimError(
                f"the region of a claim is {text!r}; expected '> a', '< b' or 'a .. b'"
            ) from None
        return cls(low, high)

    def holds(self, low: float, high: float) -> bool:
        """Return whether all numbers from `low` to `high` lie inside."""
        return self.low < low and high < self.high

    def misses(self, low: float, high: float) -> bool:
        """Return whether all numbers from `low` to `high` lie outside."""
        return high <= self.low or low >= self.high


@dataclass(frozen=True)
class Scale:
    """How large the experiment behind a finding was; None where a word does not apply."""

    sequences: int | None = None
    epochs: int | None = None
    width: int | None = None
    replicates: int | None = None
    test_size: int | None = None


@dataclass(frozen=True)
class Finding:
    """What a judge found.

    Attributes
    ----------
    value, low, high
        The quantity and the ends of its 95 % interval; undefined where nothing can be said.
    scale
        Of the experiment.
    trials
        Where the quantity is a share: of how many.
    note
        What a reader must know beside it; the reason where nothing can be said.
    ratio
        Whether it is a ratio, whose interval is that of its logarithm.
    """

    value: float
    low: float
    high: float
    scale: Scale = field(default_factory=Scale)
    trials: int | None = None
    note: str = ""
    ratio: bool = False


def verdict(finding: Finding, region: Region, published: float = math.nan) -> tuple[str, float]:
    """Return what `finding` says of a claim that is true in `region`, one of `VERDICTS`, and its power.

    The interval decides: inside the region the claim agrees, outside it differs. In between it is undecided; where the
    experiment is so small that it could hardly have agreed, it is no test at this scale. Power is the chance that an
    experiment of this size agrees where the `published` value is the truth, undefined where that cannot be said.
    """
    power = _power(finding, region, published)
    if math.isnan(finding.low) or math.isnan(finding.high):
        return UNTESTABLE, power
    if region.holds(finding.low, finding.high):
        return AGREES, power
    if region.misses(finding.low, finding.high):
        return DIFFERS, power
    return (UNTESTABLE if power < ENOUGH_POWER else UNDECIDED), power


def _power(finding: Finding, region: Region, published: float) -> float:
    if finding.trials is not None and math.isnan(published):
        published = float(region.high > 1)  # the best case: all of them, or none
    if not region.holds(published, published) or math.isnan(finding.low):
        return math.nan  # what the text's own number contradicts, or nobody measured, has no power
    if finding.trials is not None:
        chances = stats.binom.pmf(np.arange(finding.trials + 1), finding.trials, published)
        agree = [region.holds(*_exact(k, finding.trials)) for k in range(finding.trials + 1)]
        return float(chances[agree].sum())
    numbers = np.array(
        [finding.low, finding.value, finding.high, published, region.low, region.high]
    )
    if finding.ratio:  # a published zero is a very small ratio
        numbers[:4] = np.log(numbers[:4].clip(np.finfo(float).tiny))
        with np.errstate(divide="ignore"):
            numbers[4:] = np.log(numbers[4:].clip(0))
    low, value, high, truth, *ends = numbers
    error = (high - low) / 2 / stats.norm.ppf((1 + CONFIDENCE) / 2)
    if not error:
        return 1.0
    margins = np.array([value - low, value - high])
    inside = stats.norm.cdf(ends + margins - truth, scale=error)
    return float(max(inside[1] - inside[0], 0.0))


@cache
def _listed() -> pd.DataFrame:
    table = pd.read_csv(
        PUBLISHED / "claims.csv", dtype={"chapter": str, "page": str}, keep_default_na=False
    )
    if table["id"].duplicated().any():
        raise ClaimError(
            f"claims.csv lists {table['id'][table['id'].duplicated()].iloc[0]!r} twice"
        )
    regions = table["region"].map(Region.parse)
    for name in ("null", "published"):
        table[name] = pd.to_numeric(table[name])
    table["no_effect"] = [
        region.holds(null, null) for region, null in zip(regions, table["null"], strict=True)
    ]
    return table.set_index("id", drop=False)


def claims() -> pd.DataFrame:
    """Return the claims of the texts, by id.

    Returns
    -------
    pandas.DataFrame
        Columns ``id``, ``text``, ``chapter``, ``section``, ``page``, ``said`` (the text's words where they are short),
        ``artefact``, ``quantity``, ``region`` (where it must lie for the claim to be true), ``null`` (the quantity's value where there is
        nothing to find: a shuffled metric, networks that are equal or that guess; empty where that is not the question), ``published`` (the text's own value, empty where it has
        none), ``refuted_by``, and ``no_effect``: whether the claim is true where there is nothing to find.
    """
    return _listed().copy()


Judge = Callable[[object], Finding]
Draw = Callable[[np.random.Generator], object]
"""Draws evidence from a generator."""


class Judges:
    """The judges of one experiment, in the order in which they are written.

    Parameters
    ----------
    experiment
        What they judge, such as ``"adding"``.
    """

    everywhere: ClassVar[dict[str, "Judges"]] = {}
    """All that were imported, by experiment; the test of false data goes through them."""

    def __init__(self, experiment: str) -> None:
        self.judges: dict[str, Judge] = {}
        self.false: dict[str, Draw] = {}
        self.true: dict[str, Draw] = {}
        if experiment in self.everywhere:
            raise ClaimError(f"two sets of judges are called {experiment!r}; rename one of them")
        self.everywhere[experiment] = self

    def __call__(self, evidence: object) -> pd.DataFrame:
        """Judge every claim of the experiment.

        Parameters
        ----------
        evidence
            What the judges read: a dataset of results, or whatever an analysis made of it.

        Returns
        -------
        pandas.DataFrame
            ``id``, ``verdict``, ``estimate``, ``low``, ``high``, ``power``, the fields of `Scale`, and ``note``.
        """
        drawn = getattr(evidence, "attrs", {}).get("profile") == "simulated"
        nothing = unable("no network was trained: drawn from the published tables")
        return pd.DataFrame(
            [
                judged_row(name, nothing if drawn else judge(evidence))
                for name, judge in self.judges.items()
            ]
        )

    def add(self, claim: str, judge: Judge, *, false: Draw, true: Draw | None = None) -> Judge:
        """Make `judge` the judge of `claim`.

        Parameters
        ----------
        claim
            An id of `claims`.
        judge
            Finds the quantity in the evidence.
        false, true
            Draw evidence in which the claim is false, and, where given, clearly true: a judge that has a difference the wrong way round
            is never persuaded by false evidence either.

        Raises
        ------
        ClaimError
            No text makes the claim, or another judge has it.
        """
        if claim not in _listed().index:
            raise ClaimError(f"no claim {claim!r} in data/published/claims.csv; add it there first")
        if any(claim in others.judges for others in self.everywhere.values()):
            raise ClaimError(f"two judges for the claim {claim!r}; remove one")
        self.judges[claim], self.false[claim] = judge, false
        if true is not None:
            self.true[claim] = true
        return judge

    def judge(
        self, claim: str, *, false: Draw, true: Draw | None = None
    ) -> Callable[[Judge], Judge]:
        """As `add`, as a decorator of the judge."""
        return lambda function: self.add(claim, function, false=false, true=true)


def judged_row(claim: str, finding: Finding) -> dict:
    """Return the row of a table made by `Judges` that says what `finding` means for `claim`."""
    listed = _listed().loc[claim]
    said, power = verdict(finding, Region.parse(listed["region"]), listed["published"])
    notes = [finding.note] if finding.note else []
    if listed["no_effect"] and not math.isnan(finding.low):
        notes.append(
            f"a claim of no effect: shuffled data agree as well, what counts is the interval; a distance of {detectable(finding):.2g} from {listed['null']:g} "
            "would have been found in four cases out of five"
        )
    return {
        "id": claim,
        "verdict": said,
        "estimate": finding.value,
        "low": finding.low,
        "high": finding.high,
        "power": power,
        **asdict(finding.scale),
        "note": "; ".join(notes),
    }


def sentences(judged: pd.DataFrame) -> list[str]:
    """Return one sentence in Markdown for each row of a table made by `Judges`."""
    out = []
    for row in judged.itertuples():
        claim = _listed().loc[row.id]
        found = f"{row.estimate:.3g} [{row.low:.3g}, {row.high:.3g}]"
        if math.isnan(row.low):
            found = row.note or "nothing could be measured"
        said = NO_EFFECT if claim.no_effect and row.verdict == AGREES else row.verdict
        beside = f" Note: {row.note}." if row.note and not math.isnan(row.low) else ""
        out.append(
            f"“{claim.said}” **{said}** ({claim.quantity}: {found}; asked: {claim.region}).{beside}"
        )
    return out


def detectable(finding: Finding) -> float:
    """Return the smallest effect that an interval as wide as this one would show with a probability of 0.8 (`FOUND`)."""
    reach = stats.norm.ppf((1 + CONFIDENCE) / 2)
    return (reach + stats.norm.ppf(FOUND)) * (finding.high - finding.low) / (2 * reach)


def unable(reason: str, scale: Scale | None = None) -> Finding:
    """Return the finding of a judge that cannot say anything, and why."""
    return Finding(math.nan, math.nan, math.nan, scale or Scale(), note=reason)


def share(successes: int, trials: int, scale: Scale | None = None) -> Finding:
    """Return a share with its exact binomial interval (Clopper and Pearson)."""
    if not trials:
        return unable("no trial was made", scale)
    low, high = _exact(successes, trials)
    return Finding(successes / trials, low, high, scale or Scale(), trials)


def _exact(successes: int, trials: int) -> tuple[float, float]:
    return tuple(stats.binomtest(successes, trials).proportion_ci(CONFIDENCE))


def mean(values: Iterable[float], scale: Scale | None = None) -> Finding:
    """Return the mean of independent values with Student's interval; one value alone says nothing."""
    values = np.asarray(list(values), float)
    if len(values) < 2:
        return unable("fewer than two replicates give no interval", scale)
    if not np.isfinite(values).all():
        return _infinite(values, scale)
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * stats.sem(values)
    return Finding(values.mean(), values.mean() - half, values.mean() + half, scale or Scale())


def _infinite(values: np.ndarray, scale: Scale | None) -> Finding:
    bad = int((~np.isfinite(values)).sum())
    return unable(f"{bad} of {len(values)} replicates gave no finite value", scale)


def geometric_mean(values: Iterable[float], scale: Scale | None = None) -> Finding:
    """Return the geometric mean of positive values with the interval of their logarithms."""
    with np.errstate(divide="ignore"):  # the logarithm of zero is refused with a reason
        return exponential(mean(np.log(np.asarray(list(values), float)), scale))


def difference(
    ours: Iterable[float], others: Iterable[float], scale: Scale | None = None
) -> Finding:
    """Return the difference of two means with Welch's interval."""
    ours, others = (np.asarray(list(values), float) for values in (ours, others))
    if min(len(ours), len(others)) < 2:
        return unable("fewer than two replicates on a side give no interval", scale)
    if not np.isfinite([*ours, *others]).all():
        return _infinite(np.append(ours, others), scale)
    with np.errstate(invalid="ignore", divide="ignore"):
        interval = stats.ttest_ind(ours, others, equal_var=False).confidence_interval(CONFIDENCE)
    value = ours.mean() - others.mean()
    if np.ptp(ours) == 0 == np.ptp(others):
        return Finding(value, value, value, scale or Scale())
    return Finding(value, *map(float, interval), scale or Scale())


def correlation(one: Iterable[float], two: Iterable[float], scale: Scale | None = None) -> Finding:
    """Return Spearman's rank correlation with Fisher's interval, widened for ranks (Bonett and Wright 2000)."""
    one, two = (np.asarray(list(values), float) for values in (one, two))
    if len(one) < 5 or np.ptp(one) == 0 or np.ptp(two) == 0:
        return unable(f"{len(one)} points that hardly vary give no correlation", scale)
    rho = float(stats.spearmanr(one, two).statistic)
    at = math.atanh(np.clip(rho, -0.999999, 0.999999))
    half = stats.norm.ppf((1 + CONFIDENCE) / 2) * math.sqrt((1 + rho**2 / 2) / (len(one) - 3))
    return Finding(rho, math.tanh(at - half), math.tanh(at + half), scale or Scale())


def magnitude(found: Finding) -> Finding:
    """Return the absolute value of a quantity, with the interval that its own gives."""
    near, far = sorted((abs(found.low), abs(found.high)))
    near = 0.0 if found.low <= 0 <= found.high else near
    return replace(found, value=abs(found.value), low=near, high=far)


def _notes(found: Iterable[Finding]) -> str:
    return "; ".join(dict.fromkeys(one.note for one in found if one.note))


def smallest(findings: Iterable[Finding]) -> Finding:
    """Return the smallest of several quantities: it exceeds a bound where all of them do.

    "All exceed it" is said of the smallest lower end, wrongly no more often than of a single quantity (an
    intersection-union test). "One does not" could be said of any of them, so the upper ends are widened after Bonferroni.
    Where one quantity says nothing, nothing can be said of all.
    """
    found, wider = _together(findings)
    if not wider:
        return found[0]
    return Finding(
        min(one.value for one in found),
        min(one.low for one in found),
        min(one.value + wider * (one.high - one.value) for one in found),
        found[0].scale,
        note=_notes(found),
        ratio=all(one.ratio for one in found),
    )


def largest(findings: Iterable[Finding]) -> Finding:
    """Return the largest of several quantities, as `smallest` does: it stays below a bound where all of them do."""
    found, wider = _together(findings)
    if not wider:
        return found[0]
    return Finding(
        max(one.value for one in found),
        max(one.value - wider * (one.value - one.low) for one in found),
        max(one.high for one in found),
        found[0].scale,
        note=_notes(found),
        ratio=all(one.ratio for one in found),
    )


def _together(findings: Iterable[Finding]) -> tuple[list[Finding], float]:
    """Return the findings and by how much Bonferroni widens their intervals, or the one that says nothing and 0."""
    findings = list(findings) or [unable("nothing was measured")]
    if silent := [found for found in findings if math.isnan(found.low)]:
        return silent[:1], 0.0
    tail = (1 - CONFIDENCE) / 2
    return findings, stats.norm.isf(tail / len(findings)) / stats.norm.isf(tail)


def exponential(found: Finding) -> Finding:
    """Return a finding on logarithms as one on what they are the logarithms of."""
    ends = (math.exp(end) for end in (found.value, found.low, found.high))
    return Finding(*ends, found.scale, note=found.note, ratio=True)
