"""Check the definitions of networks and tasks, including those that no group uses."""

import json
from collections.abc import Mapping

from longrnn.cells import cell_class
from pydantic import ValidationError

from study.config.grammar import NetworkDefinition, TaskDefinition
from study.config.network import DEFAULT_START
from study.config.run import PARTS, RunConfig
from study.config.section import (
    ParameterError,
    Section,
    describe_problem,
    format_value,
    similar_names,
)
from study.config.vocabulary import (
    RUN_PART,
    SettingsByMaker,
    known_settings,
    refuse_unknown,
)


def check_network_definition(
    name: str, network: NetworkDefinition, makers: SettingsByMaker
) -> None:
    """Check a network's definition, even if no group uses it.

    Parameters
    ----------
    name : str
        Name of the network, for error messages.
    network : NetworkDefinition
    makers : mapping of str to type of Section
        The class with the settings of each maker, a function that makes a task, by its name. A
        network may give settings of tasks, too.

    Raises
    ------
    ParameterError
        If its cell or one of its settings is unknown, or a value does not fit.
    """
    where = f"networks.{name}"
    try:
        cell = cell_class(network.cell)
    except ValueError as error:
        raise ParameterError(
            f"params.yaml: {where}.cell is {format_value(network.cell)}; {error}"
        ) from None
    # A group may choose another initialization, so the settings of all of them are accepted.
    known = known_settings(network.cell, cell.starts, makers.values())
    for key in network.set:
        refuse_unknown(key, f"{where}.set.{key}", known)
    start = network.set.get("start")
    if start is None:
        start = DEFAULT_START
    if str(start) not in cell.starts:
        raise ParameterError(
            f"params.yaml: {where}.set.start is {format_value(start)}; "
            f"expected one of {similar_names(start, cell.starts)}"
        )
    keywords = dict(cell.hyper_parameters)
    for start_method in cell.starts.values():
        keywords |= start_method.settings
    for key, value in network.set.items():
        if value is None:
            continue
        if key in keywords and not keywords[key].admits(value):
            raise ParameterError(
                f"params.yaml: {where}.set.{key} is {format_value(value)}; expected {keywords[key]}"
            )
        _check_part(known[key], key, value, f"{where}.set", makers)


def _check_part(part: str, key: str, value: object, where: str, makers: SettingsByMaker) -> None:
    """Check the value of a setting that belongs to a part of a run, but not to the cell."""
    if part in PARTS:
        _check_given(PARTS[part], {key: value}, where)
    elif part == RUN_PART:
        _check_given(RunConfig, {key: value}, where)
    elif part == "task":
        _check_task_setting(key, value, where, makers)


def _check_task_setting(key: str, value: object, where: str, makers: SettingsByMaker) -> None:
    """Refuse a value of a task's setting that no maker with this setting accepts."""
    refusal: ParameterError | None = None
    for maker in makers.values():
        if key in maker.model_fields:
            try:
                _check_given(maker, {key: value}, where)
            except ParameterError as error:
                refusal = error
            else:
                return
    if refusal is not None:
        raise refusal


def check_task_definition(name: str, task: TaskDefinition, makers: SettingsByMaker) -> None:
    """Check a task's definition, even if no group uses it.

    Parameters
    ----------
    name : str
        Name of the task, for error messages.
    task : TaskDefinition
    makers : mapping of str to type of Section
        The class with the settings of each maker, a function that makes a task, by its name.

    Raises
    ------
    ParameterError
        If its maker or one of its settings is unknown, or a value does not fit.
    """
    where = f"tasks.{name}"
    if task.maker not in makers:
        raise ParameterError(
            f"params.yaml: {where}.maker is {format_value(task.maker)}; "
            f"expected one of {similar_names(task.maker, makers)}"
        )
    maker = makers[task.maker]
    for word, settings in (("set", task.set), ("sweep", task.sweep)):
        for key in settings:
            refuse_unknown(key, f"{where}.{word}.{key}", maker.model_fields)
    values = {key: value for key, value in task.set.items() if value is not None}
    _check_given(maker, values, f"{where}.set")
    for key, levels in task.sweep.items():
        for level in levels:
            _check_given(maker, {key: level}, f"{where}.sweep")


def _check_given(kind: type[Section], values: Mapping[str, object], where: str) -> None:
    """Check the values of some fields of a section.

    Fields may be missing, because another layer may give them. For the same reason, pydantic's
    checks of the complete section, which it reports without a location, are left to `parse_section`
    in the last step.
    """
    try:
        kind.model_validate_json(json.dumps(values))
    except ValidationError as error:
        for problem in error.errors():
            if problem["type"] == "missing" or not problem["loc"]:
                continue
            sentence = describe_problem(kind, where, problem)
            raise ParameterError(f"params.yaml: {sentence}") from None
