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
        Time step of the input whose sign is the label.
    horizon : int
        Length of the training sequences.
    longer : tuple of int
        Longer sequences, for which only the output layer is refitted.
    learning_rate, batch_size, clip : number
        Step size, sequences per step, and gradient norm to clip to.
    training_steps : int
        Largest number of optimizer steps.
    check_every, check_size, tolerance : number
        Every `check_every` steps, the error is measured on `check_size` new sequences. Training
        stops once the error is below half of `tolerance`.
    fit_size, test_size : int
        Number of sequences to fit the output layers on, and to measure the errors on.
    probe_size : int
        Number of test sequences whose states are recorded at every time step.
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
                "expected place below horizon, and longer above horizon in increasing order, got "
                f"place {self.place}, horizon {self.horizon} and longer {list(self.longer)}"
            )
        if self.probe_size > self.test_size:
            raise ValueError(
                f"probe_size is {self.probe_size}; expected at most test_size, {self.test_size}"
            )
        return self
