"""The networks of one group of runs, each at its best learning rate, and what speaks against them.

Every number is over runs whose epoch was chosen by their validation part. A network at chance is
no evidence that another is better, and results on stand-in data are not evidence about the paper.
"""

import math
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cache

import numpy as np
import pandas as pd
import xarray as xr

from study.claims.claim import NetworkName
from study.claims.estimates import Cause, Estimate, Scale, unable
from study.claims.short_runs import in_words
from study.results import networks
from study.results.learned import LEAST, above_chance, data_of, stand_in

SEEDS = 5
"""Minimum runs per side of a comparison: with 3 against 3, no permutation test gets below .10."""
LEARNED = 0.1
"""Share of the error at chance below which an error has become small."""
PATIENTS = {"heart rate": 53, "respiratory rate": 53, "heart rate by patient": 8}
"""Effective test-set size by task: windows of one patient overlap, so patients are counted."""


def join_reasons(*reasons: str) -> str:
    """Join the reasons that are not empty into one text."""
    return "; ".join(reason for reason in reasons if reason)


def too_few_seeds(*sides: pd.DataFrame) -> str:
    """Return the reservation that a side has fewer than `SEEDS` runs; empty if none does."""
    fewest = min(len(side) for side in sides)
    if fewest >= SEEDS:
        return ""
    plural = "" if fewest == 1 else "s"
    return f"one side has {fewest} run{plural}, and {SEEDS} are needed"


