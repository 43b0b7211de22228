"""Whether the networks behind a set of results learned at all: a result at chance is no evidence."""

import json

import xarray as xr
from scipy.stats import binom

TASKS = ("dataset", "order", "noise", "padding", "place", "time_steps")
"""Dimensions that tell tasks apart; over all others the best network counts."""
ENOUGH = 5 / 6
"""Share of the tasks on which each architecture's best network must do better than guessing."""
SURE = 0.05
ADDING_GUESS = 1 / 6
"""Mean squared error of always answering 1."""


def networks_learned(ds: xr.Dataset) -> bool | None:
    """Return whether networks are clearly above guessing on most tasks of `ds`; None where `ds` does not tell.

    With accuracies: by an exact binomial test, after Bonferroni, of the best network (of each architecture, where there
    are several) on the test sequences. On the adding problem: where the best halves the error of guessing. With shares of
    errors and a tolerance in the settings: where some training reaches it.
    """
    settings = json.loads(ds.attrs.get("settings", "{}"))
    if "accuracy" in ds:
        better = _above_guessing(ds, settings)
    elif "error" in ds and "checkpoint" in ds.dims:
        better = _best(-ds["error"].isel(checkpoint=-1)) > -ADDING_GUESS / 2
    elif "error" in ds and "tolerance" in settings:
        better = ds["error"].min() < settings["tolerance"]
    else:
        return None
    tasks = [dim for dim in better.dims if dim != "architecture"]
    return bool((better.mean(tasks) >= ENOUGH).all())


def _above_guessing(ds: xr.Dataset, settings: dict) -> xr.DataArray:
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
    chance = xr.apply_ufunc(binom.sf, best * examples - 0.5, examples, guess)
    return chance < SURE * best.size / accuracy.size


def _best(score: xr.DataArray, *keep: str) -> xr.DataArray:
    return score.max([dim for dim in score.dims if dim not in (*TASKS, *keep)])
