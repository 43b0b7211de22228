"""Expand the groups of `params.yaml` to runs.

`study.config.tables` collects the levels of each setting of a network on a task, layer by layer.
This module merges the layers, and makes one run per combination of levels.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from study.config.checks import check_network, check_task
from study.config.grammar import Entry, Table
from study.config.levels import Level
from study.config.names import with_names
from study.config.recipe import WEIGHTS
from study.config.run import PARTS, RunConfig
from study.config.section import ParameterError, format_value, parse_section
from study.config.tables import (
    Definitions,
    Pair,
    fill_label,
    layers,
    pairs,
    read_definitions,
    read_tables,
)
from study.config.vocabulary import Makers, known_settings, refuse_unknown


def expand_groups(
    groups: Mapping[str, Any],
    networks: Mapping[str, Any],
    tasks: Mapping[str, Any],
    makers: Makers,
) -> dict[str, tuple[RunConfig, ...]]:
    """Return the runs of every group of a profile, with unique names within a group.

    Parameters
    ----------
    groups, networks, tasks : mapping
        These sections of `params.yaml`, as plain values.
    makers : mapping
        The settings of each function that makes tasks, by the function's name.

    Returns
    -------
    dict
        From the name of a group to its runs, in the order of the file.

    Raises
    ------
    ParameterError
        A setting is unknown or has a wrong value. The message names the path in the file, the
        value, and what was expected. Networks and tasks that no group uses are checked, too.
    """
    definitions, templates = read_definitions(networks, tasks)
    for name, network in definitions.networks.items():
        check_network(name, network, makers)
    for name, task in templates.items():
        check_task(name, task, makers)
    return {
        name: _expand_group(name, content, definitions, makers)
        for name, content in groups.items()
        if content is not None
    }


def _expand_group(
    name: str, content: Any, definitions: Definitions, makers: Makers
) -> tuple[RunConfig, ...]:
    """Return the runs of a group."""
    runs: list[RunConfig] = []
    used: set[str] = set()
    tables = read_tables(name, content)
    for where, table in tables.items():
        table_runs = []
        for pair in pairs(where, table, definitions):
            levels, parts = _levels(where, table, pair, definitions, makers)
            used |= levels.keys()
            table_runs += _runs(pair, levels, parts, definitions)
        _refuse_equal(where, table_runs)
        runs += table_runs
    if not runs:
        raise ParameterError(f"params.yaml: groups.{name} has no runs; give it networks and tasks")
    for where, table in tables.items():
        _refuse_unused(where, table, used)
    return with_names(runs)


def _levels(
    where: str, table: Table, pair: Pair, definitions: Definitions, makers: Makers
) -> tuple[dict[str, list[Level]], dict[str, str]]:
    """Merge the layers of a pair.

    Returns
    -------
    levels : dict
        The levels of every setting.
    parts : dict
        The part of a run that each setting belongs to, see `known_settings`.
    """
    setting_layers = layers(where, table, pair, definitions)
    # The start decides which settings exist. By default it is `start_text`, as the paper says.
    starts = [Level("text", "text")]
    for layer in setting_layers:
        starts = layer.levels.get("start", starts)
    cell = definitions.networks[pair.network].cell
    maker = makers[definitions.tasks[pair.task].maker]
    start_names = [str(level.value) for level in starts]
    parts = known_settings(cell, start_names, [maker])
    _refuse_unknown_by_task(pair, start_names, definitions, makers)
    levels: dict[str, list[Level]] = {}
    for layer in setting_layers:
        for key, key_levels in layer.levels.items():
            if layer.optional and key not in parts:
                continue  # a default for other networks or tasks
            refuse_unknown(key, layer.where, parts)
            levels.pop(key, None)  # insert it again at the end, because labels follow this order
            levels[key] = key_levels
    return levels, parts


def _refuse_unknown_by_task(
    pair: Pair, starts: list[str], definitions: Definitions, makers: Makers
) -> None:
    """Refuse unknown settings for all tasks that an entry names, even if it doesn't train them."""
    cell = definitions.networks[pair.network].cell
    for word in ("by_task", "sweep_by_task"):
        for key, by_task in getattr(pair.entry, word).items():
            task_makers = [makers[definitions.tasks[task].maker] for task in by_task]
            known = known_settings(cell, starts, task_makers)
            refuse_unknown(key, f"{pair.where}.{word}", known)


