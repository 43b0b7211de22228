"""Judge claims that are one verb on the networks of a group, as `data/published/claims.csv` writes them.

    group,   task,     verb,  one,    others,    region
    reviews, IMDB,     lead,  UnICORNN, LSTM;GRU, > -1

`one` and `others` are names separated by ``;``, each met by each, or side by side where there are as many of both. A name is a
label of the dataset; ``LEM, best dt`` the level of a factor that validates best; ``LEM @ N=200`` a network of another task than
`task`, ``LEM @ longest`` one of the longest of these; ``A & B`` the trainings of both; ``all others`` whatever else was
trained. `task` names tasks, too, or is a condition on them, such as ``time_steps >= 2000``; of those that meet it, what was
trained counts. `measure` is one of `study.results.networks.MEASURES`; `steps` is how long the text trains, where that is known. A claim with several pairs or tasks holds where it holds of all,
``apart`` by more than a border where it does of one.

Every answer is a `Finding` over trainings whose epoch was chosen by their validation part. Its interval covers the trainings and, where networks are compared or met
with the guess's accuracy, the draw of the test sequences (not of perplexities and bits): pairs of answers to the same sequence where these were stored, else, of accuracies,
two binomials. A network at the guess is no evidence that another is better, and data that stand in for a text's are none on the text.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial
from itertools import product

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import chi2, norm, t

from study.results import claims, networks
from study.results.claims import ClaimError, Finding, Region, Scale, unable
from study.results.learned import LEAST, above_chance, data_of, stand_in
from study.stats import scales

SOLVED = 0.01
"""Mean squared error below which the adding problem counts as solved; a border of ours, as no text says one."""
LEARNED = 0.1
"""Share of the guess's error below which a network has learned."""
PATIENTS = {"heart rate": 53, "respiratory rate": 53, "heart rate by patient": 8}
"""By task, of how many patients the test windows are: they overlap, and all of one may err alike, so no more of them than patients count."""
UNSETTLED = "some of these networks still improved when their training ended"
"""What a reader must know of a lead: that it may be one in learning fast."""
_TAIL = (1 - claims.CONFIDENCE) / 2


