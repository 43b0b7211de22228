"""The data that networks were trained on: stand-ins for a paper's data, and sequence lengths."""

import json
from collections.abc import Iterable

import xarray as xr

from study.results.names import label
from study.results.number_format import range_text
from study.results.schema import settings_of

STAND_INS = ("digits", "imdb_ratings", "ucr_worms")
"""Real data sets that replace a paper's. Synthetic data say "stand-in" in ``substitute``."""


def maker_of(task_settings: str) -> str:
    """Return the name of the function that made a task (`study.tasks`).

    Parameters
    ----------
    task_settings
        The task's settings, as JSON.

    Returns
    -------
    str
        Empty if the settings don't name it.
    """
    return json.loads(task_settings).get("task", "")


def describe_stand_in(task_settings: str, substitute: str) -> str:
    """Describe the data that replace a paper's, in one sentence.

    Parameters
    ----------
    task_settings
        The task's settings, as JSON.
    substitute
        The sentence that is stored with a prepared data set if it is not exactly the publisher's;
        else empty.

    Returns
    -------
    str
        Empty if the data are the paper's.
    """
    name = json.loads(task_settings).get("dataset", "")
    if name in STAND_INS:
        return f"the data set {name} stands in for the paper's"
    if "stand-in" in substitute:
        return substitute
    return ""


def has_stand_ins(ds: xr.Dataset) -> bool:
    """Return whether any run read data that stand in for the paper's.

    A part of the paper's data is not a stand-in, and neither are windows that were cut again from
    the same recordings.

    Parameters
    ----------
    ds
        Results of any schema.

    Returns
    -------
    bool
        See `describe_stand_in`.
    """
    if "dataset" in ds.dims:
        return bool(ds["dataset"].isin(STAND_INS).any())
    if "task_settings" not in ds:
        return False
    tasks = ds["task_settings"].values
    substitutes = [""] * len(tasks)
    if "substitute" in ds:
        substitutes = ds["substitute"].values
    return any(map(describe_stand_in, tasks, substitutes))


def shortest_and_longest(ds: xr.Dataset) -> tuple[int, int] | None:
    """Return the shortest and the longest sequence length.

    Parameters
    ----------
    ds
        Results of any schema.

    Returns
    -------
    tuple of int, or None
        Both in time steps; None if neither data nor design has a length.
    """
    if "time_steps" in ds:
        return int(ds["time_steps"].min()), int(ds["time_steps"].max())
    settings = settings_of(ds)
    length = settings.get("time_steps", settings.get("horizon"))
    if not length:
        return None
    return length, length


def longest_sequence(ds: xr.Dataset) -> int | None:
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
    lengths = shortest_and_longest(ds)
    if lengths is None:
        return None
    _, longest = lengths
    return longest


def data_and_length(ds: xr.Dataset) -> str:
    """Return the data that networks read and the length of the sequences, as text for readers.

    Parameters
    ----------
    ds
        Results of any schema.

    Returns
    -------
    str
        Such as ``MNIST, 196 time steps``.
    """
    parts = []
    if "dataset" in ds.dims:
        parts.append(_join_labels(ds["dataset"].values))
    elif "task_settings" in ds:
        parts.append(data_of(ds["task_settings"].values))
    lengths = shortest_and_longest(ds)
    if lengths is not None:
        parts.append(f"{range_text(*lengths)} time steps")
    return ", ".join(part for part in parts if part)


def data_of(task_settings: Iterable[str]) -> str:
    """Return the names of tasks' data sets or synthetic problems, as text for readers.

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
    return _join_labels(task.get("dataset") or task["task"] for task in tasks)


def _join_labels(names: Iterable[str]) -> str:
    """Return the labels of different names, separated by semicolons."""
    return "; ".join(label(name).replace("_", " ") for name in dict.fromkeys(names))
