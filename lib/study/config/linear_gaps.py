"""Settings of experiment 2.2, linear networks on the long time gap task (dissertation, 2.5)."""

from typing import Literal, Self

from pydantic import model_validator

from study.config.design import Design
from study.config.section import Factor, LearningRate, Positive, PositiveDraws, Weight


class LinearGaps(Design):
    """Experiment 2.2 of the dissertation and its appendix A3.1.

    Attributes
    ----------
    replicates : int
        Always 1; `networks` is the number of networks.
    place : tuple of int
        Time step t* of the input that decides the label.
    orthogonality : tuple of float
        Weight of the soft orthogonal penalty; 0 for no penalty.
    networks : int
        Number of networks per combination of factors; they are trained in parallel.
    width, time_steps : int
        Recurrent dimension d, and length T of the sequences.
    steps, batch_size, learning_rate : number
        Length of training, sequences per step, and step size.
    test_size : int
        Test sequences.
    """

    replicates: Literal[1] = 1
    place: Factor[Positive]
    orthogonality: Factor[Weight]
    width: Positive
    time_steps: Positive
    networks: Positive
    steps: Positive
    batch_size: Positive
    learning_rate: LearningRate
    test_size: PositiveDraws

    @model_validator(mode="after")
    def _places_are_inside(self) -> Self:
        if max(self.place) > self.time_steps:
            raise ValueError(
                f"expected every place in 1..{self.time_steps}, the time steps, got "
                f"{max(self.place)}"
            )
        return self
