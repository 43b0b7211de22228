"""Evidence behind a set of results: did its networks learn, and on the paper's own data?

A result at chance level is not evidence.
"""

import json
from collections.abc import Iterable

import numpy as np
import xarray as xr
from scipy.special import bdtrik

from study.results.names import label

ENOUGH = 5 / 6
"""Share of the tasks on which the best network must be above chance."""
SURE = 0.05
"""Probability that networks that guess pass for networks that learned."""
LEAST = 0.9
"""Bound on a learned error, in units of the error at chance."""
STAND_INS = ("digits", "imdb_ratings", "ucr_worms")
"""Data sets that no paper uses. Made-up data name themselves a stand-in in ``substitute``."""


COMPRESSED = "JPEG"
"""A word of ``substitute`` if images were compressed again, so that their pixels differ."""


def chance_bound(guess, sequences, tried=1, level=SURE):
    """Return the accuracy that guessing exceeds with a probability of at most `level`.

    Parameters
    ----------
    guess
        Accuracy of guessing, a share.
    sequences
        Sequences of one test set. Runs tested on the same sequences add no evidence on chance.
    tried
        Number of runs among which the best is chosen (Bonferroni).
    level
        Probability that any of the runs passes for one that learned although all of them guess.

    Returns
    -------
    float or array
        The bound, a share (binomial quantile).

    Examples
    --------
    >>> round(float(chance_bound(0.1, 10_000)), 5)
    0.10505
    """
    right = np.ceil(bdtrik(1 - level / tried, sequences, guess))  # the binomial quantile
    return (right + 0.5) / sequences  # between two counts, so that rounding a share is harmless


def above_chance(accuracy, guess, sequences, tried=1):
    """Return whether accuracies are above `chance_bound`.

    Parameters
    ----------
    accuracy
        Accuracies, shares.
    guess, sequences, tried
        As in `chance_bound`.

    Returns
    -------
    bool or array of bool
        Whether each is above the bound.
    """
    return accuracy > chance_bound(guess, sequences, tried)


def stand_in(task_settings: str, substitute: str) -> str:
    """Return the name of data that replace a paper's.

    Parameters
    ----------
    task_settings
        The task's settings, as JSON.
    substitute
        What the prepared data say about themselves.

    Returns
    -------
    str
        A sentence; empty if the data are the paper's.
    """
    name = json.loads(task_settings).get("dataset", "")
    if name in STAND_INS:
        return f"the data set {name} stands in for the paper's"
    return substitute if "stand-in" in substitute else ""


def is_comparable(task_settings: str, substitute: str) -> bool:
    """Return whether a task reads the paper's data, or real data of the same source.

    A part of the paper's data is comparable, and so are windows cut again from the same
    recordings. Other data are not, nor made-up ones, nor images that were compressed again.

    Parameters
    ----------
    task_settings
        The task's settings, as JSON.
    substitute
        What the prepared data say about themselves.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_comparable('{"dataset": "cifar10"}', "14,987 of 50,000 training images")
    True
    >>> is_comparable('{"dataset": "cifar10"}', "decoded from JPEG copies of the images")
    False
    """
    return not stand_in(task_settings, substitute) and COMPRESSED not in substitute


def networks_learned(ds: xr.Dataset) -> bool | None:
    """Return whether networks are clearly above chance on most tasks of a dataset.

    Parameters
    ----------
    ds
        Results of any schema.

    Returns
    -------
    bool or None
        None if the schema has no rule. The rules: rows, as `rows_learned`. Factorial, as
        `tasks_learned`: some architecture on most tasks, and each architecture on some task,
        because the experiment studies networks that fail on tasks that others learn. Linear gaps:
        better than a coin for every deciding input. Latching: some run reaches the tolerance.
        Interventions: some untreated network at every location.
    """
    settings = json.loads(ds.attrs.get("settings", "{}"))
    match ds.attrs.get("schema", "").partition("/")[0]:
        case "rows":
            better = rows_learned(ds)
        case "factorial":
            learned = tasks_learned(ds)
            somewhere = learned.any([dim for dim in learned.dims if dim != "architecture"])
            better = learned.any("architecture") & somewhere.all()
        case "linear_gaps":
            best = ds["accuracy"].max(["orthogonality", "replicate"])
            tried = ds["accuracy"].size // best.size
            better = above_chance(best, 0.5, settings["test_size"], tried)
        case "interventions":
            best = ds["test_accuracy"].sel(treatment="plain").max(["cell", "replicate"])
            tried = ds.sizes["cell"] * ds.sizes["replicate"]
            chance = float(ds["chance"].max())
            better = above_chance(best, chance, int(ds["test_sequences"].min()), tried)
        case "latching":
            better = ds["error"].min() < settings["tolerance"]
        case _:
            return None
    return bool(better.mean() >= ENOUGH)


