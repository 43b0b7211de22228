"""`params.yaml` as plain values: read within bounds, and a profile laid over the base."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from study.config.section import (
    LONGEST_TEXT,
    ParameterError,
    Section,
    checked,
    format_value,
    nearest,
)
from study.paths import ROOT

PARAMS = ROOT / "params.yaml"

_MOST_BYTES = 2_000_000
_MOST_VALUES = 200_000
"""Values in the file once every alias is written out; ours has some 8,000."""
_MOST_LEVELS = 12
_LARGEST_NUMBER = 1e18
_TEXT = f"printable text of at most {LONGEST_TEXT} characters"


class _File(Section):
    profile: str
    base: dict[str, Any]
    profiles: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_][\w-]*$")], dict[str, Any] | None]


def read_params(path: Path = PARAMS) -> dict[str, Any]:
    """Return the content of `params.yaml` as plain values.

    Raises
    ------
    ParameterError
        With one sentence, and the line if there is one: the file is missing, too large or no YAML,
        or it does not consist of ``profile``, ``base`` and ``profiles``.
    """
    try:
        content = _parse(path)
    except ParameterError:
        raise
    except MarkedYAMLError as error:
        message = error.problem or error.context
        raise ParameterError(f"{path.name}{_position(error)}: {message}") from None
    except Exception as error:  # ruamel.yaml raises all sorts of errors; text may not be UTF-8
        lines = str(error).splitlines() or [type(error).__name__]
        raise ParameterError(f"{path.name} cannot be read: {lines[0]}") from None
    _check_plain(path.name, content)
    checked(_File, content, "")
    return content


def merged(profile: str | None = None, path: Path = PARAMS) -> dict[str, Any]:
    """Return the sections of a profile: the base with the profile laid over it.

    Parameters
    ----------
    profile : str, optional
        Name of a profile; by default the one that the file chooses.
    path : Path
        The file.

    Raises
    ------
    ParameterError
        If there is no such profile, or as `read_params` does.
    """
    content = read_params(path)
    profiles = content["profiles"]
    name = content["profile"] if profile is None else profile
    if name not in profiles:
        raise ParameterError(
            f"unknown profile {format_value(name)}; choose one of {nearest(name, profiles)}"
        )
    return overlaid(content["base"], profiles[name] or {})


def overlaid(base: Any, change: Any) -> Any:
    """Return `base` with `change` laid over it: mappings merge key by key, all else is replaced."""
    if not (isinstance(base, dict) and isinstance(change, dict)):
        return change
    result = dict(base)
    for key, value in change.items():
        result[key] = overlaid(base.get(key), value)
    return result


def _parse(path: Path) -> Any:
    """Return the plain values in a YAML file, with its size checked before they are made."""
    data = path.read_bytes()
    if len(data) > _MOST_BYTES:
        raise ParameterError(
            f"{path.name} has {len(data):,} bytes; expected at most {_MOST_BYTES:,}"
        )
    # YAML 1.2, as DVC reads it: 1e-3 is a number and `no` is text.
    yaml = YAML(typ="safe", pure=True)
    constructor, parser = yaml.get_constructor_parser(data.decode("utf-8"))
    try:
        node = constructor.composer.get_single_node()
        if node is None:
            return None
        _count_values(node, path.name, {})
        return constructor.construct_document(node)
    finally:
        parser.dispose()


def _count_values(node: Node, file: str, known: dict[int, int | None]) -> int:
    """Return how many values a node has once aliases are written out.

    `known` holds the counts of nodes seen so far, and None for those that enclose this one.
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
            f"{file}, line {line}: more than {_MOST_VALUES:,} values once aliases are written out; "
            "use fewer aliases"
        )
    known[id(node)] = count
    return count


def _position(error: MarkedYAMLError) -> str:
    """Return where a file can't be parsed, for an error message."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return ""
    return f", line {mark.line + 1}, column {mark.column + 1}"


def _check_plain(where: str, value: object, level: int = 0) -> None:
    """Refuse what JSON can't hold, such as dates, and text that can't be shown."""
    if level > _MOST_LEVELS:
        raise ParameterError(f"{where} is nested more than {_MOST_LEVELS} levels deep")
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
    # False for infinities and for "not a number", too.
    return isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER
