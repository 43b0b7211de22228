"""The texts' claims as data, and their verdicts: computed by one rule from an estimate with an interval.

`data/published/claims.csv` lists every claim: its words, where they stand, the quantity that decides it, and the region in
which that quantity must lie for the claim to be true. Most are one verb on the networks of a group and are judged by
`study.stats.verbs`. An estimator of its own is a judge, a function that finds the quantity with its 95 % interval; `Judges` make a row per claim of it.

`tests/test_claims.py` draws data in which the claim of each judge is false and demands that hardly any verdict is "agrees". What
holds whatever the data is no claim and is not listed.
"""

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cache

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from study.paths import PUBLISHED

AGREES, DIFFERS, UNDECIDED = "agrees", "differs", "undecided"
UNTESTABLE = "not testable at this scale"
VERDICTS = (AGREES, DIFFERS, UNDECIDED, UNTESTABLE)
NO_EFFECT = "no effect found"
"""What "agrees" is called where the claim says that there is no effect, and the interval holds the value of none."""
WITHIN = "within the stated border"
"""What it is called where the interval leaves that value out: an effect is there, no larger than the claim allows."""
TOYS = ("smoke", "quick", "simulated")
"""Profiles whose results judge nothing: they prove that the pipeline runs."""
CONFIDENCE = 0.95
_TAIL = (1 - CONFIDENCE) / 2
Z = float(stats.norm.isf(_TAIL))
DETECTED = 0.8
"""Chance with which a minimum detectable effect would be found."""
ENOUGH_POWER = 0.5
"""Least chance of "agrees", were the text right, at which an experiment tests a claim."""
SEEDS = 5
"""Trainings that each side of a comparison needs: of three and three no exchange of labels reaches p < .10."""
OPTIONAL = ("group", "task", "verb", "one", "others", "measure", "steps")
"""Columns of the list that a claim with an estimator of its own leaves empty."""


class ClaimError(LookupError):
    """The list of claims is damaged, or none of them is about what was asked."""


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
        """Return the region written as ``> a``, ``< b`` or ``a .. b``."""
        ends = {">": (text[1:], "inf"), "<": ("-inf", text[1:])}.get(text[:1], text.split(".."))
        with contextlib.suppress(ValueError):
            low, high = map(float, ends)
            if low < high:
                return cls(low, high)
        raise ClaimError(f"the region of a claim is {text!r}; expected '> a', '< b' or 'a .. b'")

    def holds(self, low: float, high: float) -> bool:
        """Return whether all numbers from `low` to `high` lie inside."""
        above, below = self.low < low, high < self.high
        return (above or self.low == -math.inf) and (below or self.high == math.inf)

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
    time_steps: int | None = None  # of the longest sequences
    data: str | None = None  # what was read, in words


@dataclass(frozen=True)
class Finding:
    """What a judge found: a quantity with its 95 % interval, undefined where nothing can be said."""

    value: float
    low: float
    high: float
    scale: Scale = field(default_factory=Scale)
    trials: int | None = None
    """Where the quantity is a share: of how many; of several shares, of how many at least."""
    note: str = ""
    """What a reader must know beside it; the reason where nothing can be said."""
    ratio: bool = False  # a ratio, whose interval is that of its logarithm
    of_variance: bool = False
    """Whether it is a share of variance, the square of a correlation: its root, not itself, varies alike whatever its size."""
    reservation: str = ""  # why no verdict may rest on it, whatever its interval
    parts: tuple["Finding", ...] = ()  # the findings of which this is the smallest or the largest
    free: float = math.inf  # degrees of freedom behind the interval
    sampled: float = 0.0
    """Share of the interval's squared width that comes from the draw of the test sequences, which more trainings leave as it is."""
    chance: Callable[[Region, float], float] | None = None
    """Chance that one of this size agrees where a number is the truth; None: as of a share, or `normal_chance`."""