class Networks:
    """The networks of a group, each at the learning rate that validates best.

    Attributes
    ----------
    ds
        The results of the group.
    task
        The task in view; empty for all tasks.
    rows
        `study.results.networks.run_table` of `task`, with ``score`` and ``guess``: the test
        metric and that of guessing, accuracies in percent. A run that diverged before its first
        record scores as guessing does.
    all_rows
        The same for all tasks.
    higher_is_better
        Whether the score is an accuracy.
    unit
        100 for accuracies, which are in percent, else 1.
    candidates
        `run_table` of all learning rates.
    """

    def __init__(
        self, ds: xr.Dataset, task: str = "", measure: str = "", paper_steps: float = math.nan
    ) -> None:
        self.ds = networks.in_measure(ds, measure) if measure else ds
        rows = networks.run_table(self.ds)
        self.candidates = rows
        self.learning_rates = rows.groupby(["label", "task"])["learning_rate"].unique()
        best = networks.validated_best(rows, networks.IDENTITY)
        rows = rows[rows["run"].isin(best)]
        unit = np.where(rows["metric"] == "accuracy", 100.0, 1.0)
        score = unit * rows["test"].fillna(rows["guess_metric"])
        last = unit * rows["last"].fillna(rows["guess_metric"])
        guess = unit * rows["guess_metric"]
        self.all_rows = rows.assign(score=score, last_score=last, guess=guess)
        self.measure = measure
        self._select(task, paper_steps)

    def at(self, task: str, paper_steps: float = math.nan) -> "Networks":
        """Return the same networks on one task.

        Parameters
        ----------
        task
            Name of the task.
        paper_steps
            How many optimizer steps the paper trains for; ``nan`` if unknown.
        """
        other = copy(self)
        other._select(task, paper_steps)
        return other

    def _select(self, task: str, paper_steps: float) -> None:
        self.task = task
        self.paper_steps = paper_steps
        rows = self.all_rows
        self.rows = rows[rows["task"] == task] if task else rows
        metric = (rows if self.rows.empty else self.rows)["metric"]
        self.higher_is_better = bool((metric == "accuracy").any())
        self.unit = 100.0 if self.higher_is_better else 1.0
        self._cached_runs = cache(self._find_runs)

    def runs(self, name: NetworkName | str) -> pd.DataFrame:
        """Return the runs of a network, one row each; no rows if it was not trained."""
        return self._cached_runs(name)

    def _find_runs(self, name: NetworkName | str) -> pd.DataFrame:
        if isinstance(name, str):
            rows = self.rows
            return rows[rows["label"] == name]
        if name.pooled:
            alone = name.model_copy(update={"pooled": ()})
            return pd.concat([self.runs(part) for part in (alone, *name.pooled)])
        rows = self.rows
        if name.task:
            rows = self.all_rows[self.all_rows["task"] == name.task]
        plain = rows[rows["label"] == name.label]
        if not name.best:
            return plain
        # A network under its plain label is a level, too.
        levels = pd.concat([plain, networks.levels_of(rows, name.label, name.best)])
        return levels[levels["run"].isin(networks.validated_best(levels, ["task"]))]

    def labels(self) -> list[str]:
        """Return the labels of the networks that were trained on the task in view."""
        return list(dict.fromkeys(self.rows["label"]))

    def scores(self, name: NetworkName | str) -> np.ndarray:
        """Return the score of each run of a network, (n,)."""
        return self.runs(name)["score"].to_numpy()

    def learned(self, name: NetworkName | str) -> bool:
        """Return whether a network was trained and does better than chance.

        An accuracy must be beyond chance, an error a tenth below that of guessing. The median
        over runs decides: one that blew up says nothing about the others.
        """
        rows = self.runs(name)
        if rows.empty:
            return False
        score = rows["score"].median() / self.unit
        guess = rows["guess_metric"].iloc[0]
        if not self.higher_is_better:
            return bool(score < LEAST * guess)
        return bool(above_chance(score, guess, int(rows["test_sequences"].iloc[0])))

    def at_chance(self) -> list[str]:
        """Return the labels of the networks that do no better than chance."""
        return [label for label in self.labels() if not self.learned(label)]

    def scale(self, *names: NetworkName | str) -> Scale:
        """Return the size of the experiment behind some networks."""
        rows = pd.concat([self.runs(name) for name in names])
        rows = rows.drop_duplicates(["run", "replicate"])
        if rows.empty:
            return Scale()
        return Scale(
            sequences=int(rows["sequences"].max()) or None,
            width=int(rows["width"].max()),
            replicates=int(rows["run"].value_counts().min()),
            test_size=int(rows["test_sequences"].max()),
            time_steps=int(rows["time_steps"].max()),
            data=data_of(rows["task_settings"]),
            steps=min(self.steps_trained(name) for name in names if not self.runs(name).empty),
            at_edge=join_reasons(*(self.rate_at_edge(name) for name in names)) or None,
            at_chance=join_reasons(*(str(name) for name in names if self._guesses(name))) or None,
        )

    def _guesses(self, name: NetworkName | str) -> bool:
        """Return whether a network was trained and does no better than chance."""
        return not self.runs(name).empty and not self.learned(name)

    def rate_at_edge(self, name: NetworkName | str) -> str:
        """Return that a network's best learning rate is at an end of those tried; empty if not."""
        rows = self.runs(name)
        if rows.empty:
            return ""
        row = rows.iloc[0]
        rates = sorted(self.learning_rates[row["label"], row["task"]])
        if len(rates) > 1 and row["learning_rate"] in (rates[0], rates[-1]):
            return f"{name} on {row['task']} ({row['learning_rate']:g})"
        return ""

    def steps_trained(self, name: NetworkName | str) -> int:
        """Return for how many optimizer steps a network was trained, by its longest run."""
        return int(self.ds["steps"].sel(run=self.runs(name)["run"].unique()).max())

    def refusal(
        self, names: Sequence[NetworkName | str], learners: Iterable[NetworkName | str]
    ) -> Estimate | None:
        """Return why nothing can be said about some networks.

        Parameters
        ----------
        names
            All of them must have been trained, and on the paper's data.
        learners
            All of them must do better than chance.

        Returns
        -------
        Estimate or None
            One without a value that says why; None if there is nothing to refuse.
        """
        missing = [str(name) for name in names if self.runs(name).empty]
        if missing:
            return unable(f"not trained: {', '.join(missing)}", Cause.NO_DATA)
        first = self.runs(names[0]).iloc[0]
        replaced = stand_in(first["task_settings"], first["substitute"])
        if replaced:
            return unable(replaced, Cause.NO_DATA, self.scale(*names))
        poor = [str(name) for name in learners if not self.learned(name)]
        if poor:
            reason = f"no better than chance: {', '.join(poor)}"
            return unable(reason, Cause.PREMISE, self.scale(*names))
        return None

    # what stands against a verdict

    def chance_reservation(self, name: NetworkName | str) -> str:
        """Return the reservation that a network is at chance without a choice of learning rates."""
        row = self.runs(name).iloc[0]
        rates = self.learning_rates[row["label"], row["task"]]
        if self.learned(name) or len(rates) > 1:
            return ""
        return f"{name} is at chance, and only one learning rate was tried"

    def rate_reservation(self, name: NetworkName | str) -> str:
        """Return the reservation that a learning rate was chosen on the test part.

        Without a validation part the test part chooses. That does no harm if both halves of the
        test sequences choose the same rate, because then each half is scored at the rate that the
        other one chose.
        """
        row = self.runs(name).iloc[0]
        rows = self.candidates
        same = rows[(rows[networks.IDENTITY] == row[networks.IDENTITY]).all(axis=1)]
        runs = same["run"].unique()
        if len(runs) < 2 or same["validation"].notna().any() or not self.learned(name):
            return ""
        reservation = f"the learning rate of {name} was chosen on the test part"
        if "sequence_score" not in self.ds:
            return reservation
        scores = self.ds["sequence_score"].sel(run=runs)
        if not self.higher_is_better:
            scores = -scores
        choices = set()
        for start in (0, 1):
            half = scores.isel(test_sequence=slice(start, None, 2))
            choices.add(int(half.mean(["replicate", "test_sequence"]).argmax("run")))
        return "" if len(choices) == 1 else f"{reservation}, whose two halves disagree"

    def shorter_than_paper(self, *names: NetworkName | str) -> str:
        """Return that a network was trained for fewer steps than in the paper; empty if not."""
        steps = min(self.steps_trained(name) for name in names)
        if steps < self.paper_steps:
            return in_words(steps, self.paper_steps)
        return ""

    def catching_up(self, behind: NetworkName | str, ahead: NetworkName | str) -> str:
        """Return the reservation that a network would draw level if trained for twice as long.

        It is extrapolated from the last third of the training, unless the network was trained
        for as long as in the paper.
        """
        rows = self.runs(behind)
        others = self.runs(ahead)
        sign = 1 if self.higher_is_better else -1
        gap = sign * (others["score"].mean() - rows["score"].mean())
        earlier = sign * self.unit * (others["then"].mean() - rows["then"].mean())
        if self.steps_trained(behind) >= self.paper_steps or 3 * (earlier - gap) < gap:
            return ""
        return f"{behind} was still closing the gap to {ahead} when training stopped"

    def still_falling(self, name: NetworkName | str) -> str:
        """Return the reservation that an error would become small if trained for twice as long."""
        rows = self.runs(name)
        share = (rows["score"] / rows["guess"]).mean()
        fall = (self.unit * (rows["then"] - rows["test"]) / rows["guess"]).mean()
        if share - 3 * fall < LEARNED < share:
            return f"the error of {name} was still falling when training stopped"
        return ""

    # how much a score depends on the test set

    def sampling_error(self, *names: NetworkName | str, logs: bool = False) -> tuple[float, bool]:
        """Return how much a score, or a difference of two, depends on the finite test set.

        Parameters
        ----------
        names
            One network, or two.
        logs
            Whether logarithms of errors are compared.

        Returns
        -------
        error
            Standard error in the unit of the score; 0 if it is unknown.
        paired
            Whether the score of every test sequence was stored, so that the error is that of
            paired differences; else it is that of two binomials.
        """
        by_sequence = [self._by_sequence(name, logs=logs) for name in names]
        stored = all(values is not None for values in by_sequence)
        if stored and len({len(values) for values in by_sequence}) == 1:
            differences = np.subtract.reduce(by_sequence)
            independent = min(len(differences), PATIENTS.get(self.task, len(differences)))
            return differences.std(ddof=1) / math.sqrt(independent), True
        size = self.scale(*names).test_size
        if not self.higher_is_better or not size:
            return 0.0, False
        variances = []
        for name in names:
            accuracy = self.scores(name).mean()
            variances.append(accuracy * (self.unit - accuracy) / size)
        return math.hypot(*(math.sqrt(variance) for variance in variances)), False

    def _by_sequence(self, name: NetworkName | str, *, logs: bool) -> np.ndarray | None:
        """Return each test sequence's influence on the score (or its log), (sequences,).

        It is the mean over runs; None if scores by sequence were not stored.
        """
        answers = self._answers(name)
        if answers is None:
            return None
        each = np.nanmean(answers, axis=0)
        middle = each.mean()
        # An error is this power of the mean over sequences; the slope is its derivative.
        power = 1.0 if self.measure == "squared error" else 0.5
        if logs:
            return power / middle * (each - middle)
        slope = self.unit if self.higher_is_better else -power * middle ** (power - 1)
        return slope * (each - middle)

    def _answers(self, name: NetworkName | str) -> np.ndarray | None:
        """Return each run's score of each test sequence, (n, sequences); None if not stored."""
        rows = self.runs(name)
        if rows["run"].nunique() != 1 or self.measure in ("perplexity", "bits"):
            return None
        if "sequence_score" not in self.ds:
            return None
        run = self.ds["sequence_score"].sel(run=rows["run"].iloc[0])
        scores = run.sel(replicate=rows["replicate"].tolist()).values.astype(float)
        scores = scores[:, np.isfinite(scores).any(axis=0)]
        return scores if scores.shape[1] > 1 else None

    def sampling_variance(self, name: NetworkName | str) -> float:
        """Return the variance of a run's score due to the finite test set.

        The difficulty that a sequence has for all runs is removed. It is 0 if scores by sequence
        were not stored for every run.
        """
        answers = self._answers(name)
        if answers is None or not np.isfinite(answers).all():
            return 0.0
        residual = answers - answers.mean(axis=0) - answers.mean(axis=1, keepdims=True)
        runs, sequences = answers.shape
        return (self.unit * residual).var() * runs / (runs - 1) / sequences
