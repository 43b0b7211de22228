"""The section ``adding``: the adding problem, experiment 2.4."""

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from lib.run.params._section import LearningRate, Positive, Section, distinct


class AddingGrid(Section):
    """Trainings of which every level meets every other, each of `training_steps` batches."""

    architectures: tuple[str, ...] = Field(min_length=1)
    time_steps: tuple[Annotated[int, Field(ge=2)], ...] = Field(min_length=1)
    learning_rates: tuple[LearningRate, ...] = Field(min_length=1)
    training_steps: Positive

    @field_validator("architectures", "time_steps", "learning_rates")
    @classmethod
    def _no_repeats(cls, levels: tuple) -> tuple:
        return distinct(levels)

    def treatments(self) -> list[tuple[str, int, float]]:
        """Return every architecture, length and learning rate of the grid."""
        return [
            (architecture, length, rate)
            for architecture in self.architectures
            for length in self.time_steps
            for rate in self.learning_rates
        ]


class AddingSection(Section):
    """Which networks are trained on the adding problem, and how.

    `tau` is the LU RNN's and the inverse RNN's. Gradients longer than `clip` are shortened to it. The mean squared
    error on `test_size` sequences is measured at `checkpoints` equally spaced steps, the adjoint states of `probe_size`
    sequences before and after training.
    """

    grids: tuple[AddingGrid, ...] = Field(min_length=1)
    replicates: Positive
    width: Positive
    tau: Positive
    batch_size: Positive
    clip: Annotated[float, Field(gt=0)]
    checkpoints: Positive
    test_size: Positive
    probe_size: Positive
    flush_denormals: bool

    @model_validator(mode="after")
    def _whole(self) -> Self:
        treatments = [treatment for grid in self.grids for treatment in grid.treatments()]
        if len(set(treatments)) != len(treatments):
            raise ValueError("a treatment stands in two grids; every one may be planned once")
        for grid in self.grids:
            if grid.training_steps < self.checkpoints:
                raise ValueError(
                    f"training_steps is {grid.training_steps}; expected at least one step for each of the "
                    f"{self.checkpoints} checkpoints"
                )
        return self