def verdict(
    finding: Finding, region: Region, published: float = math.nan
) -> tuple[str, float, str]:
    """Return what `finding` says of a claim that is true in `region`, one of `VERDICTS`, its power, and what stands against what the interval says, or what it would take.

    The interval decides: inside the region the claim agrees, outside it differs. In between it is undecided, and so it is
    where a reservation stands against the verdict. An experiment that could hardly have agreed is no test at this scale:
    neither can it be undecided, nor differ. Power is the chance that an experiment of this size agrees where the `published` value is
    the truth, undefined where that cannot be said.
    """
    power = _power(finding, region, published)
    if math.isnan(finding.low) or math.isnan(finding.high):
        return UNTESTABLE, power, ""
    for said, found in ((AGREES, region.holds), (DIFFERS, region.misses)):
        if found(finding.low, finding.high):
            if said == DIFFERS and power < ENOUGH_POWER:
                return UNTESTABLE, power, f"would be “{said}”, but {_chance(power)}"
            why = _reservations(finding, region, said)
            return (UNDECIDED if why else said), power, f"would be “{said}”, but {why}" * bool(why)
    said = UNTESTABLE if power < ENOUGH_POWER else UNDECIDED
    return said, power, f"{_chance(power)}; " * (said == UNTESTABLE) + _larger(finding, region)


def _chance(power: float) -> str:
    return f"were the text right, one of this size would agree {power:.0%} of the time"


def _larger(finding: Finding, region: Region) -> str:
    """Return how large an experiment would decide a claim with the chance `DETECTED`, if the estimate is true: errors fall with its root."""
    if finding.high == math.inf:
        return "only longer trainings could say how large it is"
    if not (away := _distance(finding, region)):
        return "the estimate lies on the border itself, where no experiment decides"
    times = detectable(1 / away) ** 2
    size = f"about {times:.2g} times" if times < 100 else "more than a hundred times"
    luck = "; most of its uncertainty is the draw of the test sequences" * (finding.sampled > 0.5)
    return f"were this estimate the truth, an experiment {size} as large would decide it{luck}"


def _reservations(finding: Finding, region: Region, said: str) -> str:
    """Return what stands against a verdict: "all do" needs every part, "one does" and "one does not" any one of those that do."""
    parts, meets = finding.parts or (finding,), region.holds if said == AGREES else region.misses
    against = [part.reservation for part in parts if meets(part.low, part.high)]
    if "" in against and not _of_all(finding, region, said == AGREES):
        return ""
    return "; ".join(dict.fromkeys(filter(None, against)))


def _of_all(finding: Finding, region: Region, inside: bool) -> bool:
    """Return whether lying inside (outside) takes all parts: the largest exceeds a bound where one of them does, the smallest where all do."""
    largest = finding.value > min((part.value for part in finding.parts), default=math.inf)
    return inside != (largest and region.high == math.inf)


def _power(finding: Finding, region: Region, published: float) -> float:
    if finding.trials is not None and math.isnan(published):
        published = float(region.high > 1)  # the best case: all of them, or none
    if not region.holds(published, published) or not math.isfinite(finding.high):
        return math.nan  # what the text's own number contradicts, or nobody measured, has no power
    if finding.chance and (not finding.parts or _of_all(finding, region, inside=True)):
        return finding.chance(region, published)
    if finding.trials is not None:
        return counted_chance(finding.trials, region, published)
    return normal_chance(finding, region, published)


def counted_chance(trials: int, region: Region, truth: float) -> float:
    """Return the chance that a share of so many trials agrees where `truth` is the truth."""
    successes = np.arange(trials + 1)
    low, high = proportion_confint(successes, trials, 1 - CONFIDENCE, "beta")
    agree = (region.low < low) & (high < region.high)
    return float(stats.binom.pmf(successes[agree], trials, truth).sum())


def normal_chance(finding: Finding, region: Region, truth: float) -> float:
    """Return the chance that a normal estimate with an interval as wide as this one agrees where `truth` is the truth."""
    (low, value, high, truth), ends = _on_its_scale(finding, region, truth)
    above = high - value
    below = above if finding.low == 0 and finding.ratio else value - low  # one is open
    error = (below + above) / 2 / Z
    if not error:
        return 1.0
    margins = np.array([below, -above])
    return float(np.diff(stats.norm.cdf(ends + margins - truth, scale=error)).clip(0)[0])


def _on_its_scale(finding: Finding, region: Region, *more: float) -> tuple[np.ndarray, np.ndarray]:
    """Return low, value, high and `more` numbers, and the ends of the region; their logarithms of a ratio, their roots (negative ones of negative numbers) of a share of variance."""
    numbers = np.array([finding.low, finding.value, finding.high, *more])
    ends = np.array([region.low, region.high])
    if finding.ratio:  # zero is a very small ratio
        with np.errstate(divide="ignore"):
            numbers, ends = np.log(numbers.clip(np.finfo(float).tiny)), np.log(ends.clip(0))
    if finding.of_variance:
        numbers, ends = (np.sign(x) * np.sqrt(np.abs(x)) for x in (numbers, ends))
    return numbers, ends


