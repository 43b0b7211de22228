"""The registry that the tasks' files fill: a task is made from its name and its settings.

What every task of a prepared data set may say stands here and nowhere else: which data set, how
many of its sequences, and how many of them are held out.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, create_model

from study.config.section import Section, Size, checked, format_value
from study.tasks.data import Task, hold_out, load_prepared

_SIZES = ("train_size", "validation_size", "test_size")
"""Sequences to keep (see `study.tasks.data.load_prepared`), and those taken out of the training
part to validate on. A maker that cuts by itself names them among its own settings.
"""
_SHARED = {"dataset": (Annotated[str, Field(pattern=r"^\w+$")], ...)} | dict.fromkeys(
    _SIZES, (Size, 0)
)


Count = Annotated[int, Field(ge=1, le=10**7)]
"""Time steps that a task draws."""


@dataclass(frozen=True)
class Maker:
    """How a task is made, whether it `draws` its sequences, the names of all that `make` takes,
    and the settings that a spec may give.
    """

    make: Callable[..., Task]
    draws: bool
    takes: frozenset[str]
    settings: type[Section]


TASKS: dict[str, Maker] = {}


def task(make: Callable[..., Task]) -> Callable[..., Task]:
    """Register a function ``(data, rng, *, settings...) -> Task`` under its own name.

    It takes `data`, the prepared data set cut to the sizes asked for, and `rng`, which draws what
    the task's variation needs, as far as it names them. One that names neither has no set of given
    size but draws sequences without an end. Settings are keywords, annotated with their types and
    ranges: what `params.yaml` may say of the task.
    """
    parameters = inspect.signature(make).parameters
    own = {
        p.name: (p.annotation, ... if p.default is p.empty else p.default)
        for p in parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }
    fields = (_SHARED if "data" in parameters else {}) | own
    settings = create_model(make.__name__, __base__=Section, **fields)
    draws = parameters.keys().isdisjoint(("data", "rng"))
    TASKS[make.__name__] = Maker(make, draws, frozenset(parameters), settings)
    return make


def check_task(spec: Mapping) -> None:
    """Refuse in a sentence, a `ValueError`, a task or a setting that is unknown, missing, of the
    wrong type or out of range.
    """
    maker, given = _checked(spec)
    if maker.draws:  # it needs no data and draws nothing yet, so it can be made
        maker.make(**given)


def make_task(spec: Mapping, prepared: Path | None, rng: np.random.Generator) -> Task:
    """Return the task that `spec` asks for: its name under ``task``, and its settings.

    `prepared` is the folder of the prepared data sets, `rng` draws what the task's variation needs.
    Raises `ValueError` as `check_task`, and whatever the task says of settings that do not fit its
    data.
    """
    maker, given = _checked(spec)
    if "data" in maker.takes:
        train, validation, test = (0 if name in maker.takes else given[name] for name in _SIZES)
        data = load_prepared(Path(prepared) / f"{given['dataset']}.nc", train, test)
        given["data"] = hold_out(data, validation)
    given["rng"] = rng
    return maker.make(**{name: given[name] for name in maker.takes})


def find_task(spec: Mapping) -> Maker:
    """Return what makes the task that `spec` names; raises `ValueError` where there is none."""
    name = spec.get("task") if isinstance(spec, Mapping) else None
    if not isinstance(name, str):
        raise ValueError(
            "expected a task's name and its settings, such as task: adding, time_steps: 20, got "
            f"{format_value(spec)}"
        )
    if name not in TASKS:
        raise ValueError(f"unknown task {format_value(name)}; known: {', '.join(sorted(TASKS))}")
    return TASKS[name]


def _checked(spec: Mapping) -> tuple[Maker, dict[str, Any]]:
    """Return a task's maker and all its settings, defaults among them."""
    maker = find_task(spec)
    said = {key: value for key, value in spec.items() if key != "task"}
    given = checked(maker.settings, said, f"task {spec['task']}", lead="")
    return maker, {name: getattr(given, name) for name in maker.settings.model_fields}
