"""`params.yaml` as checked objects: one frozen model per section, nothing extra allowed.

A section is one file of this package, a field of `Profile`, and a block in every profile of `params.yaml`.
"""

from pathlib import Path
from typing import Literal

from pydantic import ValidationError, field_validator
from ruamel.yaml import YAML

from lib.paths import ROOT
from lib.run.params._section import Section
from lib.run.params.adding import AddingSection
from lib.run.params.coadjoint_gaps import CoadjointGapsSection
from lib.run.params.data import DataSection
from lib.run.params.jobs import JobsSection
from lib.run.params.latching import LatchingSection
from lib.run.params.linear_gaps import LinearGapsSection
from lib.run.params.padding import PaddingSection
from lib.run.params.study import NOISES, ORDERS, StudySection

__all__ = [
    "NOISES",
    "ORDERS",
    "PROFILES",
    "AddingSection",
    "CoadjointGapsSection",
    "DataSection",
    "JobsSection",
    "LatchingSection",
    "LinearGapsSection",
    "PaddingSection",
    "ParameterError",
    "Params",
    "Profile",
    "StudySection",
    "load_params",
    "load_profile",
]

PROFILES = ("smoke", "quick", "real", "paper")


class ParameterError(ValueError):
    """A parameter is unknown, missing, of the wrong type or out of range."""


class Profile(Section):
    """All settings of one profile."""

    jobs: JobsSection
    data: DataSection
    study: StudySection
    linear_gaps: LinearGapsSection
    coadjoint_gaps: CoadjointGapsSection
    padding: PaddingSection
    adding: AddingSection
    latching: LatchingSection


class Params(Section):
    """The whole of `params.yaml`."""

    profile: Literal[PROFILES]
    profiles: dict[Literal[PROFILES], Profile]

    @field_validator("profiles")
    @classmethod
    def _all_profiles(cls, profiles: dict) -> dict:
        if missing := [name for name in PROFILES if name not in profiles]:
            raise ValueError(f"profile {missing[0]!r} is missing; expected {', '.join(PROFILES)}")
        return profiles


def load_params(path: str | Path = ROOT / "params.yaml") -> Params:
    """Read and check `params.yaml`.

    Raises
    ------
    ParameterError
        One sentence per problem: the key, what came and what was expected.
    """
    path = Path(path)
    # YAML 1.2, as DVC reads it: 1e-3 is a number and `no` is text.
    content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    try:
        return Params.model_validate(content)
    except ValidationError as error:
        raise ParameterError(_explain(path.name, error)) from None


def load_profile(name: str, path: str | Path = ROOT / "params.yaml") -> Profile:
    """Return the settings of the profile `name`; raises `ParameterError` if there is none."""
    params = load_params(path)
    if name not in params.profiles:
        raise ParameterError(f"unknown profile {name!r}; choose one of {', '.join(PROFILES)}")
    return params.profiles[name]


def _explain(name: str, error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"]) or "(top level)"
        if problem["type"] == "extra_forbidden":
            lines.append(f"{name}: unknown parameter {key}; remove it or correct its spelling")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            lines.append(
                f"{name}: {key} is {problem['input']!r}; {message[0].lower()}{message[1:]}"
            )
    return "\n".join(lines)