class Networks:
    """The networks of a group, each at its best learning rate.

    ``rows`` are `study.results.networks.trainings` of `task` (of all tasks, where none is named) with ``score`` and ``guess``, the test metric
    and that of guessing, accuracies in per cent. One that diverged before its first record scores as the guess does.
    """

    def __init__(
        self, ds: xr.Dataset, task: str = "", measure: str = "", steps: float = math.nan
    ) -> None:
        self.ds = networks.in_measure(ds, measure) if measure else ds
        rows = networks.trainings(self.ds)
        self.rates = rows.groupby(["label", "task"])["learning_rate"].nunique()
        rows = rows[rows["run"].isin(networks.validated_best(rows, networks.IDENTITY))]
        unit = np.where(rows["metric"] == "accuracy", 100.0, 1.0)
        score = unit * rows["test"].fillna(rows["guess_metric"])
        self.everywhere = rows.assign(score=score, guess=unit * rows["guess_metric"])
        self.measure = measure
        self._turn_to(task, steps)

    def at(self, task: str, steps: float = math.nan) -> "Networks":
        """Return the same networks on one task, on which the text trains for so many `steps`."""
        other = copy(self)
        other._turn_to(task, steps)
        return other

    def _turn_to(self, task: str, steps: float) -> None:
        self.task, self.steps, every = task, steps, self.everywhere
        self.rows = every[every["task"] == task] if task else every
        metric = (every if self.rows.empty else self.rows)["metric"]
        self.higher = bool((metric == "accuracy").any())
        self.unit, self.of = 100.0 if self.higher else 1.0, cache(self._of)

    def _of(self, name: str) -> pd.DataFrame:
        """Return the trainings of a network, which may be none."""
        if " & " in name:
            return pd.concat([self.of(part) for part in name.split(" & ")])
        label, _, task = name.partition(" @ ")
        rows = self.everywhere[self.everywhere["task"] == task] if task else self.rows
        network, _, factor = label.partition(", best ")
        if factor not in rows:
            return rows[rows["label"] == label]
        plain = rows[rows["label"] == network]  # a level, too
        rows = pd.concat([plain, networks.levels_of(rows, network, factor)])
        return rows[rows["run"].isin(networks.validated_best(rows, ["task"]))]

    def labels(self) -> list[str]:
        """Return the networks that were trained."""
        return list(dict.fromkeys(self.rows["label"]))

    def scores(self, name: str) -> np.ndarray:
        """Return the score of each training of a network, (n,)."""
        return self.of(name)["score"].to_numpy()

    def learned(self, name: str) -> bool:
        """Return whether a network is trained and better than guessing, an accuracy beyond chance, an error by a tenth.

        Its trainings' median decides: one that blew up says nothing of the others.
        """
        rows = self.of(name)
        if rows.empty:
            return False
        score, guess = rows["score"].median() / self.unit, rows["guess_metric"].iloc[0]
        if not self.higher:
            return bool(score < LEAST * guess)
        return bool(above_chance(score, guess, int(rows["test_sequences"].iloc[0])))

    def poor(self) -> list[str]:
        """Return the networks that are no better than guessing."""
        return [label for label in self.labels() if not self.learned(label)]

    def scale(self, *names: str) -> Scale:
        """Return how large the experiment behind these networks was."""
        rows = pd.concat(map(self.of, names)).drop_duplicates(["run", "replicate"])
        if rows.empty:
            return Scale()
        sizes = ["sequences", "width", "test_sequences", "time_steps"]
        sequences, width, tested, time_steps = rows[sizes].max().astype(int).tolist()
        least, data = int(rows["run"].value_counts().min()), data_of(rows["task_settings"])
        return Scale(sequences or None, None, width, least, tested, time_steps, data)

    def refusal(self, names: Sequence[str], learned: Iterable[str]) -> Finding | None:
        """Return why nothing can be said: one of `names` was not trained, not on the text's data, or one has not `learned`."""
        if missing := [name for name in names if self.of(name).empty]:
            return unable(f"not trained: {', '.join(missing)}")
        first = self.of(names[0]).iloc[0]
        if instead := stand_in(first["task_settings"], first["substitute"]):
            return unable(instead, self.scale(*names))
        if poor := [name for name in learned if not self.learned(name)]:
            return unable(f"no better than guessing: {', '.join(poor)}", self.scale(*names))
        return None

    def ask(self, verb: str, one: str, other: str = "", ahead: tuple[str, ...] = ()) -> Finding:
        """Return what a verb finds of a network, or of a pair of which those `ahead` must have learned (the first by default)."""
        estimate, learned = VERBS[verb]
        names = (one, other) if other and learned not in ("itself", "others") else (one,)
        if learned == "others":  # where nobody else learns, the guess says nothing
            if other == "any" and self.poor() == self.labels():
                return unable(f"no network learns {self.task}")
            if other not in ("", "any") and (refused := self.refusal([other], [other])):
                return refused
        who = {"those ahead": ahead or names[:1], "the other": names[1:], "itself": names}
        return self.refusal(names, who.get(learned, ())) or estimate(self, one, other)

    def standing(self, one: str, others: Iterable[str]) -> tuple[str, str]:
        """Return in words which networks one is ahead of and behind, by the rule of claims, and against which that is undecided; and its leads."""
        called = {claims.AGREES: "ahead of", claims.DIFFERS: "behind"}
        sides: dict[str, list[str]] = {"ahead of": [], "behind": [], "undecided against": []}
        known = []
        for other in others:
            lead = self.ask("lead", one, other)
            said, *_ = claims.verdict(lead, Region.parse("> 0"))
            side = called.get(said, "undecided against")
            against = side not in called.values() and (lead.low > 0 or lead.high < 0)
            sides[side].append(f"{other} ({lead.reservation})" if against else other)
            if math.isfinite(lead.low):
                known.append(f"{other} {lead.value:+.1f} [{lead.low:.1f}, {lead.high:.1f}]")
        told = "; ".join(f"{side} {', '.join(of)}" for side, of in sides.items() if of)
        return told, ", ".join(known) or "none that is known"

    def compared(self, one: str, other: str, *, logs: bool = False) -> Finding:
        """Return the difference of two networks' scores, the larger the better, or of the logarithms of their errors."""
        names, scale = (one, other), self.scale(one, other)
        scores = [self.scores(name) for name in names]
        sides = [np.log(side) if logs else side * (1 if self.higher else -1) for side in scores]
        found = claims.difference(*sides, scale)
        error, paired = self.sampling_error(*names, logs=logs)
        if paired and min(map(len, sides)) < 2:
            value = sides[0].mean() - sides[1].mean()
            found = Finding(value, value, value, scale, note="of single trainings")
        rows = [self.of(name) for name in names]
        behind = int(np.argmin([(-1 if logs else 1) * side.mean() for side in sides]))
        late = any(side["improving"].mean() > 0.5 for side in rows)
        reservations = [
            "" if paired and min(map(len, rows)) > 1 else _too_few(*rows),
            self.at_the_guess(names[behind]),
            self._catches_up(names[behind], names[1 - behind]),
        ]
        note = found.note or UNSETTLED * late
        return replace(_wider(found, error), note=note, reservation=_joined(*reservations))

    def sampling_error(self, *names: str, logs: bool = False) -> tuple[float, bool]:
        """Return how far a score, or a difference of two, depends on which test sequences there are (a standard error), and whether it is known sequence by sequence."""
        each = [self._by_sequence(name, logs=logs) for name in names]
        if all(one is not None for one in each) and len({*map(len, each)}) == 1:
            apart = np.subtract.reduce(each)
            independent = min(len(apart), PATIENTS.get(self.task, len(apart)))
            return apart.std(ddof=1) / math.sqrt(independent), True
        size = self.scale(*names).test_size
        if not self.higher or not size:
            return 0.0, False
        shares = [self.scores(name).mean() for name in names]
        return math.hypot(*(math.sqrt(x * (self.unit - x) / size) for x in shares)), False

    def _by_sequence(self, name: str, *, logs: bool) -> np.ndarray | None:
        """Return how far each test sequence pulls the score (or its log), mean over trainings; None where that was not stored."""
        answers = self._answers(name)
        if answers is None:
            return None
        each = np.nanmean(answers, axis=0)
        middle, power = each.mean(), 1.0 if self.measure == "squared error" else 0.5
        # The slope of the score in the mean over sequences, of which an error is that power.
        slope = self.unit if self.higher else -power * middle ** (power - 1)
        return (power / middle if logs else slope) * (each - middle)

    def _answers(self, name: str) -> np.ndarray | None:
        """Return each training's score of each test sequence, (n, sequences); None where that was not stored."""
        rows = self.of(name)
        one_run = rows["run"].nunique() == 1
        if not one_run or "sequence_score" not in self.ds or self.measure in ("perplexity", "bits"):
            return None
        of_run = self.ds["sequence_score"].sel(run=rows["run"].iloc[0])
        each = of_run.sel(replicate=rows["replicate"].tolist()).values.astype(float)
        each = each[:, np.isfinite(each).any(axis=0)]
        return each if each.shape[1] > 1 else None

    def luck(self, name: str) -> float:
        """Return the variance of a training's score by which test sequences there are, beyond what these are to all trainings; 0 where that was not stored of each."""
        answers = self._answers(name)
        if answers is None or not np.isfinite(answers).all():
            return 0.0
        apart = self.unit * (answers - answers.mean(axis=0) - answers.mean(axis=1, keepdims=True))
        return apart.var() * len(answers) / (len(answers) - 1) / answers.shape[1]

    def at_the_guess(self, name: str) -> str:
        """Return what stands against a verdict on a network that guesses and had no choice of learning rates."""
        row = self.of(name).iloc[0]
        if self.learned(name) or self.rates[row["label"], row["task"]] > 1:
            return ""
        return f"{name} is at the guess at the only learning rate tried"

    def cut_short(self, name: str) -> str:
        """Return what stands against a verdict on a network that the text, where it says so, trains for longer."""
        steps = int(self.ds["steps"].sel(run=self.of(name)["run"].unique()).max())
        short = f"trained for {steps} steps, in the text for {self.steps:.0f}"
        return short if steps < self.steps else ""

    def _catches_up(self, behind: str, ahead: str) -> str:
        """Return whether a network would be level after as long again, at the pace of the last third."""
        rows, others = self.of(behind), self.of(ahead)
        sign = 1 if self.higher else -1
        gap = sign * (others["score"].mean() - rows["score"].mean())
        before = sign * self.unit * (others["then"].mean() - rows["then"].mean())
        enough = self.ds["steps"].sel(run=rows["run"].unique()).max() >= self.steps
        settled = enough or 3 * (before - gap) < gap
        return "" if settled else f"{behind} still comes nearer to {ahead} when trainings end"

    def still_learns(self, name: str) -> str:
        """Return whether the error of a network would be `LEARNED` of the guess's after as long again, at the pace of its last third."""
        rows = self.of(name)
        share = (rows["score"] / rows["guess"]).mean()
        fell = (self.unit * (rows["then"] - rows["test"]) / rows["guess"]).mean()
        soon = bool(share - 3 * fell < LEARNED < share)
        return f"the error of {name} still falls when trainings end" * soon


