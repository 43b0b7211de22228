"""The section ``linear_gaps``: linear networks on the long time gap task (experiment 2.2)."""

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from lib.run.params._section import LearningRate, Positive, Section, distinct

Weight = Annotated[float, Field(ge=0)]


class LinearGapsSection(Section):
    """Experiment 2.2 of the dissertation and its appendix A3.1.

    `places` are the deciding inputs t*, `orthogonality` the weights of the soft orthogonal penalty (0 is
    training without it). Each combination is trained `replicates` times.
    """

    width: Positive
    time_steps: Positive
    places: tuple[Positive, ...] = Field(min_length=1)
    orthogonality: tuple[Weight, ...] = Field(min_length=1)
    replicates: Positive
    steps: Positive
    batch_size: Positive
    learning_rate: LearningRate
    test_size: Positive

    @field_validator("places", "orthogonality")
    @classmethod
    def _no_repeats(cls, levels: tuple) -> tuple:
        return distinct(levels)

    @model_validator(mode="after")
    def _places_inside(self) -> "LinearGapsSection":
        if max(self.places) > self.time_steps:
            raise ValueError(
                f"expected places among 1..{self.time_steps}, the time steps, got {max(self.places)}"
            )
        return self