def p_value(finding: Finding, region: Region) -> float:
    """Return the two-sided p of the quantity lying on the other side of the region's nearest border.

    Of an estimate whose interval is this one, of Student's distribution: below .05 exactly where the interval holds no border.
    Of the smallest or the largest of several: what is said of all has their largest p, what is said of one the smallest, after Bonferroni.
    """
    if math.isnan(finding.low):
        return math.nan
    if finding.parts:
        inside = region.holds(finding.value, finding.value)
        every = _of_all(finding, region, inside)
        of = [p for p in finding.parts if every or inside == region.holds(p.value, p.value)]
        each = [p_value(part, region) for part in of]
        return max(each) if every else min(1.0, len(finding.parts) * min(each))
    student = stats.t(finding.free)
    return float(2 * student.sf(student.isf(_TAIL) * _distance(finding, region) / Z))


def _distance(finding: Finding, region: Region) -> float:
    """Return how many standard errors lie between the estimate and the region's nearest border."""
    (low, value, high), ends = _on_its_scale(finding, region)
    sides = np.where(ends < value, value - low, high - value)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nanmin(np.where(ends == value, 0.0, Z * np.abs(value - ends) / sides))


@cache
def claims() -> pd.DataFrame:
    """Return the claims of the texts, by id: one table for all, which nobody may change.

    Columns ``id``, ``text``, ``chapter``, ``section``, ``page``, ``said`` (what the text says, in its words where they are short), ``artefact``,
    ``quantity``, ``region`` (where it must lie for the claim to be true), ``null`` (the quantity's value where there is nothing to
    find: a shuffled metric, networks that are equal or that guess; empty where that is not the question), ``published`` (the text's
    own value, empty where it has none), ``refuted_by``, those of `OPTIONAL` (see `study.stats.verbs`), and ``no_effect``: whether the
    claim is true where there is nothing to find.
    """
    table = pd.read_csv(
        PUBLISHED / "claims.csv", dtype={"chapter": str, "page": str}, keep_default_na=False
    )
    regions = table["region"].map(Region.parse)
    for name in ("null", "published", "steps"):
        table[name] = pd.to_numeric(table[name])
    for name in set(OPTIONAL) - {"steps"}:  # the last columns of a line may be missing
        table[name] = table[name].fillna("").astype(str)
    table["no_effect"] = [r.holds(n, n) for r, n in zip(regions, table["null"], strict=True)]
    return table.set_index("id", drop=False)


Judge = Callable[[object], Finding]


class Judges(dict[str, Judge]):
    """The judges of one experiment, by claim, in the order in which they are written."""

    def __call__(self, evidence: object) -> pd.DataFrame:
        """Judge every claim of the experiment on a dataset of results, or on whatever an analysis made of it."""
        return judged_table(evidence, self)


def judged_table(evidence: object, judges: dict[str, Judge]) -> pd.DataFrame:
    """Return a row for each claim (`judged_row`); results of a profile of `TOYS` judge nothing.

    The profile is the attribute of a dataset, or of the dataset ``ds`` of what was made of one.
    """
    attrs = getattr(getattr(evidence, "ds", evidence), "attrs", {})
    profile, nothing = attrs.get("profile"), None
    if profile in TOYS:
        why = "drawn from the published tables" if profile == "simulated" else "toys judge nothing"
        nothing = unable(f"profile {profile}: {why}")
    rows = [judged_row(name, nothing or judge(evidence)) for name, judge in judges.items()]
    return pd.DataFrame(rows)


def judged_row(claim: str, finding: Finding) -> dict:
    """Return what `finding` means for `claim`.

    ``id``, ``verdict``, ``estimate``, ``low``, ``high``, ``power``, ``p`` (`p_value`), ``null_is`` (whether the value of no effect is ``inside``
    the interval or ``outside``; empty where the claim has none), the fields of `Scale`, and ``note``.
    """
    listed = claims().loc[claim]
    region, null = Region.parse(listed["region"]), listed["null"]
    said, power, against = verdict(finding, region, listed["published"])
    known = not math.isnan(finding.low)
    notes = [note for note in (finding.note, against) if note]
    if listed["no_effect"] and known and said != DIFFERS:
        beside = "shuffled data agree as well, what counts is the interval; " * (said == AGREES)
        error = (finding.high - finding.low) / (2 * Z)
        notes.append(
            f"a claim of no effect: {beside}a distance of {detectable(error):.2g} from {null:g} "
            "would have been found in four cases out of five"
        )
    place = ""
    if known and not math.isnan(null):
        place = "inside" if finding.low <= null <= finding.high else "outside"
    row = {"id": claim, "verdict": said, "estimate": finding.value}
    row |= {"low": finding.low, "high": finding.high, "power": power}
    row |= {"p": p_value(finding, region), "null_is": place, **asdict(finding.scale)}
    return row | {"note": "; ".join(notes)}