def _joined(*reservations: str) -> str:
    return "; ".join(filter(None, reservations))


def _too_few(*sides: pd.DataFrame) -> str:
    seeds = min(map(len, sides))
    few = f"{seeds} training{'s' * (seeds != 1)} on a side where {claims.SEEDS} are asked for"
    return few * (seeds < claims.SEEDS)


def _wider(found: Finding, error: float) -> Finding:
    """Return the finding with an interval that also covers a further standard error."""
    sides = found.value - found.low, found.high - found.value
    below, above = (math.hypot(side, claims.Z * error) for side in sides)
    sampled = float((2 * claims.Z * error / (below + above)) ** 2) if error else 0.0
    # Welch and Satterthwaite: the draw of the test sequences has no end of degrees of freedom.
    free = found.free / max(1 - sampled, 1e-9) ** 2
    low, high = found.value - below, found.value + above
    return replace(found, low=low, high=high, sampled=sampled, free=free)


def _over_guess(held: Networks, name: str, _: str) -> Finding:
    """Return by how much a network's score is larger than that of guessing."""
    rows, (error, _) = held.of(name), held.sampling_error(name)
    found = _wider(claims.mean(rows["score"] - rows["guess"], held.scale(name)), error)
    share, answers = rows["guess"].iloc[0], len(rows) * rows["test_sequences"].iloc[0]

    def chance(region: Region, truth: float) -> float:
        if not held.higher or not region.holds(0.0, 0.0):
            return claims.normal_chance(found, region, truth)
        # Networks that guess spread by their luck alone, however far apart these are that learn.
        luck = math.sqrt(share * (held.unit - share) / answers)
        half = luck * math.hypot(t.isf(_TAIL, len(rows) - 1), claims.Z)
        low, high = norm.cdf([region.low + half, region.high - half], truth, luck)
        return float(max(high - low, 0.0))

    return replace(found, reservation=held.at_the_guess(name), chance=chance)


