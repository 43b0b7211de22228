"""The networks of one group of runs, each at its best learning rate.

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

from study.claims.claim import NetworkSelection
from study.claims.estimates import Cause, Estimate, Scale, not_testable
from study.results.data_used import data_of, describe_stand_in
from study.results.learned import LEARNED_ERROR, above_chance
from study.results.networks import IDENTITY, levels_of, validated_best
from study.results.runs import in_measure, run_table


def join_reasons(*reasons: str) -> str:
    """Join the reasons that are not empty into one text.

    Parameters
    ----------
    reasons
        Texts, of which some may be empty.

    Returns
    -------
    str
        Separated by semicolons.

    Examples
    --------
    >>> join_reasons("too few runs", "", "at chance")
    'too few runs; at chance'
    """
    return "; ".join(reason for reason in reasons if reason)


class Networks:
    """The networks of a group, each at the learning rate that validates best.

    Attributes
    ----------
    ds
        The results of the group.
    task
        The task in view; empty for all tasks.
    rows
        `study.results.runs.run_table` of `task`, with ``score`` and ``guess``: the test
        metric and that of guessing, accuracies in percent. A run that diverged before its first
        record scores as guessing does.
    all_rows
        The same for all tasks.
    higher_is_better
        Whether the score is an accuracy.
    unit
        100 for accuracies, which are in percent, else 1.
    direction
        1 if a larger score is better, else -1.
    candidates
        `run_table` of all learning rates.
    """

    def __init__(
        self, ds: xr.Dataset, task: str = "", measure: str = "", paper_steps: float = math.nan
    ) -> None:
        self.ds = in_measure(ds, measure) if measure else ds
        # Looked up for every pair of networks, which is slow in a Dataset.
        self._longest = self.ds["steps"].max("replicate").to_series()
        rows = run_table(self.ds)
        self.candidates = rows
        self.learning_rates = rows.groupby(["label", "task"])["learning_rate"].unique()
        best = validated_best(rows, IDENTITY)
        rows = rows[rows["run"].isin(best)]
        unit = np.where(rows["metric"] == "accuracy", 100.0, 1.0)
        score = unit * rows["test"].fillna(rows["guess_metric"])
        last = unit * rows["last"].fillna(rows["guess_metric"])
        guess = unit * rows["guess_metric"]
        self.all_rows = rows.assign(score=score, last_score=last, guess=guess)
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
        self._cached_runs = cache(self._find_runs)

    def runs(self, name: NetworkSelection | str) -> pd.DataFrame:
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

    def _find_runs(self, name: NetworkSelection | str) -> pd.DataFrame:
        if isinstance(name, str):
            rows = self.rows
            return rows[rows["label"] == name]
        if name.pooled:
            alone = name.model_copy(update={"pooled": ()})
            return pd.concat([self.runs(part) for part in (alone, *name.pooled)])
        rows = self.rows
        if name.task:
            rows = self.all_rows[self.all_rows["task"] == name.task]
        levels = self._levels(rows, name)
        if not name.best:
            return levels
        return levels[levels["run"].isin(validated_best(levels, ["task"]))]

    @staticmethod
    def _levels(rows: pd.DataFrame, name: NetworkSelection) -> pd.DataFrame:
        plain = rows[rows["label"] == name.label]
        if not name.best:
            return plain
        # A network under its plain label is a level, too.
        return pd.concat([plain, levels_of(rows, name.label, name.best)])

    def levels(self, name: NetworkSelection | str) -> pd.DataFrame:
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
        rows = self.rows
        if name.task:
            rows = self.all_rows[self.all_rows["task"] == name.task]
        return self._levels(rows, name)

    def labels(self) -> list[str]:
        """Return the labels of the networks that were trained on the task in view.

        Returns
        -------
        list of str
        """
        return list(dict.fromkeys(self.rows["label"]))

    def scores(self, name: NetworkSelection | str) -> np.ndarray:
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

    def learned(self, name: NetworkSelection | str) -> bool:
        """Return whether a network was trained and does better than chance.

        An accuracy must be beyond chance, an error a tenth below that of guessing. The median
        over runs decides: one that blew up says nothing about the others.

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

    def at_chance(self) -> list[str]:
        """Return the networks that do no better than chance.

        Returns
        -------
        list of str
            Their labels.
        """
        return [label for label in self.labels() if not self.learned(label)]

    def scale(self, *names: NetworkSelection | str) -> Scale:
        """Return the size of the experiment behind some networks.

        Parameters
        ----------
        names
            The networks.

        Returns
        -------
        Scale
            Empty if none was trained.
        """
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

    def _guesses(self, name: NetworkSelection | str) -> bool:
        """Return whether a network was trained and does no better than chance."""
        return not self.runs(name).empty and not self.learned(name)

    def rate_at_edge(self, name: NetworkSelection | str) -> str:
        """Return that a network's best learning rate is at an end of those tried.

        Parameters
        ----------
        name
            The network.

        Returns
        -------
        str
            Network, task and learning rate; empty if the best rate lies between others.
        """
        rows = self.runs(name)
        if rows.empty:
            return ""
        row = rows.iloc[0]
        rates = self.rates_tried(name)
        if len(rates) > 1 and row["learning_rate"] in (rates[0], rates[-1]):
            return f"{name} on {row['task']} ({row['learning_rate']:g})"
        return ""

    def rates_tried(self, name: NetworkSelection | str) -> list[float]:
        """Return the learning rates at which a network was trained.

        Parameters
        ----------
        name
            The network.

        Returns
        -------
        list of float
            The smallest first.
        """
        row = self.runs(name).iloc[0]
        return sorted(self.learning_rates[row["label"], row["task"]])

    def settings_tried(self, name: NetworkSelection | str) -> int:
        """Return among how many settings validation chose those of a network.

        Parameters
        ----------
        name
            The network.

        Returns
        -------
        int
            Number of combinations of learning rate and swept factors on the network's task.
        """
        levels = self.levels(name)
        rows = self.candidates
        same = rows["label"].isin(levels["label"].unique())
        same &= rows["task"].isin(levels["task"].unique())
        return rows.loc[same, "run"].nunique()

    def gain_of_last_rate(self, name: NetworkSelection | str, *, logs: bool) -> float:
        """Return by how much a network is better at its best learning rate than at the next one.

        Parameters
        ----------
        name
            A network whose best learning rate is at an end of those tried.
        logs
            Whether the logarithms of errors are compared.

        Returns
        -------
        float
            In the unit of the score; at least 0.
        """
        best = self.runs(name).iloc[0]
        rows = self.candidates
        same = rows[(rows[IDENTITY] == best[IDENTITY]).all(axis=1)]
        rates = self.rates_tried(name)
        neighbor = rates[-2]
        if best["learning_rate"] == rates[0]:
            neighbor = rates[1]
        means = []
        for rate in (best["learning_rate"], neighbor):
            at_rate = same[same["learning_rate"] == rate]
            scores = self.unit * at_rate["test"].fillna(at_rate["guess_metric"])
            if logs:
                scores = np.log(scores)
            means.append(scores.mean())
        direction = self.direction
        if logs:  # of errors
            direction = -1
        return max(0.0, direction * (means[0] - means[1]))

    def steps_trained(self, name: NetworkSelection | str) -> int:
        """Return for how many optimizer steps a network was trained.

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

    def refusal(
        self, names: Sequence[NetworkSelection | str], learners: Iterable[NetworkSelection | str]
    ) -> Estimate | None:
        """Return why no claim about some networks can be judged.

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
            return not_testable(f"not trained: {', '.join(missing)}", Cause.NO_DATA)
        first = self.runs(names[0]).iloc[0]
        replaced = describe_stand_in(first["task_settings"], first["substitute"])
        if replaced:
            return not_testable(replaced, Cause.NO_DATA, self.scale(*names))
        poor = [str(name) for name in learners if not self.learned(name)]
        if poor:
            reason = f"no better than chance: {', '.join(poor)}"
            return not_testable(reason, Cause.PREMISE, self.scale(*names))
        return None
