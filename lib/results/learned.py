"""Whether the networks behind a set of results learned at all, and from the text's data: a result at chance is no evidence."""

import json

import xarray as xr
from scipy.stats import binom

TASKS = ("dataset", "order", "noise", "padding", "place", "time_steps")
"""Dimensions that tell tasks apart; over all others the best network counts."""
ENOUGH = 5 / 6
"""Share of the tasks on which each architecture's best network must do better than guessing."""
SURE = 0.05
LEAST = 0.9
"""What an error must be below, in units of guessing's, for a network to have learned."""
STAND_INS = ("digits",)
"""Data sets that no text uses; made-up data say themselves, in ``substitute``, that they are a stand-in."""
ADDING_GUESS = 1 / 6
"""Mean squared error of always answering 1, the variance of the sum of two uniform numbers (the dissertation's remark 2.3)."""


def above_chance(accuracy, guess, sequences, tried=1):
    """Return whether accuracies, shares, are above guessing by an exact binomial test, after Bonferroni over `tried` trainings.

    `sequences` are those of one test set: trainings that are tested on the same sequences are no further evidence on chance.
    """
    chance = xr.apply_ufunc(binom.sf, accuracy * sequences - 0.5, sequences, guess)
    return chance * tried < SURE


def stand_in(task: str, substitute: str) -> str:
    """Return what stands in for a text's data, of a task's settings in JSON and what its data say; empty where nothing does."""
    name = json.loads(task).get("dataset", "")
    if name in STAND_INS:
        return f"the data set {name} stands in for the text's"
    return substitute if "stand-in" in substitute else ""


def networks_learned(ds: xr.Dataset) -> bool | None:
    """Return whether networks are clearly above guessing on most tasks of `ds`; None where `ds` does not tell.

    With accuracies: by an exact binomial test, after Bonferroni, of the best network (of each architecture, where there
    are several) on the test sequences. Where values are asked for: where the best error is a tenth below guessing's, and the
    adding problem's squared error below half of it. With shares of errors and a tolerance in the settings: where some training reaches it.
    """
    settings = json.loads(ds.attrs.get("settings", "{}"))
    if "guess_metric" in ds:
        better = _above_the_guess_of_its_task(ds)
    elif "accuracy" in ds:
        better = tasks_learned(ds)
    elif "error" in ds and "checkpoint" in ds.dims:
        better = _best(-ds["error"].isel(checkpoint=-1)) > -ADDING_GUESS / 2
    elif "error" in ds and "tolerance" in settings:
        better = ds["error"].min() < settings["tolerance"]
    else:
        return None
    tasks = [dim for dim in better.dims if dim != "architecture"]
    return bool((better.mean(tasks) >= ENOUGH).all())


def stands_in(ds: xr.Dataset) -> bool:
    """Return whether other data stand in for the text's behind some of the results."""
    if "substitute" in ds and bool((ds["substitute"] != "").any()):
        return True
    if "dataset" in ds.coords and set(STAND_INS) & set(ds["dataset"].values.ravel().tolist()):
        return True
    settings = "task_settings" if "task_settings" in ds else "task"
    return (
        any(stand_in(task, "") for task in ds[settings].values.tolist())
        if settings in ds
        else False
    )


def _above_the_guess_of_its_task(ds: xr.Dataset) -> xr.DataArray:
    """Return for every task of a group of networks whether the best of all its trainings is clearly above guessing."""
    over = [dim for dim in ds["test_metric"].dims if dim != "run"]
    trained = (
        (ds["records"] > 0).groupby(ds["task"]).sum(...).sel(task=ds["task"]).drop_vars("task")
    )
    surely = above_chance(
        ds["test_metric"].max(over), ds["guess_metric"], ds["test_sequences"], trained
    )
    lower = ds["test_metric"].min(over) < LEAST * ds["guess_metric"]
    return surely.where(ds["metric"] == "accuracy", lower).groupby(ds["task"]).max()


def tasks_learned(ds: xr.Dataset) -> xr.DataArray:
    """Return at which tasks the best network of each architecture is clearly above guessing, of results with an ``accuracy``."""
    settings = json.loads(ds.attrs.get("settings", "{}"))
    accuracy = ds["accuracy"]
    accuracy = accuracy.isel(epoch=-1) if "epoch" in accuracy.dims else accuracy
    examples = (
        ds["examples"]
        if "examples" in ds
        else settings.get("test_size", settings.get("check_size"))
    )
    if "split" in accuracy.dims:
        accuracy, examples = accuracy.sel(split="test"), examples.sel(split="test")
    guess = (
        ds["largest_class"]
        if "largest_class" in ds
        else 1 / ds["classes"]
        if "classes" in ds
        else 0.5
    )
    best = _best(accuracy, "architecture")
    return above_chance(best, guess, examples, accuracy.size / best.size)


def _best(score: xr.DataArray, *keep: str) -> xr.DataArray:
    return score.max([dim for dim in score.dims if dim not in (*TASKS, *keep)])
