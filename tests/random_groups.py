"""Synthetic groups of results: random runs of networks whose mean scores are given."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr
from study.results.schema import COMPLETED


class Measure(NamedTuple):
    """A score in which networks are compared, and what is typical of it."""

    recorded: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    """Returns the recorded loss and metric of scores."""
    typical: float
    """Score of a network that has learned."""
    chance: float
    """Score at chance."""
    unit: float
    """Unit of differences between networks."""
    spread: float
    """Standard deviation over runs."""


MEASURES = {
    "accuracy": Measure(lambda x: (np.ones_like(x), x / 100), 50.0, 10.0, 1, 0.2),
    "error": Measure(lambda x: (x**2, x), 1.0, 20.0, 1, 0.01),
    "squared error": Measure(lambda x: (x, np.sqrt(x)), 0.05, 1 / 6, 0.004, 0.01),
    "perplexity": Measure(lambda x: (np.log(x), np.zeros_like(x)), 200.0, 700.0, 5.0, 0.01),
    "bits": Measure(lambda x: (x * math.log(2), np.zeros_like(x)), 2.0, 4.3, 0.05, 0.01),
    "cross entropy": Measure(lambda x: (x, np.zeros_like(x)), 0.05, 1.0, 0.004, 0.01),
}
RECORD = ("run", "replicate", "record")
"""Dimensions of what is recorded during runs."""


def _columns_of_runs(
    keys: list[tuple[str, str]],
    measure: str,
    guess: float,
    test_sequences: int,
    time_steps: Mapping[str, int],
) -> dict[str, list]:
    """Return the variables that have one value per run, for runs with these labels and tasks."""
    guess_loss, guess_metric = map(float, MEASURES[measure].recorded(np.array(float(guess))))
    same = {"architecture": "lem", "width": 16, "learning_rate": 0.001, "parameters": 1}
    same |= {"task_settings": '{"task": "made up"}', "substitute": "", "sequences": 100}
    same["metric"] = "error" if measure in ("error", "squared error") else "accuracy"
    same |= {"guess_loss": guess_loss, "guess_metric": guess_metric}
    same["test_sequences"] = test_sequences
    columns = {name: [value] * len(keys) for name, value in same.items()}
    columns["label"] = [label for label, _ in keys]
    columns["network"] = [label.partition(", ")[0] for label, _ in keys]
    columns["task"] = [task for _, task in keys]
    columns["time_steps"] = [time_steps.get(task, 10) for _, task in keys]
    return columns


def group_sampler(
    scores: Mapping[str | tuple[str, str], float],
    *,
    spread: float,
    measure: str = "accuracy",
    guess: float = 10.0,
    test_sequences: int = 4000,
    time_steps: Mapping[str, int] | None = None,
    **factors: list,
) -> Callable[..., xr.Dataset]:
    """Return a function that draws a group whose networks have these mean scores.

    Parameters
    ----------
    scores
        Mean score by label, or by label and task.
    spread
        Standard deviation over runs: of accuracies in points, of errors in units of the error.
    measure
        One of `MEASURES`.
    guess
        Score at chance.
    test_sequences
        Number of sequences in the test part.
    time_steps
        Lengths of tasks; 10 if a task is not named.
    factors
        Further coordinates along ``run``.

    Returns
    -------
    callable
        Takes a random generator and the number of replicates (6), and returns the group.
    """
    keys = [key if isinstance(key, tuple) else (key, "made up") for key in scores]
    means = np.array(list(scores.values()), float)[:, None]
    recorded = MEASURES[measure].recorded
    by_run = _columns_of_runs(keys, measure, guess, test_sequences, time_steps or {})

    def draw(rng: np.random.Generator, replicates: int = 6) -> xr.Dataset:
        noise = spread * rng.uniform(0.5, 1.5) * rng.standard_normal((len(keys), replicates))
        values = means * np.exp(noise)
        if measure == "accuracy":
            values = (means + noise).clip(0, 100)
        loss, metric = recorded(values)
        once = np.ones(loss.shape, int)
        variables = {name: ("run", [*column]) for name, column in (by_run | factors).items()}
        variables["status"] = RECORD[:2], np.full(loss.shape, COMPLETED)
        variables |= dict.fromkeys(("records", "steps"), (RECORD[:2], once))
        for part in ("test", "validation"):
            variables[f"{part}_loss"] = RECORD, loss[..., None]
            variables[f"{part}_metric"] = RECORD, metric[..., None]
        variables["step"] = RECORD, once[..., None]
        ds = xr.Dataset(variables, attrs={"profile": "drawn", "settings": "{}"}).set_coords(
            [*factors]
        )
        runs = [", ".join(key) for key in keys]
        return ds.assign_coords(run=runs, replicate=range(replicates))

    return draw
