"""A row: one network, one task and one recipe, with every level in its place."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from lib.cells import cell_class
from lib.run.params import Positive, Size, Weight
from lib.tasks import check_task, task_draws, task_module
from lib.training.fit import Recipe
from lib.training.job import Architecture, Job
from lib.training.model import HEADS, READS, Dropout
from lib.training.objectives import WEIGHTS

MEASURES = (
    "gains",
    "time_steps",
    "adjoint_norms",
    "adjoint_curve",
    "singular_values",
    "trajectories",
    "penalty",
)
_NAMES: tuple[str, ...] = ("run", "network", "label", "task_label", "replicates")
"""What people call a row, and how often it is trained: no part of what comes of it."""
_MADE = ("task", "hyper_parameters", "start_settings")
LISTS = ("drops", "groups", "frozen", "measures")
"""Fields whose value is a list; in all others a list are levels."""
NAMED = ("options",)
"""Fields whose value has keys; in all others they name levels or tasks."""
_WHERE_SAID = (
    *("objective", "kappa", "orthogonality", "start"),
    *("input_dropout", "embedding_dropout", "output_dropout"),
)
"""Fields that are coordinates of a dataset in which any row says something of them."""
_IF_VARIED = (
    "gradient_clip",
    "head",
    "read",
    "batch_size",
    "epochs",
    "embedding_width",
    "optimiser",
)
"""Fields that are coordinates of a dataset in which they vary."""
_VARIABLES = ("time_steps",)
"""Settings of tasks that are variables of every dataset."""


class Row(Job, Recipe, Dropout):
    """What is trained on what, and how.

    `epochs` or `steps` say how long; of `records` equally spaced measurements the last is at the end, and with `first_record` one is before
    training. `probe_size` training sequences are measured (0: all). Where the task draws its sequences, `test_draws` fresh ones
    test all networks of the task, and `validation_draws` validate them. A training ends, as completed, when its validation loss is
    below `stop_below`. `objective` is what a step minimises: the loss, ``coadjoint`` with weight `kappa`, ``orthogonal`` with weight
    `orthogonality`; parameters whose names match `frozen` stay as they begin. `measures` asks for more with every record, or before and after, of `measure_size` sequences;
    singular values are those of the last `stretch` steps (0: of all).
    """

    run: str = ""
    network: str
    label: str
    task_label: str
    task: dict[str, Any]
    cell: Architecture
    width: Positive
    hyper_parameters: dict[str, Any] = Field(default_factory=dict)
    start: str = "text"
    start_settings: dict[str, Any] = Field(default_factory=dict)
    head: Literal[tuple(HEADS)] = "library"
    read: Literal[("", *READS)] = ""
    embedding_width: Size = 0
    train_initial_state: bool = False
    records: Positive
    first_record: bool = False
    batch_size: Positive
    objective: Literal[tuple(WEIGHTS)] = "plain"
    kappa: Weight | None = None
    orthogonality: Weight | None = None
    frozen: tuple[str, ...] = ()
    stop_below: Weight = 0.0
    metric: Literal["", "squared error"] = ""
    probe_size: Size = 0
    test_draws: Size = 0
    validation_draws: Size = 0
    measures: tuple[Literal[MEASURES], ...] = ()
    measure_size: Size = 8
    stretch: Size = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"

    @classmethod
    def fields(cls) -> frozenset[str]:
        """Return the names that a table may give."""
        return frozenset(cls.model_fields) - {*_NAMES[:-1], *_MADE}

    @model_validator(mode="after")
    def _fits(self) -> "Row":
        check_task(self.task)
        cell_class(self.cell).checked(self.hyper_parameters, d=self.width)
        cell_class(self.cell).checked_start(self.start, self.start_settings)
        if task_draws(self.task) and not self.test_draws:
            raise ValueError(
                f"{self.task['task']} draws its sequences; give test_draws, how many to test on"
            )
        weight = WEIGHTS[self.objective]
        if weight and getattr(self, weight) is None:
            raise ValueError(f"the objective {self.objective} needs its weight; give {weight}")
        return self

    def identity(self) -> dict[str, Any]:
        return {name: value for name, value in self.values().items() if name not in _NAMES}

    def levels(self) -> dict[str, Any]:
        """Return what the row says of every factor: fields, keywords of its cell, settings of its task; nothing of the others."""
        said = self.values()
        fields = {name: said[name] for name in said if name in self.fields() - {"cell", "device"}}
        settings = {name: value for name, value in self.task.items() if name != "task"}
        return fields | settings | self.start_settings | self.hyper_parameters

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            (self.cell, f"{self.cell}/adjoints") if self.objective == "coadjoint" else (self.cell,)
        )

    @property
    def datasets(self) -> tuple[str, ...]:
        return (self.task["dataset"],) if "dataset" in self.task else ()

    @property
    def modules(self) -> tuple[str, ...]:
        return (task_module(self.task),)

    @property
    def size(self) -> float:
        return self.width * (self.epochs or self.steps)

    @property
    def title(self) -> str:
        return f"{self.run}, replicate {self.replicate}"


def coordinates(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return for each row of a dataset what it says of every factor that is a coordinate there: keywords, settings, and fields that tell rows apart."""
    fields = [
        *(
            f
            for f in _WHERE_SAID
            if any(getattr(r, f) != Row.model_fields[f].default for r in rows)
        ),
        *(f for f in _IF_VARIED if len({getattr(row, f) for row in rows}) > 1),
    ]
    found = []
    for row in rows:
        settings = {k: v for k, v in row.task.items() if k not in ("task", *_VARIABLES)}
        said = {name: getattr(row, name) for name in fields} | settings
        if "start" in said:  # one that belongs to the task goes without its name
            said["start"] = row.start.removeprefix(f"{row.task['task']}_")
        found.append(said | row.start_settings | row.hyper_parameters)
    return found