def holm_adjusted(p: pd.Series) -> pd.Series:
    """Return p-values after Holm's correction over those that are known (statsmodels' collects garbage at every call, which takes longer than a fit)."""
    ranked = p.dropna().sort_values(kind="stable")
    adjusted = (ranked * np.arange(len(ranked), 0, -1)).cummax().clip(upper=1)
    return adjusted.reindex(p.index)


def holm(judged: pd.DataFrame) -> pd.Series:
    """Return the verdicts after Holm's correction within each text, of all its claims that have a p-value.

    What the correction takes away is undecided. `judged` has the columns ``id``, ``verdict`` and ``p`` of `judged_row`.
    """
    texts = judged["id"].map(claims()["text"])
    lost = judged.groupby(texts)["p"].transform(holm_adjusted) >= 1 - CONFIDENCE
    return judged["verdict"].mask(lost & judged["verdict"].isin((AGREES, DIFFERS)), UNDECIDED)


def called(verdict: str, no_effect: bool, null_is: str) -> str:
    """Return what a verdict is called before readers: `NO_EFFECT` and `WITHIN` are kinds of "agrees"."""
    if not no_effect or verdict != AGREES:
        return verdict
    return WITHIN if null_is == "outside" else NO_EFFECT


def sentences(judged: pd.DataFrame) -> list[str]:
    """Return one sentence in Markdown for each row of a table made by `judged_table`."""
    out = []
    for row in judged.itertuples():
        claim = claims().loc[row.id]
        found = f"{row.estimate:.3g} [{row.low:.3g}, {row.high:.3g}]"
        if math.isnan(row.low):
            found = row.note or "nothing could be measured"
        said = called(row.verdict, claim.no_effect, row.null_is)
        beside = f" Note: {row.note}." if row.note and not math.isnan(row.low) else ""
        out.append(
            f"*{claim.said}*: **{said}** ({claim.quantity}: {found}; asked: {claim.region}).{beside}"
        )
    return out


def detectable(error, *, tests: int = 1, df=math.inf):
    r"""Return the smallest effect that a test at level 0.05 would find with a probability of `DETECTED`.

    .. math:: (t_{1-\alpha/2m} + t_{0.8})\,\mathrm{SE}

    m `tests` share the level; `df` are the degrees of freedom of the standard `error`.
    """
    return (stats.t.isf(_TAIL / tests, df) + stats.t.ppf(DETECTED, df)) * error


def unable(reason: str, scale: Scale | None = None) -> Finding:
    """Return the finding of a judge that cannot say anything, and why."""
    return Finding(math.nan, math.nan, math.nan, scale or Scale(), note=reason)


def share(successes: int, trials: int, scale: Scale | None = None) -> Finding:
    """Return a share with its exact binomial interval (Clopper and Pearson)."""
    if not trials:
        return unable("no trial was made", scale)
    low, high = map(float, proportion_confint(successes, trials, 1 - CONFIDENCE, "beta"))
    return Finding(successes / trials, low, high, scale or Scale(), trials)


def mean(values: Iterable[float], scale: Scale | None = None) -> Finding:
    """Return the mean of independent values with Student's interval; one value alone says nothing."""
    values = np.asarray(list(values), float)
    if refused := _refused(scale, values):
        return refused
    value, free = values.mean(), len(values) - 1
    half = stats.t.isf(_TAIL, free) * stats.sem(values)
    return Finding(value, value - half, value + half, scale or Scale(), free=free)


def _refused(scale: Scale | None, *sides: np.ndarray) -> Finding | None:
    """Return why values give no interval, or None."""
    if min(map(len, sides)) < 2:
        return unable("fewer than two replicates give no interval", scale)
    bad = int((~np.isfinite(np.concatenate(sides))).sum())
    total = sum(map(len, sides))
    return unable(f"{bad} of {total} replicates gave no finite value", scale) if bad else None


def geometric_mean(values: Iterable[float], scale: Scale | None = None) -> Finding:
    """Return the geometric mean of positive values with the interval of their logarithms."""
    with np.errstate(divide="ignore"):  # the logarithm of zero is refused with a reason
        return exponential(mean(np.log(np.asarray(list(values), float)), scale))


