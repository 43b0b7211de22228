"""The section ``study``: the factorial experiment."""

from typing import Literal

from pydantic import Field, field_validator

from lib.run.params._section import LearningRate, Positive, Section, distinct

ORDERS = ("sequential", "permuted")
NOISES = ("none", "post", "uniform")


class StudySection(Section):
    """The factorial design (dissertation, Table 1.2) and how its attempts are trained.

    Sizes of 0 mean "all of the data set" (`probe_size`: sequences of either split measured after an
    epoch).
    """

    architectures: tuple[str, ...] = Field(min_length=1)
    widths: tuple[Positive, ...] = Field(min_length=1)
    learning_rates: tuple[LearningRate, ...] = Field(min_length=1)
    training_lengths: tuple[Positive, ...] = Field(min_length=1)
    orders: tuple[Literal[ORDERS], ...] = Field(min_length=1)
    noises: tuple[Literal[NOISES], ...] = Field(min_length=1)
    replicates: Positive
    train_size: int = Field(ge=0)
    test_size: int = Field(ge=0)
    probe_size: int = Field(ge=0)
    batch_size: Positive
    probe_batch_size: Positive
    embedding_width: Positive
    device: Literal["auto", "cpu", "cuda"]
    flush_denormals: bool
    attempts_per_block: Positive

    @field_validator(
        "architectures", "widths", "learning_rates", "training_lengths", "orders", "noises"
    )
    @classmethod
    def _no_repeats(cls, levels: tuple) -> tuple:
        return distinct(levels)
