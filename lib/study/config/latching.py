"""Settings of the latching experiment (dissertation, sections 3.3.2 and 3.6)."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from study.config.design import Design
from study.config.section import LearningRate, Positive, PositiveDraws


class Latching(Design):
    """Independent runs of the basic RNN on the long time gap task.

    Attributes
    ----------
    width : int
        Recurrent dimension d.
    place : int
        Time of the input whose sign is the label.
    horizon : int
        Length of the training sequences.
    longer : tuple of int
        Lengths for which only the output layer is trained again.
    learning_rate, batch_size, clip : number
        Step size, sequences per step, and largest norm of the gradient.
    training_steps : int
        Steps after which a run ends at the latest.
    check_every, check_size, tolerance : number
        Every so many steps the error on so many fresh sequences is measured. The run ends once it
        is below half the tolerance.
    fit_size, test_size : int
        Sequences that the output layers are fitted to, and sequences that measure the errors.
    probe_size : int
        Test sequences that are followed step by step.
    """

    width: Positive
    place: Positive
    horizon: Positive
    longer: tuple[Positive, ...]
    learning_rate: LearningRate
    training_steps: Positive
    batch_size: Positive
    clip: Annotated[float, Field(gt=0, le=1e9)]
    tolerance: Annotated[float, Field(gt=0, lt=0.5)]
    check_every: Positive
    check_size: PositiveDraws
    fit_size: PositiveDraws
    test_size: PositiveDraws
    probe_size: PositiveDraws

    @property
    def horizons(self) -> tuple[int, ...]:
        """All lengths of sequences, the shortest first."""
        return (self.horizon, *self.longer)

    @model_validator(mode="after")
    def _lengths_increase(self) -> Self:
        lengths = (self.place, *self.horizons)
        if lengths != tuple(sorted(set(lengths))):
            raise ValueError(
                "expected the place before the end of the horizon, and lengths above it, each "
                f"longer than the last, got {self.place}, {self.horizon} and {list(self.longer)}"
            )
        if self.probe_size > self.test_size:
            raise ValueError(
                f"probe_size is {self.probe_size}; expected at most test_size, {self.test_size}"
            )
        return self
