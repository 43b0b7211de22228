"""All settings of one run: `RunConfig`, the result of expanding `params.yaml`."""

from typing import Any, ClassVar, Literal, Self

from longrnn.cells import cell_class
from pydantic import model_validator

from study.config.measurement import Measurement
from study.config.network import Network
from study.config.recipe import Recipe
from study.config.section import Positive, Section
from study.config.task import TaskSpec

LAST_STATE_ONLY = frozenset({"coadjoint", "gains", "penalty", "adjoint_curve", "trajectories"})
"""Objectives and measures that only support backpropagation from the last state."""


PARTS: dict[str, type[Section]] = {
    "network": Network,
    "recipe": Recipe,
    "measurement": Measurement,
}
"""The parts of a `RunConfig` whose fields are settings in `params.yaml`."""


class RunConfig(Section):
    """All settings of one run: network, task, recipe and measurement.

    The names `run`, `network_name`, `label` and `task_label` are only displayed; no result depends
    on them.

    Attributes
    ----------
    run : str
        Name of the run, unique in its group.
    network_name : str
        The network's name in `params.yaml`.
    label : str
        The network's label in tables: its name and the levels of its swept settings.
    task_label : str
        The task's label in tables.
    task : TaskSpec
    network : Network
    recipe : Recipe
    measurement : Measurement
    batch_size : int
        Sequences per training step.
    device : str
        ``auto``, ``cpu`` or ``cuda``.
    replicates : int
        Number of runs with different random seeds.
    """

    if_missing: ClassVar[str] = "add it to set, here or in the defaults of the group"
    run: str = ""
    network_name: str
    label: str
    task_label: str
    task: TaskSpec
    network: Network
    recipe: Recipe
    measurement: Measurement
    batch_size: Positive
    device: Literal["auto", "cpu", "cuda"] = "auto"
    replicates: Positive = 1

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        """Refuse combinations of settings that can't be trained; needs no data."""
        network = self.network
        recipe = self.recipe
        measurement = self.measurement
        cell = cell_class(network.cell)
        cell.checked(network.hyper_parameters, d=network.width)
        cell.checked_start(network.start, network.start_settings)
        if recipe.steps and measurement.records > recipe.steps:
            raise ValueError(
                f"{measurement.records} records do not fit into {recipe.steps} steps; use fewer"
            )
        has_dropout = network.output_dropout or network.hyper_parameters.get("dropout")
        if recipe.objective == "coadjoint" and has_dropout:
            raise ValueError(
                "the coadjoint objective does not support output or layer dropout; remove it"
            )
        last_only = LAST_STATE_ONLY & {recipe.objective, *measurement.measures}
        if network.read and last_only:
            raise ValueError(
                f"{min(last_only)!r} only supports reading the last state; remove `read`"
            )
        return self

    @property
    def job_count(self) -> int:
        """Number of jobs: one for each replicate."""
        return self.replicates

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the prepared data sets that the jobs of the run read."""
        if "dataset" in self.task.settings:
            return (self.task.settings["dataset"],)
        return ()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the task, of the initial weights and of the cell, in one dictionary."""
        network = self.network
        return {**self.task.settings, **network.start_settings, **network.hyper_parameters}

    def flat_settings(self) -> dict[str, Any]:
        """Return all settings that a result depends on, as one dictionary of JSON values.

        The displayed names and the number of replicates are left out. The settings of a run are
        stored with a dataset in this form.

        Returns
        -------
        dict
            JSON values by name.
        """
        return {
            **self.recipe.model_dump(mode="json"),
            **self.network.model_dump(mode="json"),
            **self.measurement.model_dump(mode="json"),
            "task": self.task.flat_settings(),
            "batch_size": self.batch_size,
            "device": self.device,
        }

    def levels(self) -> dict[str, Any]:
        """Return all settings in which two runs of the same network may differ.

        Returns
        -------
        dict
            JSON values by name.
        """
        nested = ("cell", "device", "task", "hyper_parameters", "start_settings")
        levels = {name: value for name, value in self.flat_settings().items() if name not in nested}
        return levels | self.settings
