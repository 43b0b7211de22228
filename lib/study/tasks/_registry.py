"""The registry of tasks: make a task from its name and its settings.

Each task's module registers a function, the maker, with the decorator `task`. A run's configuration
(`study.config.task.TaskSpec`) contains the maker's name and its settings, and `make_task` calls the
maker. All tasks of prepared data sets have some common settings, which are defined here: the name
of the data set, and the sizes of its splits.
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
"""Settings for the sizes of the splits.

`study.tasks.loading.load_prepared` keeps `train_size` and `test_size` sequences, and
`study.tasks.loading.hold_out` moves `validation_size` sequences from the training split to a
validation split. If a maker has parameters of these names, it handles these sizes itself.
"""
_SETTINGS_OF_DATA = {
    "dataset": (Annotated[str, Field(pattern=r"^\w+$")], ...),
    **dict.fromkeys(_SIZES, (Size, 0)),
}
"""Settings of tasks of prepared data sets: type and default by name, as pydantic reads them."""

Count = Annotated[int, Field(ge=1, le=10**7)]
"""Number of time steps of a task that draws its sequences."""


@dataclass(frozen=True)
class Maker:
    """A registered function that makes a task.

    Attributes
    ----------
    make : callable
        The function.
    draws : bool
        Whether its task draws new sequences, so that it needs no prepared data set.
    parameters : frozenset of str
        Names of all parameters of `make`.
    settings : type of Section
        The settings that a run's configuration may give.
    """

    make: Callable[..., Task]
    draws: bool
    parameters: frozenset[str]
    settings: type[Section]


MAKERS: dict[str, Maker] = {}
"""The registered makers by name."""


def task(make: Callable[..., Task]) -> Callable[..., Task]:
    """Register a function that makes a task, under its own name.

    Parameters
    ----------
    make : callable
        A function ``make(data, rng, *, ...)`` that returns a `Task`. `data` is the prepared data
        set with the requested sizes, and `rng` a random generator; the function may leave out
        either. A function without both makes a task that draws new sequences. The keyword-only
        parameters, annotated with types and ranges, are the settings in ``params.yaml``.

    Returns
    -------
    callable
        The same function.
    """
    parameters = inspect.signature(make).parameters
    fields: dict[str, Any] = {}
    if "data" in parameters:
        fields |= _SETTINGS_OF_DATA
    for parameter in parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            default = parameter.default
            if default is parameter.empty:
                default = ...  # required
            fields[parameter.name] = (parameter.annotation, default)
    settings = create_model(make.__name__, __base__=Section, **fields)
    draws = parameters.keys().isdisjoint(("data", "rng"))
    MAKERS[make.__name__] = Maker(make, draws, frozenset(parameters), settings)
    return make


def check_task(spec: Mapping) -> None:
    """Refuse an unknown task, and settings that are unknown, missing or invalid.

    Parameters
    ----------
    spec : mapping
        The task's name under ``task``, and its settings.

    Raises
    ------
    ValueError
        The message says what was given and what was expected.
    """
    maker, settings = _check_settings(spec)
    if maker.draws:  # making it is cheap: it needs no data, and draws nothing yet
        maker.make(**settings)


def make_task(spec: Mapping, prepared: Path | None, rng: np.random.Generator) -> Task:
    """Make a task.

    Parameters
    ----------
    spec : mapping
        The task's name under ``task``, and its settings.
    prepared : Path, optional
        Folder of the prepared data sets; None for tasks that draw their sequences.
    rng : numpy.random.Generator
        Source of randomness, such as for a permutation or noise.

    Returns
    -------
    Task

    Raises
    ------
    ValueError
        As `check_task`, or the settings do not fit the data.
    """
    maker, settings = _check_settings(spec)
    arguments = {**settings, "rng": rng}
    if "data" in maker.parameters:
        arguments["data"] = _load_data(maker, settings, Path(prepared))
    return maker.make(**{name: arguments[name] for name in maker.parameters})


def _load_data(maker: Maker, settings: Mapping[str, Any], prepared: Path) -> Task:
    """Load the prepared data set of a task, with the sizes that the maker doesn't handle itself."""
    sizes = dict.fromkeys(_SIZES, 0)
    for name in _SIZES:
        if name not in maker.parameters:
            sizes[name] = settings[name]
    path = prepared / f"{settings['dataset']}.nc"
    data = load_prepared(path, sizes["train_size"], sizes["test_size"])
    return hold_out(data, sizes["validation_size"])


def find_maker(spec: Mapping) -> Maker:
    """Return the registered maker of a task.

    Parameters
    ----------
    spec : mapping
        The task's name under ``task``, and its settings.

    Returns
    -------
    Maker

    Raises
    ------
    ValueError
        The task is unknown, or `spec` has no name.
    """
    name = spec.get("task") if isinstance(spec, Mapping) else None
    if not isinstance(name, str):
        raise ValueError(
            "expected a task's name and its settings, such as task: adding, time_steps: 20, "
            f"got {format_value(spec)}"
        )
    if name not in MAKERS:
        raise ValueError(f"unknown task {format_value(name)}; known: {', '.join(sorted(MAKERS))}")
    return MAKERS[name]


def _check_settings(spec: Mapping) -> tuple[Maker, dict[str, Any]]:
    """Return a task's maker and all its settings, including defaults."""
    maker = find_maker(spec)
    given = {key: value for key, value in spec.items() if key != "task"}
    settings = parse_section(maker.settings, given, f"task {spec['task']}", lead="")
    return maker, {name: getattr(settings, name) for name in maker.settings.model_fields}
