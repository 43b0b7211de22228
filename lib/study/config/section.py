"""Base class, number types and error messages of the configuration."""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

FACTOR = "factor"
"""Metadata of a field that holds several levels, see `Factor`."""
LARGEST_COUNT = 10**9
"""Upper bound on any count; anything larger is assumed to be a typo."""
LONGEST_TEXT = 500
"""Largest number of characters of a string, and of a quoted message of pydantic."""
_SHOWN_TEXT = 80
"""Characters of a value that an error message shows."""
_SHOWN_NAMES = 10
"""Known names that an error message lists."""

Positive = Annotated[int, Field(gt=0, le=LARGEST_COUNT)]
Size = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
"""An integer from 0, such as a number of sequences (0 for all of them), epochs or steps."""
Draws = Annotated[int, Field(ge=0, le=10**6)]
"""A number of sequences that are generated at once, so they must fit into memory."""
PositiveDraws = Annotated[int, Field(gt=0, le=10**6)]
LearningRate = Annotated[float, Field(gt=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1e12)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
"""A dropout rate."""

T = TypeVar("T")
_PLAIN_WORDS = {
    "a valid array": "a list, such as [a, b]",
    "an object": "a mapping, such as {a: 1, b: 2}",
    "a valid boolean": "true or false",
    "a valid string": "text",
}
"""Words of YAML for words of JSON in pydantic's messages."""


class ParameterError(ValueError):
    """A setting is unknown, missing, of the wrong type or out of range."""


class Section(BaseModel):
    """Base class of the parts of the configuration.

    It refuses unknown keys, conversions between types, and infinite numbers.

    Attributes
    ----------
    if_unknown : str
        Advice at the end of the error message for an unknown key; empty for none.
    if_missing : str
        Advice at the end of the error message for a missing key.
    """

    if_unknown: ClassVar[str] = ""
    if_missing: ClassVar[str] = "add it"
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def check_distinct(levels: tuple) -> tuple:
    """Return the levels of a factor, which must differ from each other.

    Parameters
    ----------
    levels : tuple

    Returns
    -------
    tuple
        The same levels.

    Raises
    ------
    ValueError
        Two levels are equal.
    """
    if len(set(levels)) != len(levels):
        raise ValueError(f"levels must differ from each other, got {list(levels)}")
    return levels


def _as_tuple(value: object) -> tuple:
    """Return a list as a tuple, and a single level as a tuple of one; refuse an empty list."""
    if not isinstance(value, list | tuple):
        return (value,)
    # Checked before the levels: pydantic's own check counts the valid ones, after them.
    if not value:
        raise ValueError("expected at least one level")
    return tuple(value)


Factor = Annotated[
    tuple[T, ...],
    BeforeValidator(_as_tuple),
    AfterValidator(check_distinct),
    FACTOR,
]
"""A field with the levels of a factor. The file gives a list of levels, or a single one.

A design has a tuple of levels; a job of the design has a single level instead.
"""


def parse_section(
    kind: type[Section],
    content: object,
    where: str,
    *,
    lead: str = "params.yaml: ",
    hidden_fields: Iterable[str] = (),
    given_at: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """Convert plain values to a section, and check them.

    Parameters
    ----------
    kind : type of Section
        The class to convert to.
    content : object
        Plain values, as read from YAML or JSON.
    where : str
        Path of the section in the file, such as ``groups.pixels``, for error messages.
    lead : str
        First words of error messages.
    hidden_fields : iterable of str
        Field names to leave out of paths in error messages. In the file, the settings of these
        fields are directly under `where`, so it does not contain the names of the fields.
    given_at : mapping of str to str
        Paths of the keys that the file gives somewhere else than directly under `where`.

    Returns
    -------
    kind
        An instance of `kind`.

    Raises
    ------
    ParameterError
        The message has one sentence per problem: the key, its value, and what was expected.
    """
    try:
        # Via JSON, because pydantic's strict mode then accepts an array for a tuple. For Python
        # values it would not. Other conversions are refused in both cases.
        return kind.model_validate_json(json.dumps(content))
    except ValidationError as error:
        lines = [
            lead + describe_problem(kind, where, problem, hidden_fields, given_at)
            for problem in error.errors()
        ]
        raise ParameterError("\n".join(lines)) from None


def describe_problem(
    kind: type[Section],
    where: str,
    problem: Mapping[str, Any],
    hidden_fields: Iterable[str] = (),
    given_at: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Say in one sentence what is wrong with one key, in words of YAML.

    Parameters
    ----------
    kind : type of Section
        The class that refused the values.
    where : str
        Path of the section in the file.
    problem : mapping
        One of the problems that pydantic reports (`ValidationError.errors`).
    hidden_fields, given_at
        As in `parse_section`.

    Returns
    -------
    str
        The key, its value, and what was expected.
    """
    hidden = {*hidden_fields, "[key]"}  # pydantic's mark for a wrong key
    keys = [str(key) for key in problem["loc"] if key not in hidden]
    key = _path_of(keys, where, given_at)
    if problem["type"] == "missing":
        return f"{key} is missing; {kind.if_missing}"
    if problem["type"] == "extra_forbidden":
        return _describe_unknown(kind, key, problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")[:LONGEST_TEXT]
    message = message[0].lower() + message[1:]
    for word, plain in _PLAIN_WORDS.items():
        message = message.replace(word, plain)
    if problem["type"] in ("int_type", "float_type") and isinstance(problem["input"], list):
        message += "; list several levels under sweep"
    if problem["type"] in ("int_type", "float_type") and _has_digit(problem["input"]):
        message += ", without quotes or a comma"
    if isinstance(problem["input"], dict):
        return f"{key}; {message}"  # a whole section: its path says enough
    return f"{key} is {format_value(problem['input'])}; {message}"


def _path_of(keys: Sequence[str], where: str, given_at: Mapping[str, str]) -> str:
    """Return the path in the file of a key and the keys inside it, see `parse_section`."""
    if keys and keys[0] in given_at:
        path = [given_at[keys[0]], *keys[1:]]
    else:
        path = [where, *keys]
    return ".".join(part for part in path if part) or "the file"


def _describe_unknown(kind: type[Section], key: str, location: Sequence[Any]) -> str:
    """Say in one sentence that a key is unknown, and which ones are known at this location."""
    sentence = f"unknown parameter {key}; remove it or correct its spelling"
    section = _section_at(kind, location[:-1])
    if section is not None:
        sentence += f" (known: {similar_names(location[-1], section.model_fields)})"
        if section.if_unknown:
            sentence += f"; {section.if_unknown}"
    return sentence


def _has_digit(value: object) -> bool:
    return isinstance(value, str) and any(character.isdigit() for character in value)


def format_value(value: object) -> str:
    """Format a value for an error message.

    Parameters
    ----------
    value : object
        Anything that `params.yaml` may hold.

    Returns
    -------
    str
        Printable text, truncated to 80 characters. A key without a value is ``null`` in YAML.
    """
    if value is None:
        return "empty (null)"
    # An integer of more bits may have too many digits to show, or even to convert to text.
    if isinstance(value, int) and value.bit_length() > _SHOWN_TEXT:
        return f"an integer of {value.bit_length()} bits"
    printable = not isinstance(value, str) or value.isprintable()
    text = repr(value) if printable else ascii(value)
    if len(text) > _SHOWN_TEXT:
        return f"{text[:_SHOWN_TEXT]}..."
    return text


def similar_names(name: object, known: Iterable[str]) -> str:
    """List known names for an error message, the most similar first.

    Parameters
    ----------
    name : object
        The unknown name.
    known : iterable of str
        The known names.

    Returns
    -------
    str
        At most ten known names, separated by commas, and how many there are in all.
    """
    names = list(known)
    similar = difflib.get_close_matches(str(name), names, _SHOWN_NAMES, cutoff=0)
    text = ", ".join(similar)
    if len(names) > _SHOWN_NAMES:
        text += f", .. ({len(names)} in all)"
    return text


def _section_at(kind: type[Section], path: Iterable[object]) -> type[Section] | None:
    """Return the type of the section at a path inside `kind`.

    It is None if a part of the path is not a section.
    """
    for key in path:
        field = kind.model_fields.get(str(key))
        if field is not None:
            inner = _section_in(field.annotation)
            if inner is None:
                return None
            kind = inner
    return kind


def _section_in(annotation: Any) -> type[Section] | None:
    """Return the first section in a type such as ``dict[str, Section | None]``."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    for argument in get_args(annotation):
        section = _section_in(argument)
        if section is not None:
            return section
    return None
