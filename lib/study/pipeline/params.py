"""`params.yaml`: profiles as small differences from one base, and the sections in them as checked objects.

What a section may say is the business of who reads it (`study.training`); here a section is read, merged, and checked
against a `Section`.
"""

import difflib
import itertools
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
)
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from study.paths import ROOT

PARAMS = ROOT / "params.yaml"

_FACTOR = "factor"
_DEPTH = 12
_LONGEST = 500
"""Characters that a text in the file may have, and that a sentence takes over from a check."""
_TEXT = f"printable text of at most {_LONGEST} characters"
_NAMES = 10
"""Names that a sentence lists at most."""
_MOST = 10**9
"""No count in a design is larger than this: one that is was mistyped."""

Positive = Annotated[int, Field(gt=0, le=_MOST)]
Size = Annotated[int, Field(ge=0, le=_MOST)]
"""A number of sequences; 0 is all there are."""
LearningRate = Annotated[float, Field(gt=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1e12)]

T = TypeVar("T")


class ParameterError(ValueError):
    """A parameter is unknown, missing, of the wrong type or out of range."""


def distinct(levels: tuple) -> tuple:
    """Return the levels of a factor if they differ from each other; raises `ValueError`."""
    if len(set(levels)) != len(levels):
        raise ValueError(f"levels must differ from each other, got {list(levels)}")
    return levels


def _several(value: object) -> object:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


Factor = Annotated[
    tuple[T, ...], Field(min_length=1), BeforeValidator(_several), AfterValidator(distinct), _FACTOR
]
"""Levels of a factor: one, or a list of them, in `params.yaml`. A job has one."""


class Section(BaseModel):
    """A part of `params.yaml`: nothing extra, nothing converted, nothing infinite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Design(Section):
    """Jobs of which every level of every factor meets every other.

    A job is the design itself with one level in the place of each `Factor`, so ``job.width`` is a number.
    """

    replicates: Positive = 1
    _replicate: int = PrivateAttr(0)

    @property
    def replicate(self) -> int:
        """The job's replicate, from 0."""
        return self._replicate

    @classmethod
    def factors(cls) -> tuple[str, ...]:
        """Return the names of the factors, in order."""
        return tuple(name for name, f in cls.model_fields.items() if _FACTOR in f.metadata)

    @property
    def planned(self) -> int:
        """How many jobs there are, told without making any."""
        return self.replicates * math.prod(len(getattr(self, name)) for name in self.factors())

    def jobs(self) -> Iterator[Self]:
        """Yield each job of the design."""
        names = self.factors()
        levels = itertools.product(*(getattr(self, name) for name in names))
        for chosen, replicate in itertools.product(levels, range(self.replicates)):
            yield self.at(**dict(zip(names, chosen, strict=True)), replicate=replicate)

    def at(self, *, replicate: int | None = None, **fields: object) -> Self:
        """Return a job, or another design, with these fields."""
        job = self.model_copy(update=fields)
        if replicate is not None:
            job._replicate = replicate
        return job

    def values(self) -> dict[str, Any]:
        """Return all that a job says, as JSON values; the number of replicates is not part of it."""
        # A job has one level where a design has a tuple of them: what pydantic would warn of.
        said = self.model_dump(mode="json", exclude={"replicates"}, warnings=False)
        return said | {"replicate": self.replicate}


class Jobs(Section):
    """Where jobs run, which changes no result: no shard, dataset or stage of the pipeline depends on it.

    `scheduler` is ``local`` or the address of a running Dask scheduler (``tcp://host:port``, or ``tls://host:port`` with the
    certificates of Dask's own configuration); `workers` are local processes, 0 means one per core, and a single one where
    networks share passes on a GPU.
    """

    scheduler: Annotated[str, Field(pattern=r"^(local|(tcp|tls)://[^/\s]+:[1-9][0-9]{0,4})$")]
    workers: Annotated[int, Field(ge=0, le=4096)]


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
            raise ParameterError(f"{where} has the key {shown(key)}; expected {_TEXT}")
    if isinstance(value, dict | list) and depth <= _DEPTH:
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            _check_plain(f"{where}{'.' if depth else ': '}{key}", part, depth + 1)
    elif not (value is None or _is_text(value) or _is_number(value)):
        raise ParameterError(
            f"{where} is {shown(value)}; expected a finite number or {_TEXT}, at most {_DEPTH} levels deep"
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST


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
        raise ParameterError(f"unknown profile {shown(profile)}; choose one of {', '.join(known)}")
    return overlaid(content["base"], known[profile] or {})


def overlaid(base: Any, change: Any) -> Any:
    """Return `base` with a change over it: mappings key by key, over a list of mappings in each of them, all else replaced."""
    if isinstance(change, dict) and isinstance(base, dict):
        return base | {key: overlaid(base.get(key), part) for key, part in change.items()}
    readings = isinstance(base, list) and base and all(isinstance(part, dict) for part in base)
    if isinstance(change, dict) and readings:
        return [overlaid(part, change) for part in base]
    return change


def checked(
    kind: type[Section], content: object, where: str, *, lead: str = "params.yaml: "
) -> Any:
    """Return a section as an object of its kind; a ParameterError has a sentence per problem: the key, what came, what was expected."""
    try:
        # By way of JSON a list may be a tuple, and nothing else is converted.
        return kind.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise ParameterError(_explain(lead, where, error)) from None


def shown(value: object) -> str:
    """Return what came, short enough for a sentence and safe to print."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def nearest(name: object, known: Iterable[str]) -> str:
    """Return the known names that are most like `name`, for a sentence."""
    names = list(known)
    like = difflib.get_close_matches(str(name), names, _NAMES, cutoff=0)
    return ", ".join(like) + (f", .. ({len(names)} in all)" if len(names) > _NAMES else "")


def _explain(lead: str, where: str, error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        key = ".".join(filter(None, [where, *map(str, problem["loc"])])) or "the file"
        message = problem["msg"].removeprefix("Value error, ")[:_LONGEST]
        # Of a whole section the key says enough.
        came = "" if isinstance(problem["input"], dict) else f" is {shown(problem['input'])}"
        said = {
            "extra_forbidden": f"unknown parameter {key}; remove it or correct its spelling",
            "missing": f"{key} is missing",
        }.get(problem["type"], f"{key}{came}; {message[0].lower()}{message[1:]}")
        lines.append(f"{lead}{said}")
    return "\n".join(lines)
