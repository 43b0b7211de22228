"""Read `params.yaml` as plain values, and apply a profile to the base.

This is the first step from the file to runs. Limits on sizes keep a malformed file from filling the
memory.
"""

import copy
import functools
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode
from ruamel.yaml.parser import ParserError
from ruamel.yaml.scanner import ScannerError

from study.config.section import (
    LONGEST_TEXT,
    ParameterError,
    Section,
    format_value,
    parse_section,
    similar_names,
)
from study.paths import ROOT

PARAMS = ROOT / "params.yaml"

_MOST_BYTES = 2_000_000
_MOST_VALUES = 200_000
"""Largest number of values after expanding YAML aliases; our file has about 8,000."""
_MOST_LEVELS = 12
_LARGEST_NUMBER = 1e18
_TEXT = f"printable text of at most {LONGEST_TEXT} characters"
_PLAIN_PROBLEMS = {
    "expected <block end>, but found '<block mapping start>'": (
        "this line is indented like none of the sections that it could belong to"
    ),
    "mapping values are not allowed here": (
        "a second `key:` is not allowed here; perhaps this line is indented too far, or the one "
        "above has a value already"
    ),
}
"""Plain words for the messages of ruamel.yaml about a wrong indentation."""


def _check_profile_name(value: object) -> object:
    """Refuse a `profile` that is left empty or is not a name, and say what it is."""
    if isinstance(value, str):
        return value
    raise ValueError("expected the name of a profile, such as quick")


class _File(Section):
    profile: Annotated[str, BeforeValidator(_check_profile_name)]
    reproducible: bool = False  # see study.pipeline.instructions
    base: dict[str, Any]
    profiles: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_][\w-]*$")], dict[str, Any] | None]


def read_params(path: Path = PARAMS) -> dict[str, Any]:
    """Read `params.yaml` as plain values.

    Parameters
    ----------
    path : Path

    Returns
    -------
    dict
        ``profile``, ``reproducible``, ``base`` and ``profiles``.

    Raises
    ------
    ParameterError
        The file is missing, too large or not valid YAML, or its keys are not ``profile``,
        ``reproducible``, ``base`` and ``profiles``. The message names the line if there is one.
    """
    try:
        content = copy.deepcopy(_parse(path.name, path.read_bytes()))  # callers may change it
    except ParameterError:
        raise
    except MarkedYAMLError as error:
        message = error.problem or error.context
        raise ParameterError(
            f"{path.name}{_position(error)}: {_PLAIN_PROBLEMS.get(message, message)}; "
            "check indentation, brackets and names there"
        ) from None
    except Exception as error:  # ruamel.yaml raises errors of many kinds; bytes may not be UTF-8
        lines = str(error).splitlines() or [type(error).__name__]
        raise ParameterError(f"{path.name} cannot be read: {lines[0]}") from None
    _check_plain(path.name, content)
    parse_section(_File, content, "")
    return content


def merge_profile(profile: str | None = None, path: Path = PARAMS) -> dict[str, Any]:
    """Return the sections of a profile: the base, overridden by the profile.

    Parameters
    ----------
    profile : str, optional
        Name of a profile; by default the value of ``profile`` in the file.
    path : Path
        The file.

    Returns
    -------
    dict
        The sections, such as ``networks``, ``tasks`` and ``groups``, as plain values.

    Raises
    ------
    ParameterError
        The profile is unknown, or `read_params` fails.
    """
    return select_profile(read_params(path), profile)


def select_profile(content: dict[str, Any], profile: str | None = None) -> dict[str, Any]:
    """Return the sections of a profile of a file that has been read.

    Parameters
    ----------
    content : dict
        As from `read_params`.
    profile : str, optional
        As in `merge_profile`.

    Returns
    -------
    dict
        As from `merge_profile`.

    Raises
    ------
    ParameterError
        The profile is unknown.
    """
    profiles = content["profiles"]
    name = content["profile"] if profile is None else profile
    if name not in profiles:
        raise ParameterError(
            f"unknown profile {format_value(name)}; choose one of {similar_names(name, profiles)}"
        )
    return merge_mappings(content["base"], profiles[name] or {})