def rows_learned(ds: xr.Dataset) -> xr.DataArray:
    """Return for every task of a group whether the best of its runs is clearly above chance.

    Parameters
    ----------
    ds
        Results of a group of rows.

    Returns
    -------
    xarray.DataArray
        By ``task_settings``. An accuracy is judged by an exact binomial test with Bonferroni's
        correction over all records; an error is above chance if it is a tenth below that at chance.
    """
    within_run = [dim for dim in ds["test_metric"].dims if dim != "run"]
    task = ds["task_settings"]
    records = ds["records"].groupby(task).sum(...).sel(task_settings=task)
    accurate = above_chance(
        ds["test_metric"].max(within_run),
        ds["guess_metric"],
        ds["test_sequences"],
        records.drop_vars("task_settings"),
    )
    lower = ds["test_metric"].min(within_run) < LEAST * ds["guess_metric"]
    return accurate.where(ds["metric"] == "accuracy", lower).groupby(task).max()


def tasks_learned(ds: xr.Dataset) -> xr.DataArray:
    """Return on which tasks each architecture's best network is clearly above chance.

    Parameters
    ----------
    ds
        Results of the factorial experiment.

    Returns
    -------
    xarray.DataArray
        Over ``architecture``, ``dataset``, ``order`` and ``noise``.
    """
    accuracy = ds["accuracy"].sel(split="test", epoch=ds["training_length"])
    factors = ("architecture", "dataset", "order", "noise")
    best = accuracy.max([dim for dim in accuracy.dims if dim not in factors])
    examples = ds["examples"].sel(split="test")
    return above_chance(best, ds["largest_class"], examples, accuracy.size // best.size)


def stands_in(ds: xr.Dataset) -> bool:
    """Return whether some results are not on the paper's data nor on comparable ones.

    Parameters
    ----------
    ds
        Results of any schema.

    Returns
    -------
    bool
        True if a run read data that are not comparable (`is_comparable`).
    """
    if "dataset" in ds.dims:
        return bool(ds["dataset"].isin(STAND_INS).any())
    if "task_settings" not in ds:
        return False
    tasks = ds["task_settings"].values
    substitutes = ds["substitute"].values if "substitute" in ds else [""] * len(tasks)
    return not all(map(is_comparable, tasks, substitutes))


def lengths(ds: xr.Dataset) -> tuple[int, int] | tuple[()]:
    """Return the shortest and the longest sequence length.

    Parameters
    ----------
    ds
        Results of any schema.

    Returns
    -------
    tuple of int
        Both in time steps; empty if neither data nor design has a length.
    """
    if "time_steps" in ds:
        return int(ds["time_steps"].min()), int(ds["time_steps"].max())
    settings = json.loads(ds.attrs.get("settings", "{}"))
    length = settings.get("time_steps", settings.get("horizon"))
    return (length, length) if length else ()


def longest(ds: xr.Dataset) -> int | None:
    """Return the longest sequence length, in time steps.

    Parameters
    ----------
    ds
        Results of any schema.

    Returns
    -------
    int or None
        None if neither data nor design has a length.
    """
    return max(lengths(ds), default=None)


def data_and_length(ds: xr.Dataset) -> str:
    """Return the data that networks read and the length of the sequences, for people.

    Parameters
    ----------
    ds
        Results of any schema.

    Returns
    -------
    str
        Such as ``MNIST, 196 time steps``.
    """
    if "dataset" in ds.dims:
        data = _words(ds["dataset"].values)
    else:
        data = data_of(ds["task_settings"].values if "task_settings" in ds else ())
    ends = dict.fromkeys(lengths(ds))
    length = ""
    if ends:
        length = " to ".join(f"{n:,}" for n in ends) + " time steps"
    return ", ".join(filter(None, [data, length]))


def data_of(task_settings: Iterable[str]) -> str:
    """Return the data that tasks read, or the problems that they draw, for people.

    Parameters
    ----------
    task_settings
        Settings of each task, as JSON.

    Returns
    -------
    str
        Labels of the data sets or problems.
    """
    tasks = map(json.loads, task_settings)
    return _words(task.get("dataset") or task["task"] for task in tasks)


def _words(names: Iterable[str]) -> str:
    return "; ".join(label(name).replace("_", " ") for name in dict.fromkeys(names))
