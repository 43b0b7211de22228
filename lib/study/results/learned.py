"""Whether the networks behind a set of results learned at all, and from the text's data: a
result at chance is no evidence.
"""

import json
from collections.abc import Iterable

import numpy as np
import xarray as xr
from scipy.special import bdtrik

from study.results.names import label

ENOUGH = 5 / 6
"""Share of the tasks on which the best network must do better than guessing."""
SURE = 0.05
"""How often networks that guess may pass for networks that learned."""
LEAST = 0.9
"""What an error must be below, in units of guessing's, for a network to have learned."""
STAND_INS = ("digits", "imdb_ratings", "ucr_worms")
"""Data sets that no text uses; made-up data say themselves, in ``substitute``, that they are a
stand-in.
"""


def chance_bound(guess, sequences, tried=1):
    """Return the accuracy, a share, that guessing hardly exceeds: with a probability of `SURE`
    that one of `tried` trainings does (binomial, Bonferroni).

    `sequences` are those of one test set: trainings that are tested on the same sequences are no
    further evidence on chance.

    >>> round(float(chance_bound(0.1, 10_000)), 5)
    0.10505
    """
    right = np.ceil(bdtrik(1 - SURE / tried, sequences, guess))  # the binomial quantile
    return (right + 0.5) / sequences  # between two counts, where no rounding of a share matters


def above_chance(accuracy, guess, sequences, tried=1):
    """Return whether accuracies, shares, are above `chance_bound`."""
    return accuracy > chance_bound(guess, sequences, tried)


def stand_in(task_settings: str, substitute: str) -> str:
    """Return what stands in for a text's data, of a task's settings in JSON and what its data
    say; empty where nothing does.
    """
    name = json.loads(task_settings).get("dataset", "")
    if name in STAND_INS:
        return f"the data set {name} stands in for the text's"
    return substitute if "stand-in" in substitute else ""


def networks_learned(ds: xr.Dataset) -> bool | None:
    """Return whether networks are clearly above guessing on most tasks of `ds`, by its schema;
    None where it does not tell.

    Rows: `rows_learned`. The factorial: `tasks_learned`, some architecture at most tasks and each
    of them somewhere, for a network that fails where others learn is what that experiment asks
    about. Linear gaps: better than a coin at every place. Latching: where some training reaches the
    tolerance.
    """
    settings = json.loads(ds.attrs.get("settings", "{}"))
    match ds.attrs.get("schema", "").partition("/")[0]:
        case "rows":
            better = rows_learned(ds)
        case "factorial":
            each = tasks_learned(ds)
            somewhere = each.any([dim for dim in each.dims if dim != "architecture"])
            better = each.any("architecture") & somewhere.all()
        case "linear_gaps":
            best = ds["accuracy"].max(["orthogonality", "replicate"])
            tried = ds["accuracy"].size // best.size
            better = above_chance(best, 0.5, settings["test_size"], tried)
        case "latching":
            better = ds["error"].min() < settings["tolerance"]
        case _:
            return None
    return bool(better.mean() >= ENOUGH)


def rows_learned(ds: xr.Dataset) -> xr.DataArray:
    """Return for every task of a group of rows whether the best of all its trainings is clearly
    above guessing.

    An accuracy by an exact binomial test, after Bonferroni over all records; an error where it is a
    tenth below guessing's.
    """
    over, task = [dim for dim in ds["test_metric"].dims if dim != "run"], ds["task_settings"]
    trained = ds["records"].groupby(task).sum(...).sel(task_settings=task)
    surely = above_chance(
        ds["test_metric"].max(over),
        ds["guess_metric"],
        ds["test_sequences"],
        trained.drop_vars("task_settings"),
    )
    lower = ds["test_metric"].min(over) < LEAST * ds["guess_metric"]
    return surely.where(ds["metric"] == "accuracy", lower).groupby(task).max()


def tasks_learned(ds: xr.Dataset) -> xr.DataArray:
    """Return at which tasks of the factorial the best network of each architecture is clearly
    above guessing.
    """
    accuracy = ds["accuracy"].sel(split="test", epoch=ds["training_length"])
    of_task = ("architecture", "dataset", "order", "noise")
    best = accuracy.max([dim for dim in accuracy.dims if dim not in of_task])
    examples = ds["examples"].sel(split="test")
    return above_chance(best, ds["largest_class"], examples, accuracy.size // best.size)


def stands_in(ds: xr.Dataset) -> bool:
    """Return whether other data stand in for the text's behind some of the results."""
    if "substitute" in ds and bool((ds["substitute"] != "").any()):
        return True
    if "dataset" in ds.dims:
        return bool(ds["dataset"].isin(STAND_INS).any())
    return "task_settings" in ds and any(stand_in(one, "") for one in ds["task_settings"].values)


def lengths(ds: xr.Dataset) -> tuple[int, int] | tuple[()]:
    """Return the shortest and the longest of the sequences of `ds`, in time steps; nothing where
    neither data nor design says.
    """
    if "time_steps" in ds:
        return int(ds["time_steps"].min()), int(ds["time_steps"].max())
    settings = json.loads(ds.attrs.get("settings", "{}"))
    drawn = settings.get("time_steps", settings.get("horizon"))
    return (drawn, drawn) if drawn else ()


def longest(ds: xr.Dataset) -> int | None:
    """Return the longest of the sequences of `ds`, in time steps; None where nothing says."""
    return max(lengths(ds), default=None)


def data_and_length(ds: xr.Dataset) -> str:
    """Return which data the networks of `ds` read and how long their sequences are, such as
    ``MNIST, 196 time steps``.
    """
    if "dataset" in ds.dims:
        data = _words(ds["dataset"].values)
    else:
        data = data_of(ds["task_settings"].values if "task_settings" in ds else ())
    ends = dict.fromkeys(lengths(ds))
    length = " to ".join(f"{n:,}" for n in ends) + " time steps" if ends else ""
    return ", ".join(filter(None, [data, length]))


def data_of(task_settings: Iterable[str]) -> str:
    """Return which data tasks with these settings, in JSON, read, or how they are drawn, in
    words.
    """
    tasks = map(json.loads, task_settings)
    return _words(task.get("dataset") or task["task"] for task in tasks)


def _words(names: Iterable[str]) -> str:
    return "; ".join(label(name).replace("_", " ") for name in dict.fromkeys(names))
