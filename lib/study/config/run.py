"""One run of `params.yaml`, with every level in its place."""

from typing import Any, Literal, Self

from longrnn.cells import cell_class
from pydantic import model_validator

from study.config.measurement import Measurement
from study.config.network import Network
from study.config.recipe import Recipe
from study.config.section import Positive, Section
from study.config.task import TaskSpec

LAST_STATE_ONLY = frozenset({"coadjoint", "gains", "penalty", "adjoint_curve", "trajectories"})
"""Objectives and measures that backpropagate from the last state only."""


PARTS: dict[str, type[Section]] = {
    "network": Network,
    "recipe": Recipe,
    "measurement": Measurement,
}
"""Parts of a run whose fields are settings of `params.yaml`."""


class RunConfig(Section):
    """One network on one task by one recipe, measured in one way.

    The four names are for people: they are printed and plotted, and no result depends on them.

    Attributes
    ----------
    run : str
        Name of the run, unique in its group.
    network_name : str
        The network's name in `params.yaml`.
    label : str
        What tables call the network: its name and the levels of what is swept.
    task_label : str
        What tables call the task.
    task : TaskSpec
    network : Network
    recipe : Recipe
    measurement : Measurement
    batch_size : int
        Sequences per training step.
    device : str
        ``auto``, ``cpu`` or ``cuda``.
    replicates : int
        Number of runs, which differ in their random numbers alone.
    """

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
        """Refuse combinations that can't be trained, as far as the data are not needed."""
        network, recipe, measurement = self.network, self.recipe, self.measurement
        cell = cell_class(network.cell)
        cell.checked(network.hyper_parameters, d=network.width)
        cell.checked_start(network.start, network.start_settings)
        if recipe.steps and measurement.records > recipe.steps:
            raise ValueError(
                f"{measurement.records} records do not fit {recipe.steps} steps; ask for fewer"
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
    def settings(self) -> dict[str, Any]:
        """Settings of the task, the initial weights and the cell, by name."""
        network = self.network
        return {**self.task.settings, **network.start_settings, **network.hyper_parameters}

    def flat(self) -> dict[str, Any]:
        """Return everything a result depends on in one dictionary of JSON values.

        Names for people and the number of replicates are left out. This is the form in which the
        settings of a run are stored with a dataset.
        """
        return {
            **self.recipe.model_dump(mode="json"),
            **self.network.model_dump(mode="json"),
            **self.measurement.model_dump(mode="json"),
            "task": self.task.flat(),
            "batch_size": self.batch_size,
            "device": self.device,
        }

    def levels(self) -> dict[str, Any]:
        """Return the level of every factor that may distinguish two runs of a network."""
        nested = ("cell", "device", "task", "hyper_parameters", "start_settings")
        levels = {name: value for name, value in self.flat().items() if name not in nested}
        return levels | self.settings
