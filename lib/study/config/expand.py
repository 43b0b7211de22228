"""Expand the groups of `params.yaml` into runs.

`study.config.tables` collects the levels of each setting of a network on a task, layer by layer.
This module merges the layers, and makes one run per combination of levels.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

from study.config.checks import check_network_definition, check_task_definition
from study.config.definitions import Definitions, read_definitions
from study.config.grammar import Table
from study.config.levels import Level, fill_label
from study.config.names import with_names
from study.config.network import DEFAULT_START
from study.config.recipe import PENALTY_WEIGHTS
from study.config.run import PARTS, RunConfig
from study.config.section import ParameterError, format_value, parse_section, similar_names
from study.config.tables import (
    Pair,
    network_task_pairs,
    read_tables,
    refuse_task,
    setting_layers,
)
from study.config.vocabulary import (
    RUN_PART,
    SettingsByMaker,
    all_settings,
    known_settings,
    refuse_unknown,
)


def expand_groups(
    groups: Mapping[str, Any],
    networks: Mapping[str, Any],
    tasks: Mapping[str, Any],
    makers: SettingsByMaker,
) -> dict[str, tuple[RunConfig, ...]]:
    """Return the runs of every group of a profile, with unique names within a group.

    Parameters
    ----------
    groups, networks, tasks : mapping
        These sections of `params.yaml`, as plain values.
    makers : mapping
        The class with the settings of each maker, a function that makes a task, by its name.

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
        check_network_definition(name, network, makers)
    for name, task in templates.items():
        check_task_definition(name, task, makers)
    return {
        name: _expand_group(name, content, definitions, makers)
        for name, content in groups.items()
        if content is not None
    }


def _expand_group(
    name: str, content: Any, definitions: Definitions, makers: SettingsByMaker
) -> tuple[RunConfig, ...]:
    """Return the runs of a group."""
    runs: list[RunConfig] = []
    used: set[str] = set()
    tables = read_tables(name, content)
    for where, table in tables.items():
        _refuse_misspelled(where, table, definitions, makers)
        table_runs = []
        for pair in network_task_pairs(where, table, definitions):
            merged = _merge_levels(where, table, pair, definitions, makers)
            for combination in _combinations(merged, pair.where):
                used |= combination.keys()
                table_runs.append(_make_run(pair, combination, merged.part_by_setting, definitions))
        _refuse_equal(where, table_runs)
        runs += table_runs
    if not runs:
        raise ParameterError(
            f"params.yaml: groups.{name} has no runs; give it networks and tasks, or correct the "
            "name if a profile changes another group"
        )
    for where, table in tables.items():
        _refuse_unused(where, table, used)
    return with_names(runs)


class _MergedLevels(NamedTuple):
    """The settings of a network on a task.

    Attributes
    ----------
    levels : dict
        The levels of every setting.
    part_by_setting : dict
        The part of a run that each setting belongs to, see `known_settings`.
    own_settings : set of str
        Settings whose levels don't come from the defaults of the group or table.
    """

    levels: dict[str, list[Level]]
    part_by_setting: dict[str, str]
    own_settings: set[str]


def _combinations(merged: _MergedLevels, where: str) -> Iterator[dict[str, Level]]:
    """Yield one level of each setting, for every combination of levels."""
    for levels in itertools.product(*merged.levels.values()):
        combination = dict(zip(merged.levels, levels, strict=True))
        yield _drop_unused_penalties(combination, merged.own_settings, where)


def _merge_levels(
    where: str, table: Table, pair: Pair, definitions: Definitions, makers: SettingsByMaker
) -> _MergedLevels:
    """Merge the layers of a pair; later layers override earlier ones."""
    layers = setting_layers(where, table, pair, definitions)
    cell = definitions.networks[pair.network].cell
    maker = makers[definitions.tasks[pair.task].maker]
    # Which settings exist depends on the initialization, whose name is the setting `start`.
    starts = [Level(DEFAULT_START, DEFAULT_START)]
    for layer in layers:
        starts = layer.levels.get("start", starts)
    start_names = [str(level.value or DEFAULT_START) for level in starts]
    part_by_setting = known_settings(cell, start_names, [maker])
    _refuse_unknown_by_task(pair, start_names, definitions, makers)
    levels: dict[str, list[Level]] = {}
    own_settings = set()
    for layer in layers:
        for key, key_levels in layer.levels.items():
            if layer.optional and key not in part_by_setting:
                continue  # a default for other networks or tasks
            _refuse_unsuitable(key, key_levels[0].where, pair, part_by_setting, makers)
            levels.pop(key, None)  # so that the key moves to the end: labels follow this order
            levels[key] = key_levels
            if layer.optional:
                own_settings.discard(key)
            else:
                own_settings.add(key)
    return _MergedLevels(levels, part_by_setting, own_settings)


def _refuse_unknown_by_task(
    pair: Pair, starts: list[str], definitions: Definitions, makers: SettingsByMaker
) -> None:
    """Refuse unknown settings for all tasks that an entry names, even if it doesn't train them."""
    cell = definitions.networks[pair.network].cell
    for word in ("by_task", "sweep_by_task"):
        for key, by_task in getattr(pair.entry, word).items():
            task_makers = [makers[definitions.tasks[task].maker] for task in by_task]
            known = known_settings(cell, starts, task_makers)
            refuse_unknown(key, f"{pair.where}.{word}.{key}", known)


