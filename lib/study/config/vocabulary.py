"""Which settings there are, and which part of a run each of them belongs to."""

import json
from collections.abc import Iterable, Mapping

from longrnn.cells import cell_class
from pydantic import ValidationError

from study.config.grammar import NetworkDefinition, TaskDefinition
from study.config.run import PARTS
from study.config.section import ParameterError, Section, format_value, nearest

Makers = Mapping[str, type[Section]]
"""The settings that each maker of tasks takes, by its name."""

_OF_RUN = ("batch_size", "device", "replicates")
"""Settings that belong to a run as a whole."""
_NO_SETTINGS = ("cell", "hyper_parameters", "start_settings")
"""Fields of a network that are no settings: its cell, and those that hold other settings."""


def general_settings() -> dict[str, str]:
    """Return the settings that every run has, and the part of `RunConfig` that has them."""
    settings = dict.fromkeys(_OF_RUN, "")
    for part, kind in PARTS.items():
        settings |= {field: part for field in kind.model_fields if field not in _NO_SETTINGS}
    return settings


def known_settings(
    cell: str, starts: Iterable[str], makers: Iterable[type[Section]]
) -> dict[str, str]:
    """Return every setting that a network and a task take, and the part of a run that has it.

    Parameters
    ----------
    cell : str
        Name of the network's cell.
    starts : iterable of str
        Names of its initial weights; names that the cell does not have are skipped here.
    makers : iterable of type of Section
        The settings of the makers of its tasks.

    Returns
    -------
    dict
        From setting to ``""`` (the run itself), ``network``, ``recipe``, ``measurement``,
        ``hyper_parameters``, ``start_settings`` or ``task``.
    """
    kind = cell_class(cell)
    parts: dict[str, str] = {}
    for maker in makers:
        parts |= dict.fromkeys(maker.model_fields, "task")
    for name in starts:
        start = kind.starts.get(name)
        if start is not None:
            parts |= dict.fromkeys(start.settings, "start_settings")
    parts |= dict.fromkeys(kind.hyper_parameters, "hyper_parameters")
    return parts | general_settings()


def refuse_unknown(key: str, where: str, known: Iterable[str]) -> None:
    """Raise `ParameterError` if a setting is not known, with the names most like it."""
    known = list(known)
    if key not in known:
        raise ParameterError(
            f"params.yaml: unknown setting {where}.{key}; expected one of {nearest(key, known)}"
        )


def check_network(name: str, network: NetworkDefinition, makers: Makers) -> None:
    """Check a network's definition, whether or not a group uses it.

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
    # A group may choose other initial weights, so the settings of all of them are known.
    known = known_settings(network.cell, cell.starts, makers.values())
    for key in network.set:
        refuse_unknown(key, f"{where}.set", known)
    start = network.set.get("start", "text")
    if start not in cell.starts:
        raise ParameterError(
            f"params.yaml: {where}.set.start is {format_value(start)}; "
            f"expected one of {nearest(start, cell.starts)}"
        )
    keywords = dict(cell.hyper_parameters)
    for several in cell.starts.values():
        keywords |= several.settings
    for key, value in network.set.items():
        if value is None:
            continue
        if key in keywords and not keywords[key].admits(value):
            raise ParameterError(
                f"params.yaml: {where}.set.{key} is {format_value(value)}; expected {keywords[key]}"
            )
        if known[key] in PARTS:
            _check_given(PARTS[known[key]], {key: value}, f"{where}.set")


def check_task(name: str, task: TaskDefinition, makers: Makers) -> None:
    """Check a task's definition, whether or not a group uses it.

    Raises
    ------
    ParameterError
        If its maker or one of its settings is unknown, or a value does not fit.
    """
    where = f"tasks.{name}"
    if task.maker not in makers:
        raise ParameterError(
            f"params.yaml: {where}.maker is {format_value(task.maker)}; "
            f"expected one of {nearest(task.maker, makers)}"
        )
    maker = makers[task.maker]
    for word, settings in (("set", task.set), ("sweep", task.sweep)):
        for key in settings:
            refuse_unknown(key, f"{where}.{word}", maker.model_fields)
    values = {key: value for key, value in task.set.items() if value is not None}
    _check_given(maker, values, f"{where}.set")
    for key, levels in task.sweep.items():
        for level in levels:
            _check_given(maker, {key: level}, f"{where}.sweep")


def _check_given(kind: type[Section], values: Mapping[str, object], where: str) -> None:
    """Check the values of some fields; fields that are missing may be given elsewhere."""
    try:
        kind.model_validate_json(json.dumps(values))
    except ValidationError as error:
        for problem in error.errors():
            wrong = problem["type"] != "missing" and problem["loc"]
            if wrong:
                key = ".".join(str(part) for part in problem["loc"])
                raise ParameterError(
                    f"params.yaml: {where}.{key} is {format_value(problem['input'])}; "
                    f"{problem['msg'][0].lower()}{problem['msg'][1:]}"
                ) from None