def _share_of_guess(held: Networks, name: str, _: str) -> Finding:
    """Return the share that a network's error is of that of guessing, geometric mean over trainings."""
    rows = held.of(name)
    found = claims.geometric_mean(rows["score"] / rows["guess"], held.scale(name))
    against = held.at_the_guess(name), held.cut_short(name), held.still_learns(name)
    return replace(found, reservation=_joined(*against))


def _deviation(held: Networks, name: str, _: str) -> Finding:
    """Return the standard deviation over a network's trainings beyond that of few test sequences, with the interval of normal values."""
    scores, scale = held.scores(name), held.scale(name)
    if len(scores) < 2:
        return unable("fewer than two replicates have no spread", scale)
    free, luck = len(scores) - 1, held.luck(name)
    far, near = chi2.ppf([1 - _TAIL, _TAIL], free)
    variances = scores.var(ddof=1) * np.array([1, free / far, free / near]) - luck

    def chance(region: Region, truth: float) -> float:
        least = far * (region.low**2 + luck) if region.low > 0 else 0.0
        ends = np.array([least, near * (region.high**2 + luck)]) / (truth**2 + luck)
        return float(np.diff(chi2.cdf(ends, free)).clip(0)[0])

    found = np.sqrt(variances.clip(min=0)).tolist()
    return Finding(*found, scale, ratio=True, chance=chance)


def _trend(held: Networks, name: str, factor: str) -> Finding:
    """Return the rank correlation of the score with a coordinate."""
    rows = held.of(name)
    return claims.correlation(rows[factor], rows["score"], held.scale(name))


def _steps(held: Networks, name: str, _: str) -> Finding:
    """Return the mean number of steps to an error of `SOLVED`, up to the spacing of records; at the end where it never came."""
    rows = _solved(held, name)
    half = float((rows["late"] - rows["early"]).mean()) / 2
    found = claims.mean((rows["late"] + rows["early"]) / 2, held.scale(name))
    against = (_too_few(rows), held.at_the_guess(name), held.cut_short(name))
    high = math.inf if np.isinf(rows["steps"]).any() else found.high + half
    against = _joined(*against) * math.isinf(high)
    return replace(found, low=found.low - half, high=high, reservation=against)