def merge_mappings(base: Any, change: Any) -> Any:
    """Override one mapping by another: mappings merge key by key, other values are replaced.

    So a profile can change and add keys of a mapping, but not remove one. Where a key can be left
    out, its value ``null`` stands for that. A named level of a sweep can't be left out.

    Parameters
    ----------
    base : Any
        A value of `params.yaml`.
    change : Any
        The overriding value.

    Returns
    -------
    Any
        The merged mapping; `change` if either is not a mapping.
    """
    if not (isinstance(base, dict) and isinstance(change, dict)):
        return change
    result = dict(base)
    for key, value in change.items():
        result[key] = merge_mappings(base.get(key), value)
    return result


@functools.lru_cache(maxsize=1)
def _parse(name: str, data: bytes) -> Any:
    """Parse the bytes of a YAML file into plain values, after checking their number."""
    if len(data) > _MOST_BYTES:
        raise ParameterError(
            f"{name} has {len(data):,} bytes; expected at most {_MOST_BYTES:,}, "
            "so check whether it is the right file"
        )
    # YAML 1.2, as DVC reads it: 1e-3 is a number and `no` is text.
    yaml = YAML(typ="safe", pure=True)
    constructor, parser = yaml.get_constructor_parser(data.decode("utf-8"))
    try:
        node = constructor.composer.get_single_node()
        if node is None:
            return None
        _count_values(node, name, {})
        return constructor.construct_document(node)
    finally:
        parser.dispose()


def _count_values(node: Node, file: str, known: dict[int, int | None]) -> int:
    """Return the number of values in a node after expanding aliases.

    `known` maps the id of each node to its count, or to None while the node is being counted.
    """
    line = node.start_mark.line + 1
    if id(node) in known:
        count = known[id(node)]
        if count is None:
            raise ParameterError(f"{file}, line {line}: a value contains itself; remove the alias")
        return count
    if isinstance(node, ScalarNode):
        if len(node.value) > LONGEST_TEXT:
            raise ParameterError(
                f"{file}, line {line}: a value has {len(node.value):,} characters; expected {_TEXT}"
            )
        return 1
    known[id(node)] = None
    count = 1
    for part in node.value:
        pair = part if isinstance(node, MappingNode) else (part,)
        count += sum(_count_values(child, file, known) for child in pair)
    if count > _MOST_VALUES:
        raise ParameterError(
            f"{file}, line {line}: more than {_MOST_VALUES:,} values after expanding aliases; "
            "use fewer aliases"
        )
    known[id(node)] = count
    return count


def _position(error: MarkedYAMLError) -> str:
    """Return the line and column of a YAML error, for an error message.

    An error is noticed where it makes the file invalid. Often the mistake is in the line where the
    key, the list or the section begins, so this line is named as well.
    """
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return ""
    position = f", line {mark.line + 1}, column {mark.column + 1}"
    begin = error.context_mark
    is_syntax = isinstance(error, ParserError | ScannerError)
    if is_syntax and begin is not None and begin.line != mark.line:
        position += f" (in what begins in line {begin.line + 1})"
    return position


def _check_plain(where: str, value: object, level: int = 0) -> None:
    """Refuse values that JSON can't hold, such as dates, and unprintable text."""
    if level > _MOST_LEVELS:
        raise ParameterError(
            f"{where} is nested more than {_MOST_LEVELS} levels deep; use fewer levels"
        )
    separator = "." if level else ": "
    if isinstance(value, dict):
        for key, part in value.items():
            if not _is_text(key):
                raise ParameterError(f"{where} has the key {format_value(key)}; expected {_TEXT}")
            _check_plain(f"{where}{separator}{key}", part, level + 1)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            _check_plain(f"{where}{separator}{index}", part, level + 1)
    elif not (value is None or _is_text(value) or _is_number(value)):
        raise ParameterError(
            f"{where} is {format_value(value)}; expected a finite number or {_TEXT}"
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= LONGEST_TEXT


def _is_number(value: object) -> bool:
    # False for infinities and nan. True for True and False, which Python counts as integers.
    return isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER
