"""The section ``latching``: what a small network that remembers one sign has learned (3.3.2 and 3.6)."""

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from lib.run.params._section import LearningRate, Positive, Section, distinct


class LatchingSection(Section):
    """Independent trainings of the basic RNN on the long time gap task, and longer tasks for its output layer.

    The label is the sign of the input at `place`; `horizon` is the length of the training sequences, `longer` are those
    for which only the output layer is trained again. A training ends when the error on `check_size` fresh sequences is below
    half the `tolerance`, looked up every `check_every` steps, or after `training_steps`. Gradients longer than `clip` are
    shortened to it. The output layers are fitted to `fit_size` sequences, errors are those of `test_size` others, and
    `probe_size` of these are followed step by step.
    """

    trainings: Positive
    width: Positive
    place: Positive
    horizon: Positive
    longer: tuple[Positive, ...]
    learning_rate: LearningRate
    training_steps: Positive
    batch_size: Positive
    clip: Annotated[float, Field(gt=0)]
    tolerance: Annotated[float, Field(gt=0, lt=0.5)]
    check_every: Positive
    check_size: Positive
    fit_size: Positive
    test_size: Positive
    probe_size: Positive
    flush_denormals: bool

    @field_validator("longer")
    @classmethod
    def _no_repeats(cls, levels: tuple) -> tuple:
        return distinct(levels)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.place < self.horizon:
            raise ValueError(
                f"place is {self.place}; expected it before the end of the sequence, {self.horizon}"
            )
        if min(self.longer, default=self.horizon + 1) <= self.horizon:
            raise ValueError(
                f"longer is {list(self.longer)}; expected lengths above the horizon, {self.horizon}"
            )
        if self.probe_size > self.test_size:
            raise ValueError(
                f"probe_size is {self.probe_size}; expected at most test_size, {self.test_size}"
            )
        return self
