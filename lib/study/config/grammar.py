"""Grammar of `params.yaml`: the keys that a network, a task, a group and an entry may have.

The header of `params.yaml` explains the keys. `study.config.expand` turns them into runs.

Each class here is a `study.config.section.Section`, which is the base class of everything that is
read from the file. `Sections` are the top-level keys of a profile, and `Settings` are the keys that
give values to settings. `Table` is a table of networks and tasks in the file. A ``label`` is for
tables of the report.
"""

from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from study.config.cluster import ClusterSettings
from study.config.section import Section

T = TypeVar("T")


def _empty_if_null(value: object) -> object:
    return {} if value is None else value


Mapped = Annotated[dict[str, T], BeforeValidator(_empty_if_null)]
"""A mapping with string keys. ``null``, with which a profile clears a mapping, means empty."""
GroupName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
"""Name of a group, which is also the name of its results file."""


def _check_levels(value: object) -> object:
    """Refuse levels that are neither a list nor a mapping, in one sentence for both types."""
    if isinstance(value, list | dict):
        return value
    raise ValueError(
        "expected a list of levels, such as [0.1, 0.2], or a mapping from names to them"
    )


Sweep = Annotated[list[Any] | dict[str, Any], BeforeValidator(_check_levels)]
"""The levels of a swept setting: a list of values, or a mapping from display names to values."""


class Settings(Section):
    """Settings, given in any of four ways.

    A value for one task overrides a value for all tasks. To give the same setting in `set` and in
    `sweep` is an error, and so it is in `by_task` and in `sweep_by_task` for the same task. But if
    the value is ``null``, the sweep counts: a profile can replace a value with a sweep in this way.

    Attributes
    ----------
    set : dict
        ``set[setting]`` is one value for all tasks. ``null`` stands for the default.
    sweep : dict
        ``sweep[setting]`` lists levels for all tasks: one run for each combination of levels.
    by_task : dict
        ``by_task[setting][task]`` is one value for this task.
    sweep_by_task : dict
        ``sweep_by_task[setting][task]`` lists levels for this task.
    """

    if_unknown: ClassVar[str] = "settings go into set, sweep, by_task or sweep_by_task"
    set: Mapped[Any] = Field(default_factory=dict)
    sweep: Mapped[Sweep | None] = Field(default_factory=dict)
    by_task: Mapped[Mapped[Any]] = Field(default_factory=dict)
    sweep_by_task: Mapped[Mapped[Sweep | None]] = Field(default_factory=dict)


class NetworkDefinition(Section):
    """A network: its cell, the settings it has in every group, and its label in the report."""

    if_unknown: ClassVar[str] = "settings go into set"
    cell: str
    set: Mapped[Any] = Field(default_factory=dict)
    label: str | None = None


class TaskDefinition(Section):
    """A task: the function in `study.tasks` that makes it, its settings, its label in the report.

    If the task's name contains a setting in braces, such as ``N={time_steps}``, it defines one task
    per level of that setting in `sweep`.
    """

    if_unknown: ClassVar[str] = "settings go into set"
    maker: str
    set: Mapped[Any] = Field(default_factory=dict)
    sweep: Mapped[list[Any]] = Field(default_factory=dict)
    label: str | None = None


class Entry(Settings):
    """A network in a group: the tasks it is trained on, and its settings.

    Attributes
    ----------
    network : str
        Name of the network; by default the name of the entry.
    tasks : list of str
        The tasks to train it on; by default all tasks of the group.
    label : str
        Label in the report; by default that of the network.
    """

    network: str | None = None
    tasks: list[str] | None = None
    label: str | None = None


class Table(Section):
    """Entries with common tasks and defaults."""

    if_unknown: ClassVar[str] = "settings go into defaults.set"
    tasks: list[str] = Field(default_factory=list)
    defaults: Annotated[Settings, BeforeValidator(_empty_if_null)] = Settings()
    networks: Mapped[Entry | None] = Field(default_factory=dict)


class Group(Table):
    """All runs of one results file: a table, or several `tables`.

    If there are several tables, each starts from the tasks and defaults of the group, and may
    override them.
    """

    tables: Mapped[dict[str, Any] | None] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _not_both(self) -> "Group":
        if self.tables and self.networks:
            raise ValueError("expected either networks or tables; move the networks into a table")
        return self


class Sections(Section):
    """The sections of a profile as plain values; their contents are checked later.

    `study.training.plans.DESIGNS` has the designs of the last four sections.
    """

    if_unknown: ClassVar[str] = (
        "a profile has the sections of base, which it extends, and its groups go into groups"
    )
    jobs: ClusterSettings
    networks: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, Any]]
    groups: dict[GroupName, dict[str, Any] | None]
    factorial: Any
    latching: Any
    linear_gaps: Any
    interventions: Any
