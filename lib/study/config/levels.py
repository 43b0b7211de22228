"""Levels of settings on one task: their values, and their text in labels.

`study.config.tables` calls `settings_for_task` for each layer of settings.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from study.config.grammar import Settings, Sweep
from study.config.section import ParameterError, format_value, similar_names

_COLUMNS = ("width", "learning_rate")
"""Settings that labels leave out, because tables have a column for them."""


class Level(NamedTuple):
    """One level of a setting.

    Attributes
    ----------
    value : object
        The value, or None for the default.
    text : str
        The level as text, which replaces ``{setting}`` in a label.
    where : str
        Path in `params.yaml` of the setting, for error messages; empty for a default in the code.
    label_suffix : str
        Text to append to the default label of a network; empty for none.
    """

    value: Any
    text: str
    where: str = ""
    label_suffix: str = ""


def settings_for_task(
    settings: Settings, task: str, where: str, *, in_labels: bool
) -> dict[str, list[Level]]:
    """Return the levels of every setting on one task.

    Parameters
    ----------
    settings : Settings
        The settings of a group's defaults, or of an entry.
    task : str
        Name of the task. A value for this task overrides one for all tasks.
    where : str
        Path of the settings in `params.yaml`, for error messages.
    in_labels : bool
        Whether levels of a sweep appear in labels.

    Returns
    -------
    dict of str to list of Level
        The levels of each setting that is given.

    Raises
    ------
    ParameterError
        If a setting has a value and a sweep at once, or a sweep has no levels or equal ones.
    """
    for_all_tasks = _fixed_or_swept(
        settings.set, settings.sweep, ("set", "sweep"), where, in_labels=in_labels
    )
    values = _select_task(settings.by_task, task)
    sweeps = _select_task(settings.sweep_by_task, task)
    words = ("by_task", "sweep_by_task")
    for_this_task = _fixed_or_swept(values, sweeps, words, where, task=task, in_labels=in_labels)
    return for_all_tasks | for_this_task


def level_text(value: object) -> str:
    """Return a value as short text.

    Parameters
    ----------
    value : object
        A level of a setting.

    Returns
    -------
    str
        A string as it is, a float in its shortest exact form, other values as JSON.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        short = f"{value:g}"
        if float(short) == value:
            return short
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def fill_label(template: str, texts: Mapping[str, str], what: str) -> str:
    """Fill in a label or a name: replace each setting in braces with its level.

    Parameters
    ----------
    template : str
        Such as ``LEM, width={width}``.
    texts : mapping of str to str
        The level of each setting as text.
    what : str
        What the template is, such as ``the label of networks.LEM``, for error messages.

    Returns
    -------
    str

    Raises
    ------
    ParameterError
        The braces name a setting that has no level.
    """

    def text(match: re.Match) -> str:
        if match[1] not in texts:
            raise ParameterError(
                f"params.yaml: {what} is {format_value(template)}; expected "
                f"settings in its braces, one of {similar_names(match[1], texts)}"
            )
        return texts[match[1]]

    return re.sub(r"\{(.*?)\}", text, template)


def single_level(value: object, where: str) -> list[Level]:
    """Return the level of a setting that is not swept.

    Parameters
    ----------
    value : object
        The value of the setting.
    where : str
        Path of the setting in `params.yaml`.

    Returns
    -------
    list of Level
        With one element, whose text is the value's.
    """
    return [Level(value, level_text(value), where)]


def _select_task(by_task: Mapping[str, Mapping[str, Any]], task: str) -> dict[str, Any]:
    """Return the values for one task, by setting."""
    return {key: values[task] for key, values in by_task.items() if task in values}


def _fixed_or_swept(
    values: Mapping[str, Any],
    sweeps: Mapping[str, Sweep | None],
    words: tuple[str, str],
    where: str,
    *,
    task: str = "",
    in_labels: bool,
) -> dict[str, list[Level]]:
    """Return the levels of each setting, which has either one value or a sweep."""
    end = f".{task}" if task else ""  # of the settings' paths
    swept = {key: sweep for key, sweep in sweeps.items() if sweep is not None}
    levels: dict[str, list[Level]] = {}
    for key, value in values.items():
        if key not in swept:
            levels[key] = single_level(value, f"{where}.{words[0]}.{key}{end}")
        # `set: {x: null}` next to a sweep of x is fine: a profile drops the base's value like this.
        elif value is not None:
            raise ParameterError(
                f"params.yaml: {where} gives {key} in {words[0]} and in {words[1]}; remove one"
            )
    for key, sweep in swept.items():
        levels[key] = _swept(key, sweep, f"{where}.{words[1]}.{key}{end}", in_labels)
    return levels


def _swept(key: str, sweep: Sweep, where: str, in_labels: bool) -> list[Level]:
    """Return the levels of a swept setting."""
    if isinstance(sweep, Mapping):
        levels = [Level(value, name, where, name) for name, value in sweep.items()]
    else:
        levels = []
        for value in sweep:
            text = level_text(value)
            levels.append(Level(value, text, where, f"{key}={text}"))
    if not levels:
        raise ParameterError(
            f"params.yaml: {where} is {format_value(sweep)}; expected at least one level"
        )
    different = {json.dumps(level.value, sort_keys=True) for level in levels}
    if len(different) < len(levels):
        raise ParameterError(
            f"params.yaml: {where} is {format_value(sweep)}; expected levels that differ from each "
            "other"
        )
    if in_labels and key not in _COLUMNS:
        return levels
    return [level._replace(label_suffix="") for level in levels]