def difference(
    ours: Iterable[float], others: Iterable[float], scale: Scale | None = None
) -> Finding:
    """Return the difference of two means with Welch's interval."""
    ours, others = (np.asarray(list(values), float) for values in (ours, others))
    if refused := _refused(scale, ours, others):
        return refused
    value = ours.mean() - others.mean()
    if np.ptp(ours) == 0 == np.ptp(others):
        return Finding(value, value, value, scale or Scale())
    errors = np.array([np.var(side, ddof=1) / len(side) for side in (ours, others)])
    free = errors.sum() ** 2 / (errors**2 / [len(ours) - 1, len(others) - 1]).sum()
    half = stats.t.isf(_TAIL, free) * math.sqrt(errors.sum())
    return Finding(value, value - half, value + half, scale or Scale(), free=free)


def correlation(one: Iterable[float], two: Iterable[float], scale: Scale | None = None) -> Finding:
    """Return Spearman's rank correlation with Fisher's interval, widened for ranks (Bonett and Wright 2000)."""
    one, two = (np.asarray(list(values), float) for values in (one, two))
    if np.isnan([one, two]).any():
        return unable("some of the points have no number", scale)
    if len(one) < 5 or np.ptp(one) == 0 or np.ptp(two) == 0:
        return unable(f"{len(one)} points that hardly vary give no correlation", scale)
    rho = float(stats.spearmanr(one, two).statistic)
    at = math.atanh(np.clip(rho, -0.999999, 0.999999))
    half = Z * math.sqrt((1 + rho**2 / 2) / (len(one) - 3))
    return Finding(rho, math.tanh(at - half), math.tanh(at + half), scale or Scale())


def magnitude(found: Finding) -> Finding:
    """Return the absolute value of a quantity, with the interval that its own gives."""
    near, far = sorted((abs(found.low), abs(found.high)))
    near = 0.0 if found.low <= 0 <= found.high else near

    def chance(region: Region, truth: float) -> float:
        # The quantity itself has a sign, and may lie below zero where its absolute value is small.
        return normal_chance(found, replace(region, low=max(region.low, -region.high)), truth)

    return replace(found, value=abs(found.value), low=near, high=far, chance=chance)


def smallest(findings: Iterable[Finding]) -> Finding:
    """Return the smallest of several quantities: it exceeds a bound where all of them do.

    "All exceed it" is said of the smallest lower end, wrongly no more often than of a single quantity (an
    intersection-union test). "One does not" could be said of any of them, so the upper ends are widened after Bonferroni.
    Where one quantity says nothing, nothing can be said of all.
    """
    return _extreme(list(findings), -1)


def largest(findings: Iterable[Finding]) -> Finding:
    """Return the largest of several quantities, as `smallest` does: it stays below a bound where all of them do."""
    return _extreme(list(findings), 1)


def _extreme(found: list[Finding], sign: int) -> Finding:
    found = found or [unable("nothing was measured")]
    if silent := [one for one in found if math.isnan(one.low)]:
        return silent[0]
    outer = [one.high if sign > 0 else one.low for one in found]
    inner = []
    for one in found:
        wider = stats.t.isf(_TAIL / len(found), one.free) / stats.t.isf(_TAIL, one.free)
        end = one.low if sign > 0 else one.high
        value, logs = one.value, one.ratio and one.value > 0  # an interval of logarithms
        inner.append(value * (end / value) ** wider if logs else value - wider * (value - end))
    chances, trials = [one.chance for one in found], [one.trials for one in found]
    value, outer, inner = (
        sign * max(sign * x for x in ends) for ends in ([one.value for one in found], outer, inner)
    )
    deciding = max(found, key=lambda one: sign * one.value)
    data = dict.fromkeys(one.scale.data for one in found if one.scale.data)
    return Finding(
        value,
        *sorted((outer, inner)),
        replace(deciding.scale, data=", ".join(data) or None),
        note="; ".join(dict.fromkeys(one.note for one in found if one.note)),
        ratio=all(one.ratio for one in found),
        parts=tuple(part for one in found for part in one.parts or (one,)),
        trials=None if None in trials else min(trials),
        free=deciding.free,
        sampled=deciding.sampled,
        chance=(lambda *at: math.prod(one(*at) for one in chances)) if all(chances) else None,
    )


def exponential(found: Finding) -> Finding:
    """Return a finding on logarithms as one on what they are the logarithms of."""
    value, low, high = (math.exp(end) for end in (found.value, found.low, found.high))
    return replace(found, value=value, low=low, high=high, ratio=True)
