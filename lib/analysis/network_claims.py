"""What judges ask of the networks of a published table: how well one does, and by how much it leads another.

Every answer is a `Finding` over trainings whose epoch was chosen by their validation part. A network that does no better
than guessing is no evidence that another is better, and data that stand in for a text's are no evidence on the text: of
either a finding says so. Where accuracies are counted on a few sequences, its interval also covers that these were drawn:
the spread of trainings alone would call 1 of 39 certain.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import chi2, norm

from lib.analysis.networks import chosen_trainings
from lib.results.claims import (
    CONFIDENCE,
    Finding,
    Scale,
    difference,
    exponential,
    largest,
    magnitude,
    mean,
    smallest,
    unable,
)
from lib.results.learned import LEAST, above_chance, stand_in
from lib.results.schema import COMPLETED

_TAIL = (1 - CONFIDENCE) / 2

UNSETTLED = "some of these networks still improved when their training ended"
"""What a reader must know of a lead: that it may be one in learning fast."""


class Networks:
    """The networks of a task, each at its best learning rate.

    Parameters
    ----------
    ds
        Dataset of a group of `lib.experiments.supervised`; `lib.analysis.networks.in_measure` puts it into a text's units.
    task
        Label of the task.

    Attributes
    ----------
    rows : pandas.DataFrame
        The task's `lib.analysis.networks.trainings` with ``score`` and ``guess``, the test metric and that of guessing, accuracies in
        per cent. One that diverged before its first record scores as the guess does.
    """

    def __init__(self, ds: xr.Dataset, task: str = "") -> None:
        rows = chosen_trainings(ds)
        rows = rows[rows["task_label"] == task]
        self.task = task
        self.higher = bool((rows["metric"] == "accuracy").any())
        self.unit = 100.0 if self.higher else 1.0
        score = self.unit * rows["test"].fillna(rows["guess_metric"])
        self.rows = rows.assign(score=score, guess=self.unit * rows["guess_metric"])
        self._of = dict(list(self.rows.groupby("label", sort=False)))

    def of(self, label: str) -> pd.DataFrame:
        """Return the trainings of a network, which may be none."""
        return self._of.get(label, self.rows[:0])

    def labels(self) -> list[str]:
        """Return the networks that were trained."""
        return list(dict.fromkeys(self.rows["label"]))

    def scores(self, label: str) -> np.ndarray:
        """Return the score of each training of a network, (n,)."""
        return self.of(label)["score"].to_numpy()

    def learned(self, label: str) -> bool:
        """Return whether a network is trained and better than guessing: an accuracy beyond chance, an error by a tenth."""
        rows = self.of(label)
        if rows.empty:
            return False
        score, guess = rows["score"].mean() / self.unit, rows["guess_metric"].iloc[0]
        if not self.higher:
            return bool(score < LEAST * guess)
        return bool(above_chance(score, guess, int(rows["test_sequences"].iloc[0])))

    def poor(self) -> list[str]:
        """Return the networks that are no better than guessing."""
        return [label for label in self.labels() if not self.learned(label)]

    def scale(self, *labels: str) -> Scale:
        """Return how large the experiment behind these networks was."""
        rows = self.rows[self.rows["label"].isin(labels)]
        if rows.empty:
            return Scale()
        return Scale(
            sequences=int(rows["sequences"].max()) or None,
            width=int(rows["width"].max()),
            replicates=int(rows.groupby("run").size().min()),
            test_size=int(rows["test_sequences"].max()),
        )

    def missing(self, *labels: str) -> Finding | None:
        """Return the finding that one of these networks was not trained, or not on the text's data."""
        if missing := [label for label in labels if self.of(label).empty]:
            return unable(f"not trained: {', '.join(missing)}")
        first = self.of(labels[0]).iloc[0]
        instead = stand_in(first["task"], first["substitute"])
        return unable(instead, self.scale(*labels)) if instead else None

    def refusal(self, *labels: str) -> Finding | None:
        """Return the finding that nothing can be said: as `missing`, or one of these networks learned nothing."""
        if missing := self.missing(*labels):
            return missing
        if poor := [label for label in labels if not self.learned(label)]:
            return unable(f"no better than guessing: {', '.join(poor)}", self.scale(*labels))
        return None

    def lead(self, one: str, over: str) -> Finding:
        """Return by how much one network, which has learned something, is better than another, which need not."""
        if refused := self.missing(one, over) or self.refusal(one):
            return refused
        sign = 1 if self.higher else -1
        pair = [sign * self.scores(label) for label in (one, over)]
        found = difference(*pair, self.scale(one, over))
        return self._told(self._wider(found, *(abs(scores.mean()) for scores in pair)), one, over)

    def leads(self, one: str, others: Iterable[str] | None = None) -> Finding:
        """Return the smallest lead over other networks; by default all that were trained."""
        others = self.labels() if others is None else others
        return smallest(self.lead(one, other) for other in others if other != one)

    def ratio(self, one: str, to: str) -> Finding:
        """Return how many times one network's error is another's, both of which have learned something."""
        if refused := self.refusal(one, to):
            return refused
        logs = (np.log(self.scores(label)) for label in (one, to))
        return self._told(exponential(difference(*logs, self.scale(one, to))), one, to)

    def apart(self, pairs: Iterable[tuple[str, str]]) -> Finding:
        """Return how far the scores of a pair are apart, the largest of several pairs."""
        return largest(magnitude(self.lead(one, other)) for one, other in pairs)

    def over_guess(self, label: str) -> Finding:
        """Return by how much a network's score is larger than that of guessing."""
        if missing := self.missing(label):
            return missing
        over = self.scores(label) - self.of(label)["guess"].to_numpy()
        return self._wider(mean(over, self.scale(label)), self.scores(label).mean())

    def deviation(self, label: str) -> Finding:
        """Return the standard deviation over a network's trainings, with the interval of normal values."""
        if refused := self.refusal(label):
            return refused
        scores, scale = self.scores(label), self.scale(label)
        if len(scores) < 2:
            return unable("fewer than two replicates have no spread", scale)
        found, free = scores.std(ddof=1), len(scores) - 1
        low, high = (found * math.sqrt(free / chi2.ppf(p, free)) for p in (1 - _TAIL, _TAIL))
        return Finding(found, low, high, scale)

    def _told(self, found: Finding, *labels: str) -> Finding:
        """Return the finding with the note that most trainings of a network were best at their end, where they were."""
        late = any(self.of(label)["improving"].mean() > 0.5 for label in labels)
        return replace(found, note=found.note or UNSETTLED * late)

    def _wider(self, found: Finding, *scores: float) -> Finding:
        """Return the finding with an interval that also covers which test sequences there are, where they are counted."""
        if not self.higher or math.isnan(found.low) or not found.scale.test_size:
            return found
        drawn = sum(score * (self.unit - score) for score in scores) / found.scale.test_size
        half = norm.isf(_TAIL) * math.sqrt(drawn)
        below, above = (
            math.hypot(side, half) for side in (found.value - found.low, found.high - found.value)
        )
        return Finding(found.value, found.value - below, found.value + above, found.scale)


