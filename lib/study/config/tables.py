"""Groups of `params.yaml`: which network is trained on which task, and what is said of the two.

A setting is given in up to three layers, of which a later one wins:

1. the task's definition, under ``tasks``;
2. the ``defaults`` of the group, and over them those of its table;
3. the network: its definition under ``networks``, and over it its entry in the group.

Within the defaults and within an entry, a value for one task (``by_task``, ``sweep_by_task``) wins
over a value for all tasks (``set``, ``sweep``).
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from study.config.file import overlaid
from study.config.grammar import Entry, Group, NetworkDefinition, Table, TaskDefinition
from study.config.levels import Level, fixed, settings_for_task
from study.config.section import ParameterError, checked, format_value, nearest


class Definitions(NamedTuple):
    """The networks and tasks of a profile by name; a task's name has no braces left."""

    networks: Mapping[str, NetworkDefinition]
    tasks: Mapping[str, TaskDefinition]


class Pair(NamedTuple):
    """A network on a task, as an entry of a table asks for it.

    Attributes
    ----------
    where : str
        Path of the entry in `params.yaml`, for error messages.
    network, task : str
        Their names.
    entry : Entry
        What the entry says.
    """

    where: str
    network: str
    task: str
    entry: Entry


class Layer(NamedTuple):
    """Settings that stand in one place of `params.yaml`.

    Attributes
    ----------
    where : str
        The place, for error messages.
    levels : dict
        Levels of each setting.
    optional : bool
        Whether a setting is skipped if the network and the task do not take it.
    """

    where: str
    levels: dict[str, list[Level]]
    optional: bool = False


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
        The tasks as they stand in the file, by names that may have settings in braces.

    Raises
    ------
    ParameterError
        If a definition has unknown keys, or two tasks have the same name.
    """
    known_networks = {
        name: checked(NetworkDefinition, content, f"networks.{name}")
        for name, content in networks.items()
    }
    templates = {
        name: checked(TaskDefinition, content, f"tasks.{name}") for name, content in tasks.items()
    }
    return Definitions(known_networks, _tasks_by_name(templates)), templates


def read_tables(group: str, content: Any) -> dict[str, Table]:
    """Return the tables of a group by their path in `params.yaml`; raises `ParameterError`."""
    where = f"groups.{group}"
    whole = checked(Group, content, where)
    if not whole.tables:
        return {where: whole}
    shared = {key: value for key, value in content.items() if key != "tables"}
    tables = {}
    for name, table in whole.tables.items():
        if table is not None:
            path = f"{where}.tables.{name}"
            tables[path] = checked(Table, overlaid(shared, table), path)
    return tables


def pairs(where: str, table: Table, definitions: Definitions) -> Iterator[Pair]:
    """Yield each network of a table on each of its tasks, those of one network together.

    Raises
    ------
    ParameterError
        If a network or a task is not known, or an entry has no tasks.
    """
    refuse_unknown_names(table.tasks, definitions.tasks, f"{where}.tasks", "tasks")
    by_network: dict[str, list[Pair]] = {}
    for name, entry in table.networks.items():
        if entry is None:
            continue
        path = f"{where}.networks.{name}"
        network = entry.network or name
        refuse_unknown_names([network], definitions.networks, path, "networks")
        tasks = table.tasks if entry.tasks is None else entry.tasks
        refuse_unknown_names(tasks, table.tasks, f"{path}.tasks", "tasks of the group")
        if not tasks:
            raise ParameterError(
                f"params.yaml: {path} has no tasks; name some, or set the entry to null"
            )
        several = by_network.setdefault(network, [])
        several += [Pair(path, network, task, entry) for task in tasks]
    yield from itertools.chain.from_iterable(by_network.values())


def layers(where: str, table: Table, pair: Pair, definitions: Definitions) -> list[Layer]:
    """Return what is said of a network on a task; later layers win.

    Raises
    ------
    ParameterError
        If a task is not known, or a setting has a value and a sweep at once.
    """
    defaults = f"{where}.defaults"
    for place, settings in ((defaults, table.defaults), (pair.where, pair.entry)):
        for word in ("by_task", "sweep_by_task"):
            for key, values in getattr(settings, word).items():
                path = f"{place}.{word}.{key}"
                refuse_unknown_names(values, definitions.tasks, path, "tasks")
    task = definitions.tasks[pair.task].set
    network = definitions.networks[pair.network].set
    of_defaults = settings_for_task(table.defaults, pair.task, defaults, in_labels=False)
    of_entry = settings_for_task(pair.entry, pair.task, pair.where, in_labels=True)
    return [
        Layer(f"tasks.{pair.task}.set", {key: fixed(value) for key, value in task.items()}),
        Layer(defaults, of_defaults, optional=True),
        Layer(f"networks.{pair.network}.set", {k: fixed(value) for k, value in network.items()}),
        Layer(pair.where, of_entry),
    ]


def filled(template: str, texts: Mapping[str, str], where: str) -> str:
    """Return a label with the levels of settings in place of their names in braces."""

    def text(match: re.Match) -> str:
        if match[1] not in texts:
            raise ParameterError(
                f"params.yaml: the label of {where} is {format_value(template)}; expected "
                f"settings in its braces, one of {nearest(match[1], texts)}"
            )
        return texts[match[1]]

    return re.sub(r"\{(.*?)\}", text, template)


def refuse_unknown_names(names: Iterable[str], known: Iterable[str], where: str, kind: str) -> None:
    """Raise `ParameterError` if a network or a task is not known, with the names most like it."""
    known = list(known)
    for name in names:
        if name not in known:
            raise ParameterError(
                f"params.yaml: {where} names {format_value(name)}, which is none of the {kind}; "
                f"expected one of {nearest(name, known)}"
            )


def _tasks_by_name(templates: Mapping[str, TaskDefinition]) -> dict[str, TaskDefinition]:
    """Return the tasks, those with a setting in their name once for each level of its sweep."""
    tasks: dict[str, TaskDefinition] = {}
    for template, definition in templates.items():
        where = f"tasks.{template}"
        for key in definition.sweep:
            if f"{{{key}}}" not in template:
                raise ParameterError(
                    f"params.yaml: {where} sweeps {key}; put {{{key}}} into its name"
                )
        for levels in itertools.product(*definition.sweep.values()):
            chosen = dict(zip(definition.sweep, levels, strict=True))
            texts = {key: fixed(level)[0].text for key, level in chosen.items()}
            name = filled(template, texts, where)
            if name in tasks:
                raise ParameterError(
                    f"params.yaml: two tasks have the name {format_value(name)}; rename one"
                )
            tasks[name] = definition.model_copy(update={"set": definition.set | chosen})
    return tasks
