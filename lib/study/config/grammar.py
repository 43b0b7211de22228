"""The words of `params.yaml`: what a network, a task, a group and an entry of a group may say.

The file's own header explains them to its readers; `study.config.expand` says what they mean.
"""

from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from study.config.jobs import Jobs
from study.config.section import Section

T = TypeVar("T")


def _empty_if_null(value: object) -> object:
    return {} if value is None else value


Mapped = Annotated[dict[str, T], BeforeValidator(_empty_if_null)]
"""A mapping from names; ``null``, by which a profile takes it back, is an empty one."""
GroupName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
"""Name of a group, and of the file with its results."""
Levels = list[Any] | dict[str, Any]
"""Levels of a sweep: a list, or a mapping from names for people to values."""


class Settings(Section):
    """Values of settings, in the four ways to give them.

    Attributes
    ----------
    set : dict
        One value for all tasks, by setting. ``null`` stands for the default.
    sweep : dict
        Levels for all tasks, by setting: one run for each combination of levels.
    by_task : dict
        One value for each task that is named, by setting and task.
    sweep_by_task : dict
        Levels for each task that is named, by setting and task.
    """

    set: Mapped[Any] = Field(default_factory=dict)
    sweep: Mapped[Levels | None] = Field(default_factory=dict)
    by_task: Mapped[Mapped[Any]] = Field(default_factory=dict)
    sweep_by_task: Mapped[Mapped[Levels | None]] = Field(default_factory=dict)


class NetworkDefinition(Section):
    """A network: its cell, the settings it has in every group, and its label in tables."""

    cell: str
    set: Mapped[Any] = Field(default_factory=dict)
    label: str | None = None


class TaskDefinition(Section):
    """A task: its maker in `study.tasks`, the maker's settings, and its label in tables.

    A name with a setting in braces, such as ``N={time_steps}``, stands for one task for each level
    of that setting in `sweep`.
    """

    maker: str
    set: Mapped[Any] = Field(default_factory=dict)
    sweep: Mapped[list[Any]] = Field(default_factory=dict)
    label: str | None = None


class Entry(Settings):
    """A network in a group: on which tasks, and with which settings.

    Attributes
    ----------
    network : str
        Name of the network; by default the name of the entry.
    tasks : list of str
        Tasks of the group that it is trained on; by default all of them.
    label : str
        Label in tables; by default that of the network.
    """

    network: str | None = None
    tasks: list[str] | None = None
    label: str | None = None


class Table(Section):
    """Entries that share their tasks and their defaults."""

    tasks: list[str] = Field(default_factory=list)
    defaults: Annotated[Settings, BeforeValidator(_empty_if_null)] = Settings()
    networks: Mapped[Entry | None] = Field(default_factory=dict)


class Group(Table):
    """Everything that is trained for one dataset: a table, or several `tables`.

    Each of several tables starts from what the group itself says, and changes it.
    """

    tables: Mapped[dict[str, Any] | None] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _not_both(self) -> "Group":
        if self.tables and self.networks:
            raise ValueError("expected either networks or tables; move the networks into a table")
        return self


class Sections(Section):
    """The sections of a profile; what they say is checked later."""

    jobs: Jobs
    networks: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, Any]]
    groups: dict[GroupName, dict[str, Any] | None]
    factorial: Any
    latching: Any
    linear_gaps: Any
    interventions: Any
