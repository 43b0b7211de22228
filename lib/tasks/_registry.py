"""The registry that the tasks' files fill: a task is made from its name and its settings."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from lib.tasks.data import Task

Make = Callable[..., Task]

TASKS: dict[str, Make] = {}


def task(make: Make) -> Make:
    """Register a function ``(prepared, rng, *, settings...) -> Task`` under its own name.

    `prepared` is the folder of the prepared data sets, `rng` draws what the task's variation needs; the settings are
    keywords, and what `params.yaml` may say of the task.
    """
    TASKS[make.__name__] = make
    return make


def check_task(spec: Mapping) -> None:
    """Refuse a task that cannot be made, without making it.

    Raises
    ------
    ValueError
        The task is unknown, or a setting is unknown or missing; one sentence with what there is.
    """
    make = _find(spec)
    settings = inspect.signature(make).parameters.values()
    known = {p.name: p for p in settings if p.kind is p.KEYWORD_ONLY}
    given = set(spec) - {"task"}
    if unknown := sorted(given - set(known)):
        raise ValueError(
            f"task {make.__name__!r} has no setting {unknown[0]!r}; it has {', '.join(known) or 'none'}"
        )
    needed = [name for name, p in known.items() if p.default is p.empty]
    if missing := [name for name in needed if name not in given]:
        raise ValueError(f"task {make.__name__!r} needs the setting {missing[0]!r}")


def make_task(spec: Mapping, prepared: Path | None, rng: np.random.Generator) -> Task:
    """Return the task that `spec` asks for: its name under ``task``, and its settings.

    Raises
    ------
    ValueError
        As `check_task`, and whatever the task says of settings that do not fit its data.
    """
    check_task(spec)
    settings = {name: value for name, value in spec.items() if name != "task"}
    return _find(spec)(prepared, rng, **settings)


def task_module(spec: Mapping) -> str:
    """Return the module that makes the task, for the fingerprint of a training."""
    return _find(spec).__module__


def _find(spec: Mapping) -> Make:
    name = spec.get("task")
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}; known: {', '.join(sorted(TASKS))}")
    return TASKS[name]


def task_settings(name: object) -> tuple[str, ...]:
    """Return the names of a task's settings; raises `ValueError` where there is no such task."""
    parameters = inspect.signature(_find({"task": name})).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
