"""Read the definitions of networks and tasks: two sections of `params.yaml` with these names."""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from study.config.grammar import NetworkDefinition, TaskDefinition
from study.config.levels import fill_label, level_text
from study.config.section import ParameterError, format_value, parse_section


class Definitions(NamedTuple):
    """The networks and tasks of a profile, by name. Templates of tasks are already expanded."""

    networks: Mapping[str, NetworkDefinition]
    tasks: Mapping[str, TaskDefinition]


def read_definitions(
    networks: Mapping[str, Any], tasks: Mapping[str, Any]
) -> tuple[Definitions, Mapping[str, TaskDefinition]]:
    """Return the definitions of a profile.

    Parameters
    ----------
    networks, tasks : mapping
        These sections of `params.yaml`, as plain values.

    Returns
    -------
    definitions : Definitions
        Networks and tasks by name.
    templates : mapping
        The tasks as written in the file. A name with settings in braces is a template for several
        tasks.

    Raises
    ------
    ParameterError
        If a definition has unknown keys, or two tasks have the same name.
    """
    known_networks = {
        name: parse_section(NetworkDefinition, content, f"networks.{name}")
        for name, content in networks.items()
    }
    templates = {
        name: parse_section(TaskDefinition, content, f"tasks.{name}")
        for name, content in tasks.items()
    }
    return Definitions(known_networks, _tasks_by_name(templates)), templates


def _tasks_by_name(templates: Mapping[str, TaskDefinition]) -> dict[str, TaskDefinition]:
    """Return the tasks by name. A template becomes one task per combination of swept levels."""
    tasks: dict[str, TaskDefinition] = {}
    for template, definition in templates.items():
        where = f"tasks.{template}"
        _check_sweeps(template, definition, where)
        for levels in itertools.product(*definition.sweep.values()):
            chosen = dict(zip(definition.sweep, levels, strict=True))
            texts = {key: level_text(level) for key, level in chosen.items()}
            name = fill_label(template, texts, f"the name of {where}")
            if name in tasks:
                raise ParameterError(
                    f"params.yaml: two tasks have the name {format_value(name)}; rename one"
                )
            tasks[name] = definition.model_copy(update={"set": definition.set | chosen})
    return tasks


def _check_sweeps(template: str, definition: TaskDefinition, where: str) -> None:
    """Refuse a sweep that is empty, is not in the task's name, or sweeps a setting with a value."""
    for key, levels in definition.sweep.items():
        if f"{{{key}}}" not in template:
            raise ParameterError(f"params.yaml: {where} sweeps {key}; put {{{key}}} into its name")
        if not levels:
            raise ParameterError(
                f"params.yaml: {where}.sweep.{key} is empty; expected at least one level"
            )
        if definition.set.get(key) is not None:
            raise ParameterError(
                f"params.yaml: {where} gives {key} in set and in sweep; remove one"
            )
