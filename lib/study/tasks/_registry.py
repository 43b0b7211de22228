"""The registry that the tasks' files fill: a task is made from its name and its settings.

The settings that every task of a prepared data set shares are listed here and nowhere else: which
data set, how many of its sequences, and how many of them are set aside.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, create_model

from study.config.section import Section, Size, format_value, parse_section
from study.tasks.data import Task
from study.tasks.loading import hold_out, load_prepared

_SIZES = ("train_size", "validation_size", "test_size")
"""Sequences to keep (see `study.tasks.loading.load_prepared`), and those held out of the training
part to validate on. A maker that divides the data itself has settings of these names."""
_SHARED = {"dataset": (Annotated[str, Field(pattern=r"^\w+$")], ...)} | dict.fromkeys(
    _SIZES, (Size, 0)
)


Count = Annotated[int, Field(ge=1, le=10**7)]
"""Time steps of a task that draws its sequences."""


@dataclass(frozen=True)
class Maker:
    """A function that makes a task, and what is known about it."""

    make: Callable[..., Task]
    draws: bool
    """Whether the task draws its sequences."""
    takes: frozenset[str]
    """Names of all parameters of `make`."""
    settings: type[Section]
    """The settings that a specification may give."""


TASKS: dict[str, Maker] = {}


def task(make: Callable[..., Task]) -> Callable[..., Task]:
    """Register a function that makes a task, under its own name.

    Parameters
    ----------
    make
        A function ``(data, rng, *, settings...) -> Task``. It gets `data`, the prepared data set
        cut to the requested sizes, and `rng`, which draws what the task's variation needs, if it
        names them. A maker that names neither has no set of given size: it draws sequences without
        end. Settings are keywords, annotated with their types and ranges; they are what
        ``params.yaml`` may set.

    Returns
    -------
    Callable
        The same function.

    """
    parameters = inspect.signature(make).parameters
    keywords = {
        parameter.name: (
            parameter.annotation,
            ... if parameter.default is parameter.empty else parameter.default,
        )
        for parameter in parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    fields = (_SHARED if "data" in parameters else {}) | keywords
    settings = create_model(make.__name__, __base__=Section, **fields)
    draws = parameters.keys().isdisjoint(("data", "rng"))
    TASKS[make.__name__] = Maker(make, draws, frozenset(parameters), settings)
    return make


def check_task(spec: Mapping) -> None:
    """Refuse a task or a setting that is unknown, missing, of the wrong type or out of range.

    Parameters
    ----------
    spec
        The task's name under ``task``, and its settings.

    Raises
    ------
    ValueError
        One sentence: what was given and what was expected.

    """
    maker, settings = _checked(spec)
    if maker.draws:  # it needs no data and draws nothing yet, so it can be made
        maker.make(**settings)


def make_task(spec: Mapping, prepared: Path | None, rng: np.random.Generator) -> Task:
    """Make a task.

    Parameters
    ----------
    spec
        The task's name under ``task``, and its settings.
    prepared
        Folder of the prepared data sets; None for tasks that draw their sequences.
    rng
        Draws what the task's variation needs.

    Returns
    -------
    Task
        The task.

    Raises
    ------
    ValueError
        As `check_task`, or settings do not fit the data.

    """
    maker, settings = _checked(spec)
    if "data" in maker.takes:
        sizes = {name: 0 if name in maker.takes else settings[name] for name in _SIZES}
        path = Path(prepared) / f"{settings['dataset']}.nc"
        data = load_prepared(path, sizes["train_size"], sizes["test_size"])
        settings["data"] = hold_out(data, sizes["validation_size"])
    settings["rng"] = rng
    return maker.make(**{name: settings[name] for name in maker.takes})


def find_task(spec: Mapping) -> Maker:
    """Return the maker of a task.

    Parameters
    ----------
    spec
        The task's name under ``task``, and its settings.

    Returns
    -------
    Maker
        The registered maker.

    Raises
    ------
    ValueError
        There is no task of that name.

    """
    name = spec.get("task") if isinstance(spec, Mapping) else None
    if not isinstance(name, str):
        raise ValueError(
            "expected a task's name and its settings, such as task: adding, time_steps: 20, "
            f"got {format_value(spec)}"
        )
    if name not in TASKS:
        raise ValueError(f"unknown task {format_value(name)}; known: {', '.join(sorted(TASKS))}")
    return TASKS[name]


def _checked(spec: Mapping) -> tuple[Maker, dict[str, Any]]:
    """Return a task's maker and all its settings, defaults included."""
    maker = find_task(spec)
    given = {key: value for key, value in spec.items() if key != "task"}
    settings = parse_section(maker.settings, given, f"task {spec['task']}", lead="")
    return maker, {name: getattr(settings, name) for name in maker.settings.model_fields}
