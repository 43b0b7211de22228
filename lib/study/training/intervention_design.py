"""The design of the experiment on the backward pass (`study.training.interventions`)."""

from types import MappingProxyType
from typing import Literal, NamedTuple, Self

from pydantic import model_validator

from study.config.design import Design
from study.config.network import Architecture
from study.config.section import Factor, LearningRate, Positive, Size, Weight
from study.tasks.located_rows import Deviation, Location
from study.training.adjoint_treatments import AdjointTreatment

EXPERIMENT = "interventions"


class Treatment(NamedTuple):
    """How the gradient of a training step is computed.

    Attributes
    ----------
    adjoint : AdjointTreatment
    norms_alone : bool
        Whether the treated gradient only sets the norm of each parameter's gradient. The direction
        is then that of ordinary backpropagation.
    """

    adjoint: AdjointTreatment
    norms_alone: bool = False


PLAIN = AdjointTreatment()
"""Ordinary backpropagation."""
TREATMENTS = MappingProxyType(
    {
        "plain": Treatment(PLAIN),
        "dose -2": Treatment(AdjointTreatment("scaled", -2.0)),
        "dose -5": Treatment(AdjointTreatment("scaled", -5.0)),
        "dose -10": Treatment(AdjointTreatment("scaled", -10.0)),
        "dose -20": Treatment(AdjointTreatment("scaled", -20.0)),
        "dose -40": Treatment(AdjointTreatment("scaled", -40.0)),
        "renormalized": Treatment(AdjointTreatment("renormalized")),
        "random signs": Treatment(AdjointTreatment("random_signs")),
        "norms of dose -10": Treatment(AdjointTreatment("scaled", -10.0), norms_alone=True),
    }
)
"""Treatments by their names in tables and figures."""


class Interventions(Design):
    """The design: one job per cell and location, which trains all treatments and replicates.

    Attributes
    ----------
    cell, location : tuple of str
        Levels of the factors.
    dataset : str
        Prepared data set of square images with one channel.
    networks : int
        Number of replicates of every treatment.
    learning_rate : dict of str to float
        Learning rate of each cell. They were chosen for ordinary backpropagation, on other seeds.
    width, time_steps, batch_size, steps : int
        Recurrent dimension d, length T, sequences per step, optimizer steps.
    noise : float
        Standard deviation of the noise between the rows.
    gradient_clip : float
        The norm of a run's gradient is clipped to this; 0 for no clipping.
    train_size, validation_size, test_size : int
        Number of sequences of each split; 0 for all.
    metric_size : int
        Test sequences on which the adjoint metric is measured.
    """

    replicates: Literal[1] = 1  # `networks` says how many there are
    cell: Factor[Architecture]
    location: Factor[Location]
    networks: Positive
    learning_rate: dict[Architecture, LearningRate]
    dataset: str
    width: Positive
    time_steps: Positive
    noise: Deviation
    batch_size: Positive
    steps: Positive
    gradient_clip: Weight
    train_size: Size = 0
    validation_size: Positive
    test_size: Size = 0
    metric_size: Positive = 64

    @model_validator(mode="after")
    def _cells_have_a_learning_rate(self) -> Self:
        for cell in self.cell:
            if cell not in self.learning_rate:
                raise ValueError(f"learning_rate has no value for the cell {cell!r}; add one")
        return self

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the prepared data sets that the jobs of the design read."""
        return (self.dataset,)