def _runs(
    pair: Pair,
    levels: Mapping[str, list[Level]],
    parts: Mapping[str, str],
    definitions: Definitions,
) -> Iterator[RunConfig]:
    """Yield one run per combination of levels."""
    network = definitions.networks[pair.network]
    task = definitions.tasks[pair.task]
    for combination in itertools.product(*levels.values()):
        chosen = dict(zip(levels, combination, strict=True))
        texts = {key: level.text for key, level in chosen.items()}
        label = pair.entry.label or network.label
        if label is None:
            swept = [level.label_part for level in combination if level.label_part]
            label = ", ".join([pair.network, *swept])
        names = {
            "network_name": pair.network,
            "label": fill_label(label, texts, pair.where),
            "task_label": fill_label(task.label or pair.task, texts, f"tasks.{pair.task}"),
        }
        values = {key: level.value for key, level in chosen.items() if level.value is not None}
        _choose_objective(values, pair.entry, pair.where)
        content = _by_part(values, parts, network.cell, task.maker)
        yield parse_section(RunConfig, names | content, pair.where, parts=(*PARTS, "settings"))


def _choose_objective(values: dict[str, Any], entry: Entry, where: str) -> None:
    """Remove the factors of penalties that the objective does not have.

    With kappa = 0 the objective is the plain loss.
    """
    needed = WEIGHTS.get(str(values.get("objective", "plain")))
    for weight in ("kappa", "orthogonality"):
        if weight == needed:
            continue
        if weight in entry.set or weight in entry.sweep:
            raise ParameterError(
                f"params.yaml: {where} gives {weight} without its objective; set the objective"
            )
        values.pop(weight, None)
    if values.get("kappa") == 0:
        values["objective"] = "plain"


def _by_part(
    values: Mapping[str, Any], parts: Mapping[str, str], cell: str, maker: str
) -> dict[str, Any]:
    """Return the content of a `RunConfig`, with each value in its part."""
    hyper_parameters: dict[str, Any] = {}
    start_settings: dict[str, Any] = {}
    task: dict[str, Any] = {}
    network: dict[str, Any] = {
        "cell": cell,
        "hyper_parameters": hyper_parameters,
        "start_settings": start_settings,
    }
    run: dict[str, Any] = {
        "network": network,
        "recipe": {},
        "measurement": {},
        "task": {"maker": maker, "settings": task},
    }
    contents = {
        "": run,
        "network": network,
        "hyper_parameters": hyper_parameters,
        "start_settings": start_settings,
        "recipe": run["recipe"],
        "measurement": run["measurement"],
        "task": task,
    }
    for key, value in values.items():
        contents[parts[key]][key] = value
    return run


def _refuse_equal(where: str, runs: Iterable[RunConfig]) -> None:
    """Refuse two runs with the same settings, whatever their names."""
    seen: dict[str, RunConfig] = {}
    for run in runs:
        same = seen.setdefault(json.dumps(run.flat_settings(), sort_keys=True), run)
        if same is not run:
            raise ParameterError(
                f"params.yaml: {where} has the same run twice, as {format_value(same.label)} and "
                f"as {format_value(run.label)} on {format_value(run.task_label)}; remove one"
            )


def _refuse_unused(where: str, table: Table, used: Iterable[str]) -> None:
    """Refuse a default that no network or task of the group uses."""
    for word in ("set", "sweep", "by_task", "sweep_by_task"):
        for key, value in getattr(table.defaults, word).items():
            if value is not None and key not in used:
                raise ParameterError(
                    f"params.yaml: {where}.defaults.{word}.{key} is not used by any network or "
                    "task of the group; remove it"
                )
