"""Groups of `params.yaml`: which network is trained on which task, and with which settings.

A setting can be given in four layers. A later layer overrides an earlier one:

1. the task's definition, under ``tasks``;
2. the ``defaults`` of the group, overridden by the ``defaults`` of the table;
3. the network's definition, under ``networks``;
4. the network's entry in the group or table.

Layers 2 and 4 may give a value for all tasks (``set``, ``sweep``) and one for single tasks
(``by_task``, ``sweep_by_task``), which overrides it.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from study.config.definitions import Definitions
from study.config.file import merge_mappings
from study.config.grammar import Entry, Group, Settings, Table
from study.config.levels import Level, settings_for_task, single_level
from study.config.section import ParameterError, format_value, parse_section, similar_names


class Pair(NamedTuple):
    """A network and a task that a table trains it on.

    Attributes
    ----------
    where : str
        Path of the entry in `params.yaml`, for error messages.
    network, task : str
        Their names.
    entry : Entry
        The network's entry in the table.
    """

    where: str
    network: str
    task: str
    entry: Entry


class Layer(NamedTuple):
    """The settings that one place in `params.yaml` gives, such as a group's defaults.

    Attributes
    ----------
    levels : dict
        Levels of each setting.
    optional : bool
        Whether to skip settings that neither the network nor the task has. If False, such a setting
        is an error.
    """

    levels: dict[str, list[Level]]
    optional: bool = False


def read_tables(group: str, content: Any) -> dict[str, Table]:
    """Return the tables of a group.

    Parameters
    ----------
    group : str
        Name of the group.
    content : Any
        Its content in `params.yaml`.

    Returns
    -------
    dict of str to Table
        The tables by their path in `params.yaml`.

    Raises
    ------
    ParameterError
        The content is not that of a group.
    """
    where = f"groups.{group}"
    parsed_group = parse_section(Group, content, where)
    if not parsed_group.tables:
        return {where: parsed_group}
    shared = {key: value for key, value in content.items() if key != "tables"}
    tables = {}
    for name, table in parsed_group.tables.items():
        if table is not None:
            path = f"{where}.tables.{name}"
            tables[path] = parse_section(Table, merge_mappings(shared, table), path)
    return tables


def network_task_pairs(where: str, table: Table, definitions: Definitions) -> Iterator[Pair]:
    """Yield each network of a table with each of its tasks.

    Pairs with the same network follow each other, also from different entries, so that the results
    file has the runs of a network next to each other.

    Parameters
    ----------
    where : str
        Path of the table in `params.yaml`, for error messages.
    table : Table
    definitions : Definitions

    Yields
    ------
    Pair

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
        network_pairs = by_network.setdefault(network, [])
        network_pairs += [Pair(path, network, task, entry) for task in tasks]
    yield from itertools.chain.from_iterable(by_network.values())


def setting_layers(where: str, table: Table, pair: Pair, definitions: Definitions) -> list[Layer]:
    """Return the four layers of settings of a network on a task; later ones override earlier ones.

    Parameters
    ----------
    where : str
        Path of the table in `params.yaml`, for error messages.
    table : Table
    pair : Pair
        The network and the task, one of `network_task_pairs`.
    definitions : Definitions

    Returns
    -------
    list of Layer

    Raises
    ------
    ParameterError
        If a task is unknown, or a setting has both a value and a sweep.
    """
    defaults_path = f"{where}.defaults"
    _refuse_unknown_tasks(defaults_path, table.defaults, definitions)
    _refuse_unknown_tasks(pair.where, pair.entry, definitions)
    task = definitions.tasks[pair.task].set
    network = definitions.networks[pair.network].set
    default_levels = settings_for_task(table.defaults, pair.task, defaults_path, in_labels=False)
    entry_levels = settings_for_task(pair.entry, pair.task, pair.where, in_labels=True)
    return [
        Layer(_levels_of_definition(f"tasks.{pair.task}.set", task)),
        Layer(default_levels, optional=True),
        Layer(_levels_of_definition(f"networks.{pair.network}.set", network)),
        Layer(entry_levels),
    ]


def _levels_of_definition(where: str, settings: Mapping[str, Any]) -> dict[str, list[Level]]:
    """Return the levels of the settings of a task or a network in its definition."""
    return {key: single_level(value, f"{where}.{key}") for key, value in settings.items()}


def _refuse_unknown_tasks(where: str, settings: Settings, definitions: Definitions) -> None:
    """Refuse unknown tasks in the settings by task."""
    for word in ("by_task", "sweep_by_task"):
        for key, values in getattr(settings, word).items():
            refuse_task(key, f"{where}.{word}", definitions)
            refuse_unknown_names(values, definitions.tasks, f"{where}.{word}.{key}", "tasks")


def refuse_task(key: str, where: str, definitions: Definitions) -> None:
    """Refuse the name of a task where a setting is expected.

    Parameters
    ----------
    key : str
        The name.
    where : str
        Path in `params.yaml`, for the error message.
    definitions : Definitions

    Raises
    ------
    ParameterError
        It is a task; the message shows the right order.
    """
    if key in definitions.tasks:
        raise ParameterError(
            f"params.yaml: {where}.{key} is a task; expected a setting, and under it tasks, such "
            f"as by_task: {{width: {{{key}: 32}}}}"
        )


def refuse_unknown_names(names: Iterable[str], known: Iterable[str], where: str, kind: str) -> None:
    """Refuse unknown networks or tasks.

    Parameters
    ----------
    names : iterable of str
    known : iterable of str
        The known names.
    where : str
        Path in `params.yaml`, for error messages.
    kind : str
        What is named, such as ``networks``.

    Raises
    ------
    ParameterError
        One of the names is unknown; the message lists similar names.
    """
    known = list(known)
    for name in names:
        if name not in known:
            raise ParameterError(
                f"params.yaml: {where} names {format_value(name)}, which is not one of the {kind}; "
                f"expected one of {similar_names(name, known)}"
            )
