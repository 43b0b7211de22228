"""The networks of one group of runs, each at its best learning rate.

Each run counts at the epoch with its best validation score. `study.claims.search` describes the
grid search for the best rate, and `study.claims.testable` what makes a claim testable.
"""

import math
from copy import copy
from functools import cache

import numpy as np
import pandas as pd
import xarray as xr

from study.claims.claim import NetworkRef, NetworkSelection
from study.results.learned import LEARNED_ERROR, above_chance
from study.results.networks import IDENTITY, levels_of, validated_best
from study.results.runs import in_measure, run_table

SCORES = {"score": "test", "score_at_two_thirds": "test_at_two_thirds", "last_score": "last"}
"""Scores of a run, and the metrics in `study.results.runs.run_table` that they are made of."""


class Networks:
    """The networks of a group, each at the learning rate that validates best.

    Attributes
    ----------
    ds
        The results of the group, in `measure`.
    measure
        One of `study.results.runs.MEASURES`, if the score is not the recorded metric; else empty.
    task
        The task in view; empty for all tasks.
    paper_steps
        How many optimizer steps the paper trains for on this task; ``nan`` if unknown.
    rows
        `study.results.runs.run_table` of `task`, with ``score``, ``score_at_two_thirds``,
        ``last_score`` and ``guess``: the columns ``test``, ``test_at_two_thirds`` and ``last``, and
        the metric of guessing, accuracies in percent. A run that diverged before its first record
        scores as guessing does.
    all_rows
        The same for all tasks.
    higher_is_better
        Whether the score is an accuracy.
    is_squared_error
        Whether the score is a mean squared error, as `measure` or as the recorded metric. If it is
        neither this nor an accuracy, it is a root mean squared error.
    unit
        100 for accuracies, which are in percent, else 1.
    direction
        1 if a larger score is better, else -1.
    candidates
        `run_table` of all learning rates.
    learning_rates
        All learning rates of each network, by label and task.
    """

    def __init__(
        self, ds: xr.Dataset, task: str = "", measure: str = "", paper_steps: float = math.nan
    ) -> None:
        self.ds = ds
        if measure:
            self.ds = in_measure(ds, measure)
        # Looked up for every pair of networks, which is slow in a Dataset.
        self._longest = self.ds["steps"].max("replicate").to_series()
        rows = run_table(self.ds)
        self.candidates = rows
        self.learning_rates = rows.groupby(["label", "task"])["learning_rate"].unique()
        best = validated_best(rows, IDENTITY)
        rows = rows[rows["run"].isin(best)]
        unit = np.where(rows["metric"] == "accuracy", 100.0, 1.0)
        guess = unit * rows["guess_metric"]
        scores = {name: (unit * rows[metric]).fillna(guess) for name, metric in SCORES.items()}
        self.all_rows = rows.assign(**scores, guess=guess)
        self.measure = measure
        self._select(task, paper_steps)

    def on_task(self, task: str, paper_steps: float = math.nan) -> "Networks":
        """Return the same networks on one task.

        Parameters
        ----------
        task
            Name of the task.
        paper_steps
            How many optimizer steps the paper trains for; ``nan`` if unknown.

        Returns
        -------
        Networks
            A copy; `runs` and `scores` are those of the task.
        """
        other = copy(self)
        other._select(task, paper_steps)
        return other

    def _select(self, task: str, paper_steps: float) -> None:
        """Set the attributes that depend on the task in view."""
        self.task = task
        self.paper_steps = paper_steps
        self.rows = self.all_rows
        if task:
            self.rows = self.all_rows[self.all_rows["task"] == task]
        metric = self.rows["metric"]
        if self.rows.empty:
            metric = self.all_rows["metric"]
        self.higher_is_better = bool((metric == "accuracy").any())
        if self.higher_is_better:
            self.unit = 100.0
            self.direction = 1
        else:
            self.unit = 1.0
            self.direction = -1
        self.is_squared_error = bool((metric == "squared error").any())
        self._cached_runs = cache(self._find_runs)

    def runs(self, name: NetworkRef) -> pd.DataFrame:
        """Return the runs of a network.

        Parameters
        ----------
        name
            The network.

        Returns
        -------
        pandas.DataFrame
            Rows of `rows`, one per run; none if it was not trained.
        """
        return self._cached_runs(name)

    def _find_runs(self, name: NetworkRef) -> pd.DataFrame:
        if isinstance(name, str):
            return self.rows[self.rows["label"] == name]
        if name.pooled:
            alone = name.model_copy(update={"pooled": ()})
            return pd.concat([self.runs(part) for part in (alone, *name.pooled)])
        levels = self._levels(name)
        if not name.best:
            return levels
        return levels[levels["run"].isin(validated_best(levels, ["task"]))]

    def _levels(self, name: NetworkSelection) -> pd.DataFrame:
        """Return the runs of a network on its own task, at all levels of its swept setting."""
        rows = self.rows
        if name.task:
            rows = self.all_rows[self.all_rows["task"] == name.task]
        plain = rows[rows["label"] == name.label]
        if plain.empty and name.otherwise:
            plain = rows[rows["label"] == name.otherwise]
        if not name.best:
            return plain
        # A network under its plain label is a level, too.
        return pd.concat([plain, levels_of(rows, name.label, name.best)])

    def levels(self, name: NetworkRef) -> pd.DataFrame:
        """Return the runs among which validation chose those of a network.

        Parameters
        ----------
        name
            The network.

        Returns
        -------
        pandas.DataFrame
            One row per run.
        """
        if isinstance(name, str) or name.pooled or not name.best:
            return self.runs(name)
        return self._levels(name)

    def labels(self) -> list[str]:
        """Return the labels of the networks that were trained on the task in view.

        Returns
        -------
        list of str
        """
        return list(dict.fromkeys(self.rows["label"]))

    def scores(self, name: NetworkRef) -> np.ndarray:
        """Return the score of each run of a network.

        Parameters
        ----------
        name
            The network.

        Returns
        -------
        numpy.ndarray
            Shape (runs,).
        """
        return self.runs(name)["score"].to_numpy()

    def learned(self, name: NetworkRef) -> bool:
        """Return whether a network was trained and does better than chance.

        An accuracy must be significantly above chance, an error a tenth below that of guessing.
        The median over runs decides, because one run that diverged says nothing about the others.

        Parameters
        ----------
        name
            The network.

        Returns
        -------
        bool
        """
        rows = self.runs(name)
        if rows.empty:
            return False
        score = rows["score"].median() / self.unit
        guess = rows["guess_metric"].iloc[0]
        if not self.higher_is_better:
            return bool(score < LEARNED_ERROR * guess)
        return bool(above_chance(score, guess, int(rows["test_sequences"].iloc[0])))

    def at_all_rates(self, name: NetworkRef) -> pd.DataFrame:
        """Return the runs of a network at all its learning rates.

        Parameters
        ----------
        name
            A network that was trained.

        Returns
        -------
        pandas.DataFrame
            Rows of `candidates` that differ from the chosen ones in the learning rate alone.
        """
        chosen = self.runs(name).iloc[0]
        same = (self.candidates[IDENTITY] == chosen[IDENTITY]).all(axis=1)
        return self.candidates[same]

    def runs_learned(self, rows: pd.DataFrame) -> pd.Series:
        """Return which runs do better than chance, each by itself (see `learned`).

        Parameters
        ----------
        rows
            Rows of `candidates`, or of `rows`.

        Returns
        -------
        pandas.Series
            bool, one per row; False for a run that diverged before its first record.
        """
        if not self.higher_is_better:
            return rows["test"] < LEARNED_ERROR * rows["guess_metric"]
        return above_chance(rows["test"], rows["guess_metric"], rows["test_sequences"])

    def at_chance_in_words(self, name: NetworkRef, rows: pd.DataFrame) -> str:
        """Count the runs of a network that stay at chance, in words.

        Parameters
        ----------
        name
            A network that was trained.
        rows
            Its runs: rows of `rows`, or of `candidates`.

        Returns
        -------
        str
            Such as "4 of 5 runs of LSTM on sMNIST".
        """
        count = int((~self.runs_learned(rows)).sum())
        return f"{count} of {len(rows)} runs of {name} on {rows['task'].iloc[0]}"

    def at_chance(self) -> list[str]:
        """Return the networks that do no better than chance.

        Returns
        -------
        list of str
            Their labels.
        """
        return [label for label in self.labels() if not self.learned(label)]

    def at_chance_by_task(self) -> dict[str, list[str]]:
        """Return the networks that do no better than chance, for every task.

        Returns
        -------
        dict of str to list of str
            Their labels by task.
        """
        tasks = self.all_rows["task"].unique()
        return {task: self.on_task(task).at_chance() for task in tasks}

    def steps_trained(self, name: NetworkRef) -> int:
        """Return the number of optimizer steps for which a network was trained.

        Parameters
        ----------
        name
            The network.

        Returns
        -------
        int
            The steps of its longest run.
        """
        return int(self._longest[self.runs(name)["run"].unique()].max())