def _refuse_unsuitable(
    key: str, where: str, pair: Pair, known: Iterable[str], makers: SettingsByMaker
) -> None:
    """Refuse a setting that a network on a task does not have, or that nothing has."""
    known = list(known)
    if key not in known and key in all_settings(makers):
        raise ParameterError(
            f"params.yaml: {where} is a setting of other networks or tasks; {pair.network} on "
            f"{pair.task} has {similar_names(key, known)}"
        )
    refuse_unknown(key, where, known)


def _drop_unused_penalties(
    combination: Mapping[str, Level], own_settings: Set[str], where: str
) -> dict[str, Level]:
    """Drop penalty coefficients (kappa, orthogonality) that the objective doesn't use.

    The defaults of a group may give a coefficient that only some of its networks use. If the
    definition or the entry of a network gives one that it does not use, an error is raised.
    """
    name = "plain"
    if "objective" in combination and combination["objective"].value is not None:
        name = str(combination["objective"].value)
    if name not in PENALTY_WEIGHTS:
        return dict(combination)  # `Recipe` will refuse the objective
    needed = PENALTY_WEIGHTS[name]
    kept = {}
    for key, level in combination.items():
        is_unused = key in PENALTY_WEIGHTS.values() and key != needed
        if not is_unused:
            kept[key] = level
        elif key in own_settings and level.value is not None:
            raise ParameterError(
                f"params.yaml: {where} trains with {key} = {level.text} and the objective "
                f"{name}, which does not use it; set the objective to "
                f"{_objective_with(key)}, or {key} to null"
            )
    return kept


def _objective_with(weight: str) -> str:
    """Return the objective whose penalty has this weight."""
    return next(objective for objective, needed in PENALTY_WEIGHTS.items() if needed == weight)


def _make_run(
    pair: Pair,
    combination: Mapping[str, Level],
    part_by_setting: Mapping[str, str],
    definitions: Definitions,
) -> RunConfig:
    """Return the run of a network on a task with one combination of levels."""
    network = definitions.networks[pair.network]
    task = definitions.tasks[pair.task]
    texts = {key: level.text for key, level in combination.items()}
    label = pair.entry.label or network.label
    if label is None:
        swept = [level.label_suffix for level in combination.values() if level.label_suffix]
        label = ", ".join([pair.network, *swept])
    names = {
        "network_name": pair.network,
        "label": fill_label(label, texts, f"the label of {pair.where}"),
        "task_label": fill_label(task.label or pair.task, texts, f"the label of tasks.{pair.task}"),
    }
    values = {key: level.value for key, level in combination.items() if level.value is not None}
    if values.get("kappa") == 0:
        values["objective"] = "plain"  # the same loss, without the cost of the penalty
    content = _by_part(values, part_by_setting, network.cell, task.maker)
    given_at = {key: combination[key].where for key in values if combination[key].where}
    return parse_section(
        RunConfig,
        names | content,
        pair.where,
        hidden_fields=(*PARTS, "settings"),
        given_at=given_at,
    )


def _by_part(
    values: Mapping[str, Any], part_by_setting: Mapping[str, str], cell: str, maker: str
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
        RUN_PART: run,
        "network": network,
        "hyper_parameters": hyper_parameters,
        "start_settings": start_settings,
        "recipe": run["recipe"],
        "measurement": run["measurement"],
        "task": task,
    }
    for key, value in values.items():
        contents[part_by_setting[key]][key] = value
    return run


def _refuse_equal(where: str, runs: Iterable[RunConfig]) -> None:
    """Refuse two runs of one table with the same settings, whatever their names.

    Different tables of a group may repeat a run.
    """
    seen: dict[str, RunConfig] = {}
    for run in runs:
        same = seen.setdefault(json.dumps(run.flat_settings(), sort_keys=True), run)
        if same is not run:
            raise ParameterError(
                f"params.yaml: {where} has the same run twice, as {format_value(same.label)} and "
                f"as {format_value(run.label)} on {format_value(run.task_label)}; remove one"
            )


def _refuse_misspelled(
    where: str, table: Table, definitions: Definitions, makers: SettingsByMaker
) -> None:
    """Refuse a default that is a setting of no network and no task, whatever the group trains.

    Without this check, a misspelled `width` would be reported as a missing width.
    """
    known = all_settings(makers)
    for word in ("set", "sweep", "by_task", "sweep_by_task"):
        for key, value in getattr(table.defaults, word).items():
            if value is not None:
                refuse_task(key, f"{where}.defaults.{word}", definitions)
                refuse_unknown(key, f"{where}.defaults.{word}.{key}", known)


def _refuse_unused(where: str, table: Table, used: Iterable[str]) -> None:
    """Refuse a default that no network or task of the group uses."""
    for word in ("set", "sweep", "by_task", "sweep_by_task"):
        for key, value in getattr(table.defaults, word).items():
            if value is not None and key not in used:
                raise ParameterError(
                    f"params.yaml: {where}.defaults.{word}.{key} is not used by any network or "
                    "task of the group; remove it"
                )
