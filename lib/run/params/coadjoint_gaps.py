"""The section ``coadjoint_gaps``: growing coadjoint penalties on the long time gap task (Figure 2.3)."""

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from lib.run.params._section import LearningRate, Positive, Section, distinct

Kappa = Annotated[float, Field(ge=0)]


class CoadjointGapsSection(Section):
    """Figure 2.3 of the dissertation: basic RNNs on LTG`place`, trained by the coadjoint method.

    `kappas` are the weights of the penalty (2.20), 0 is backpropagation. Training looks at `check_size` sequences
    every `check_every` steps; `probe_size` sequences are followed through the trained network.
    """

    width: Positive
    time_steps: Positive
    place: Positive
    kappas: tuple[Kappa, ...] = Field(min_length=1)
    replicates: Positive
    steps: Positive
    batch_size: Positive
    learning_rate: LearningRate
    check_every: Positive
    check_size: Positive
    probe_size: Positive

    @field_validator("kappas")
    @classmethod
    def _no_repeats(cls, levels: tuple) -> tuple:
        return distinct(levels)

    @model_validator(mode="after")
    def _fits(self) -> "CoadjointGapsSection":
        if self.place > self.time_steps:
            raise ValueError(
                f"expected a place among 1..{self.time_steps}, the time steps, got {self.place}"
            )
        if self.steps % self.check_every:
            raise ValueError(
                f"expected steps to be a multiple of check_every={self.check_every}, got {self.steps}"
            )
        return self