def times_as_long(one: pd.DataFrame, other: pd.DataFrame, scale: Scale) -> Finding:
    """Return how many times as many steps one network's trainings took as another's, of rows of `lib.analysis.networks.steps_to`.

    A training that never came so far counts as if it had at its end. When one did is known up to the spacing of its
    records, which the interval covers.
    """
    middles, spacing = [], 0.0
    for rows in (one, other):
        ends = (np.minimum(rows["steps"], rows["trained"]), np.maximum(rows["before"], 1))
        late, early = (np.log(end.to_numpy(float)) for end in ends)
        middles.append((late + early) / 2)
        spacing += float(np.mean(late - early)) / 2
    found = difference(*middles, scale)
    return exponential(replace(found, low=found.low - spacing, high=found.high + spacing))


def drawn(
    scores: Mapping[str, float] | Mapping[tuple[str, str], float],
    *,
    spread: float,
    measure: str = "accuracy",
    guess: float = 10.0,
    test_sequences: int = 4000,
) -> Callable[..., xr.Dataset]:
    """Return how to draw a group in which networks have these mean scores, by label or by label and task: for false data.

    Parameters
    ----------
    scores
        Accuracies in per cent, or errors in `measure`.
    spread
        Standard deviation over trainings: of accuracies in points, of errors in units of the error.
    measure
        ``"accuracy"``, ``"error"``, or one of `lib.analysis.networks.MEASURES`, which are found in the loss.
    """
    keys = [key if isinstance(key, tuple) else (key, "") for key in scores]
    means = np.array(list(scores.values()))[:, None]
    kept = {  # loss and metric, as they are recorded
        "accuracy": lambda x: (np.ones_like(x), x / 100),
        "error": lambda x: (x**2, x),
        "squared error": lambda x: (x, np.sqrt(x)),
        "perplexity": lambda x: (np.log(x), np.zeros_like(x)),
        "bits": lambda x: (x * math.log(2), np.zeros_like(x)),
    }[measure]

    def draw(rng: np.random.Generator, replicates: int = 6) -> xr.Dataset:
        noise = spread * rng.uniform(0.5, 1.5) * rng.standard_normal((len(keys), replicates))
        if measure == "accuracy":
            loss, metric = kept(np.clip(means + noise, 0, 100))
        else:
            loss, metric = kept(means * np.exp(noise))
        guess_loss, guess_metric = (float(x) for x in kept(np.array(float(guess))))
        same = {
            "architecture": "lem",
            "width": 16,
            "learning_rate": 0.001,
            "hyper_parameters": "{}",
            "task": "{}",
            "parameters": 1,
            "sequences": 100,
            "test_sequences": test_sequences,
            "time_steps": 10,
            "substitute": "",
            "metric": "error" if measure in ("error", "squared error") else "accuracy",
            "guess_loss": guess_loss,
            "guess_metric": guess_metric,
        }
        training, record = ("run", "replicate"), ("run", "replicate", "record")
        once = np.ones(loss.shape, int)
        return xr.Dataset(
            {name: ("run", [value] * len(keys)) for name, value in same.items()}
            | {
                "label": ("run", [label for label, _ in keys]),
                "task_label": ("run", [task for _, task in keys]),
                "status": (training, np.full(loss.shape, COMPLETED)),
                "records": (training, once),
                "steps": (training, once),
                "step": (record, once[..., None]),
            }
            | {
                f"{part}_{name}": (record, values[..., None])
                for part in ("test", "validation")
                for name, values in (("loss", loss), ("metric", metric))
            },
            {"run": [", ".join(key) for key in keys], "replicate": range(replicates)},
            {"profile": "false"},
        )

    return draw


def on_task(scores: Mapping[str, float], *tasks: str) -> dict[tuple[str, str], float]:
    """Return the same scores by label on each of several tasks, as `drawn` takes them."""
    return {(label, task): score for task in tasks for label, score in scores.items()}