def _longer(held: Networks, one: str, other: str) -> Finding:
    """Return how many times as many steps to an error of `SOLVED` one network takes as another.

    A training that never came so far counts as if it had at its end, and leaves the interval open on the side on which it would lie. When one
    did is known up to the spacing of its records, which the interval covers.
    """
    if one == other:
        return unable("trained at one of these lengths alone", held.scale(one))
    sides, middles, spacing = [_solved(held, name) for name in (one, other)], [], 0.0
    if all(np.isinf(rows["steps"]).all() for rows in sides):
        return unable(f"neither {one} nor {other} solves the problem", held.scale(one, other))
    for rows in sides:
        late, early = np.log(rows[["late", "early"]].clip(lower=1).to_numpy(float)).T
        middles.append((late + early) / 2)
        spacing += float(np.mean(late - early)) / 2
    found = claims.difference(*middles, held.scale(one, other))
    reservation = _joined(_too_few(*sides), held.at_the_guess(one))
    late, never = (bool(np.isinf(rows["steps"]).any()) for rows in sides)
    ends = {"low": -math.inf if never else found.low - spacing}
    ends["high"] = math.inf if late else found.high + spacing
    return claims.exponential(replace(found, **ends, reservation=reservation))


def _solved(held: Networks, name: str) -> pd.DataFrame:
    """Return when each training's error came below `SOLVED`: between the records ``early`` and ``late``.

    Both are the last of the longest training where it never did: one that diverged was not quick.
    """
    rows = networks.steps_to(held.ds.sel(run=held.of(name)["run"].unique()), SOLVED)
    end = rows["trained"].max()
    early = rows["before"].where(np.isfinite(rows["steps"]), end)
    return rows.assign(early=early, late=rows["steps"].clip(upper=end))


def _gains(quantity: str, held: Networks, one: str, other: str) -> Finding:
    """Return log10 of the norm of dh_T/dh_1, mean over records; as `decay` its distance from that of dh_T/dh_(T-1), or how many times as far one network's is.

    Distances are averaged as logarithms: those of some trainings are a hundred times those of the others.
    """
    if "gain_first" not in held.ds:
        return unable("no gradients were recorded")
    sides, scale, decay = [], held.scale(one, other), quantity == "decay"
    for name in filter(None, (one, other)):
        part = held.ds.sel(run=held.of(name)["run"].iloc[0])
        gain = np.abs(part["gain_first"] - part["gain_last"]) if decay else part["gain_first"]
        found = gain.mean("record").dropna("replicate").values
        # A Jacobian that is the identity differs from it by rounding.
        sides.append(np.log(found.clip(1e-9)) if decay else found)
    found = claims.mean(sides[0], scale)
    if other:
        found = replace(claims.difference(*sides, scale), reservation=_too_few(*sides))
    return claims.exponential(found) if decay else found


def _memoryless(held: Networks, name: str, _: str) -> Finding:
    """Return the cross entropy of copying at the end over that of the best answer without memory, 10 ln 8 / (T + 20).

    Networks stay long at that answer before they learn to copy: no verdict rests on trainings shorter than the text's.
    """
    rows = held.of(name)
    run = held.ds.sel(run=rows["run"].iloc[0], replicate=rows["replicate"].tolist())
    best = 10 * math.log(8) / int(run["time_steps"])
    last = run["test_loss"].isel(record=run["records"] - 1)
    ratios = last.where(rows["completed"].to_numpy(), best).values / best
    found = claims.geometric_mean(ratios, held.scale(name))
    return replace(found, reservation=held.cut_short(name))


def _time_steps(estimate: Callable, held: Networks, name: str, argument: str) -> Finding:
    return estimate(held.ds.sel(run=held.of(name)["run"].iloc[0]), held.scale(name), argument)


VERBS: dict[str, tuple[Callable[..., Finding], str]] = {
    "lead": (Networks.compared, "those ahead"),
    "ratio": (lambda *of: claims.exponential(Networks.compared(*of, logs=True)), "those ahead"),
    "apart": (lambda *of: claims.magnitude(Networks.compared(*of)), "those ahead"),
    "longer": (_longer, "the other"),
    "over_guess": (_over_guess, "others"),
    "share_of_guess": (_share_of_guess, "others"),
    "gain": (partial(_gains, "gain"), "nobody"),
    "decay": (partial(_gains, "decay"), "nobody"),
    "memoryless": (_memoryless, "nobody"),
    "deviation": (_deviation, "itself"),
    "trend": (_trend, "itself"),
    "steps": (_steps, "nobody"),
    **{verb: (partial(_time_steps, of), "itself") for verb, of in scales.ESTIMATES.items()},
}
"""By name: what it finds of the networks held and the names of a pair (the second may be empty, or say what the verb needs), and who must have learned."""


