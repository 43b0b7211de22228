"""Levels of settings: what they are, and how they appear in labels."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from study.config.grammar import Levels, Settings
from study.config.section import ParameterError, format_value

_COLUMNS = ("width", "learning_rate")
"""Settings that tables print beside a label and not in it."""


class Level(NamedTuple):
    """One level of a setting.

    Attributes
    ----------
    value : object
        The value, or None for the default.
    text : str
        What people call it; a label's ``{setting}`` is replaced by it.
    part : str
        What it adds to the label of an entry that gives no label; may be empty.
    """

    value: Any
    text: str
    part: str = ""


def settings_for_task(
    settings: Settings, task: str, where: str, *, in_labels: bool
) -> dict[str, list[Level]]:
    """Return the levels of every setting on one task.

    Parameters
    ----------
    settings : Settings
        What a group or an entry says.
    task : str
        Name of the task. A value for this task wins over one for all tasks.
    where : str
        Path of the settings in `params.yaml`, for error messages.
    in_labels : bool
        Whether levels of a sweep appear in labels.

    Raises
    ------
    ParameterError
        If a setting has a value and a sweep at once, or a sweep has no levels or equal ones.
    """
    for_all = _fixed_or_swept(settings.set, settings.sweep, ("set", "sweep"), where, in_labels)
    values = _of_task(settings.by_task, task)
    sweeps = _of_task(settings.sweep_by_task, task)
    words = ("by_task", "sweep_by_task")
    for_task = _fixed_or_swept(values, sweeps, words, where, in_labels)
    return for_all | for_task


def level_text(value: object) -> str:
    """Return a value as people write it, numbers with few digits if that is exact."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return json.dumps(value, ensure_ascii=False)


def fixed(value: object) -> list[Level]:
    """Return the only level of a setting that is not swept."""
    return [Level(value, level_text(value))]


def _of_task(by_task: Mapping[str, Mapping[str, Any]], task: str) -> dict[str, Any]:
    """Return the settings that are given for this task."""
    return {key: values[task] for key, values in by_task.items() if task in values}


def _fixed_or_swept(
    values: Mapping[str, Any],
    sweeps: Mapping[str, Levels | None],
    words: tuple[str, str],
    where: str,
    in_labels: bool,
) -> dict[str, list[Level]]:
    """Return the levels of settings that have one value, and of those that are swept."""
    swept = {key: levels for key, levels in sweeps.items() if levels is not None}
    levels: dict[str, list[Level]] = {}
    for key, value in values.items():
        if key not in swept:
            levels[key] = fixed(value)
        elif value is not None:
            raise ParameterError(
                f"params.yaml: {where} gives {key} in {words[0]} and in {words[1]}; remove one"
            )
    for key, given in swept.items():
        levels[key] = _swept(key, given, f"{where}.{words[1]}.{key}", in_labels)
    return levels


def _swept(key: str, given: Levels, where: str, in_labels: bool) -> list[Level]:
    """Return the levels of a sweep."""
    if isinstance(given, Mapping):
        levels = [Level(value, name, name) for name, value in given.items()]
    else:
        levels = [Level(value, level_text(value), f"{key}={level_text(value)}") for value in given]
    different = {json.dumps(level.value, sort_keys=True) for level in levels}
    if not levels or len(different) < len(levels):
        raise ParameterError(
            f"params.yaml: {where} is {format_value(given)}; expected levels that differ from each "
            "other"
        )
    if in_labels and key not in _COLUMNS:
        return levels
    return [level._replace(part="") for level in levels]
