"""`params.yaml`: profiles as small differences from one base."""

import math
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from study.config.section import LONGEST_TEXT, ParameterError, Section, checked, format_value
from study.paths import ROOT

PARAMS = ROOT / "params.yaml"

_DEPTH = 12
_TEXT = f"printable text of at most {LONGEST_TEXT} characters"


def read_params(path: Path = PARAMS) -> dict[str, Any]:
    """Return the content of `params.yaml` as plain values, its outline checked.

    A ParameterError says in one sentence, with the line where there is one, that the file is missing, is no YAML, or has not
    the outline ``profile``, ``base``, ``profiles``.
    """
    try:
        # YAML 1.2, as DVC reads it: 1e-3 is a number and `no` is text.
        content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ParameterError(f"{path.name}{where}: {error.problem or error.context}") from None
    except Exception as error:  # among them those of the parser, and what is no UTF-8
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ParameterError(f"{path.name} cannot be read: {first}") from None
    _check_plain(path.name, content)
    checked(_File, content, "")
    return content


class _File(Section):
    profile: str
    base: dict[str, Any]
    profiles: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_][\w-]*$")], dict[str, Any] | None]


def _check_plain(where: str, value: object, depth: int = 0) -> None:
    """Refuse what JSON cannot hold, such as dates, and text that no sentence can show; `where` leads a sentence."""
    for key in value if isinstance(value, dict) else ():
        if not _is_text(key):
            raise ParameterError(f"{where} has the key {format_value(key)}; expected {_TEXT}")
    if isinstance(value, dict | list) and depth <= _DEPTH:
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            _check_plain(f"{where}{'.' if depth else ': '}{key}", part, depth + 1)
    elif not (value is None or _is_text(value) or _is_number(value)):
        raise ParameterError(
            f"{where} is {format_value(value)}; expected a finite number or {_TEXT}, at most {_DEPTH} levels deep"
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= LONGEST_TEXT


def _is_number(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def merged(profile: str | None = None, path: Path = PARAMS) -> dict[str, Any]:
    """Return the sections of a profile, of the chosen one by default: the base, and over it what the profile says otherwise.

    Mappings are merged key by key, all else is replaced. A ParameterError says that there is no such profile, or as
    `read_params`.
    """
    content = read_params(path)
    profile, known = content["profile"] if profile is None else profile, content["profiles"]
    if profile not in known:
        raise ParameterError(
            f"unknown profile {format_value(profile)}; choose one of {', '.join(known)}"
        )
    return overlaid(content["base"], known[profile] or {})


def overlaid(base: Any, change: Any) -> Any:
    """Return `base` with a change over it: mappings key by key, over a list of mappings in each of them, all else replaced."""
    if isinstance(change, dict) and isinstance(base, dict):
        return base | {key: overlaid(base.get(key), part) for key, part in change.items()}
    readings = isinstance(base, list) and base and all(isinstance(part, dict) for part in base)
    if isinstance(change, dict) and readings:
        return [overlaid(part, change) for part in base]
    return change