def find(held: Networks, claim: pd.Series) -> Finding:
    """Return what the networks of a group say of a claim, a line of `study.results.claims.claims` with a verb, in its measure."""
    if claim["verb"] not in VERBS:
        raise ClaimError(
            f"the verb of {claim['id']} is {claim['verb']!r}; expected one of {', '.join(VERBS)}"
        )
    verb, region = claim["verb"], Region.parse(claim["region"])
    one, others = ([name.strip() for name in claim[key].split(";")] for key in ("one", "others"))
    found = []
    for task in _tasks(held, claim["task"], one, others):
        here = held.at(task, claim["steps"])
        rest = others if others != ["all others"] else [n for n in here.labels() if n not in one]
        side_by_side = len(one) == len(rest) > 1
        pairs = zip(one, rest, strict=True) if side_by_side else product(one, rest)
        found += [here.ask(verb, *pair, _learners(verb, pair, region)) for pair in pairs]
    upper = verb == "apart" or math.isinf(region.low)
    if len(found) > 1 and not upper and not math.isinf(region.high):
        raise ClaimError(
            f"{claim['id']} asks several pairs for a region with two ends; judge each as a claim"
        )
    return claims.largest(found) if upper else claims.smallest(found)


def _tasks(held: Networks, task: str, *sides: list[str]) -> list[str]:
    """Return the tasks that a claim is about: those named, or those that meet its condition and were trained on."""
    if not any(sign in task for sign in ("<", ">", "==")):
        return [name.strip() for name in task.split(";")]
    rows = held.everywhere.query(task).sort_values("time_steps", kind="stable")
    there = list(dict.fromkeys(rows["task"]))
    if not there:
        return ["a task of the text's length"]
    for names in sides:
        for word, at in (("@ longest", there[-1]), ("@ shortest", there[0])):
            names[:] = [name.replace(word, f"@ {at}") for name in names]
    if any(" @ " in name for names in sides for name in names):
        return there[:1]

    def trained(names: list[str], at: str) -> bool:
        labels = set(rows.loc[rows["task"] == at, "label"])
        return names == [""] or bool(labels & set(names))

    compared = [at for at in there if all(trained(names, at) for names in sides)]
    return compared or there[:1]


def _learners(verb: str, pair: tuple[str, str], region: Region) -> tuple[str, ...]:
    """Return who must have learned: the one that is said to be ahead, both where they are said to be alike."""
    if verb == "apart":
        return pair if math.isinf(region.low) else pair[:1]
    if not math.isinf(region.low) and not math.isinf(region.high):
        return pair
    first = math.isinf(region.high) == (verb == "lead")
    return pair[:1] if first else pair[1:]


def beside_learned(ds: xr.Dataset, published: pd.DataFrame) -> pd.DataFrame:
    """Return `beside_published` of the published networks alone, with ``learned``: better than guessing; None where not trained."""
    table = networks.beside_published(networks.outcomes(ds), published)
    table = table[table["published"].notna()].reset_index(drop=True)
    every, pairs = Networks(ds), zip(table["task"], table["network"], strict=True)
    at = {task: every.at(task) for task in table["task"]}
    found = [at[task].learned(of) if of in at[task].labels() else None for task, of in pairs]
    return table.assign(learned=found)


def judged(ds: xr.Dataset, group: str) -> pd.DataFrame:
    """Return what the results of a group say of each claim that has a verb on it, in the order of the list (`judged_row`)."""
    listed = claims.claims()
    asked = listed[(listed["group"] == group) & (listed["verb"] != "")]
    if asked.empty:
        groups = ", ".join(sorted(set(listed.loc[listed["verb"] != "", "group"])))
        raise ClaimError(f"no claim is about the group {group!r}; expected one of {groups}")
    held = cache(lambda measure: Networks(ds, measure=measure))
    found = {
        row["id"]: lambda _, row=row: find(held(row["measure"]), row) for _, row in asked.iterrows()
    }
    return claims.judged_table(ds, found)
