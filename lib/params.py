"""`params.yaml` as checked objects: one frozen model per section, nothing extra allowed."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from ruamel.yaml import YAML

from lib.paths import ROOT

PROFILES = ("smoke", "quick", "real", "paper")
ORDERS = ("sequential", "permuted")
NOISES = ("none", "post", "uniform")

Positive = Annotated[int, Field(gt=0)]


class ParameterError(ValueError):
    """A parameter is unknown, missing, of the wrong type or out of range."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSection(_Section):
    """Which data sets stage 00 prepares and the study uses."""

    datasets: tuple[str, ...] = Field(min_length=1)

    @field_validator("datasets")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        # The registry of data sets is the folder of their files, read without importing it.
        known = sorted(
            path.stem
            for path in (ROOT / "lib" / "tasks" / "sources").glob("*.py")
            if not path.stem.startswith("_")
        )
        for name in names:
            if name not in known:
                raise ValueError(f"unknown dataset {name!r}; known: {', '.join(known)}")
        return _distinct(names)


class StudySection(_Section):
    """The factorial design (dissertation, Table 1.2) and how its attempts are trained.

    Sizes of 0 mean "all of the data set" (`probe_size`: sequences of either split measured after an
    epoch); `workers` of 0 means one process per core.
    `scheduler` is ``local`` or the address of a running Dask scheduler (``tcp://host:port``).
    """

    architectures: tuple[str, ...] = Field(min_length=1)
    widths: tuple[Positive, ...] = Field(min_length=1)
    learning_rates: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(min_length=1)
    training_lengths: tuple[Positive, ...] = Field(min_length=1)
    orders: tuple[Literal[ORDERS], ...] = Field(min_length=1)
    noises: tuple[Literal[NOISES], ...] = Field(min_length=1)
    replicates: Positive
    train_size: int = Field(ge=0)
    test_size: int = Field(ge=0)
    probe_size: int = Field(ge=0)
    batch_size: Positive
    probe_batch_size: Positive
    embedding_width: Positive
    device: Literal["auto", "cpu", "cuda"]
    flush_denormals: bool
    scheduler: str = Field(pattern=r"^(local|[a-z]+://[^\s]+:\d+)$")
    workers: int = Field(ge=0)
    attempts_per_block: Positive

    @field_validator(
        "architectures", "widths", "learning_rates", "training_lengths", "orders", "noises"
    )
    @classmethod
    def _no_repeats(cls, levels: tuple) -> tuple:
        return _distinct(levels)


class Profile(_Section):
    """All settings of one profile."""

    data: DataSection
    study: StudySection


class Params(_Section):
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


def _distinct(levels: tuple) -> tuple:
    if len(set(levels)) != len(levels):
        raise ValueError(f"levels must differ from each other, got {list(levels)}")
    return levels


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
