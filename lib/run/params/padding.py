"""The section ``padding``: padded images and five ways to train on them (experiment 2.3)."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from lib.run.params._section import LearningRate, Positive, Section, distinct

METHODS = ("adjoint", "coadjoint", "constrained", "lstm", "reservoir", "linear")
"""Table 2.1 of the dissertation, and the linear RNN trained like `adjoint`."""
INITIALISATIONS = ("orthogonal", "glorot")
IMAGES = ("digits", "fashion_mnist", "mnist")

Padding = Annotated[int, Field(ge=0)]
Weight = Annotated[float, Field(ge=0)]


class PaddingGrid(Section):
    """Attempts of which every level meets every other."""

    datasets: tuple[Literal[IMAGES], ...] = Field(min_length=1)
    paddings: tuple[Padding, ...] = Field(min_length=1)
    methods: tuple[Literal[METHODS], ...] = Field(min_length=1)
    widths: tuple[Positive, ...] = Field(min_length=1)
    replicates: Positive

    @field_validator("datasets", "paddings", "methods", "widths")
    @classmethod
    def _no_repeats(cls, levels: tuple) -> tuple:
        return distinct(levels)


class KappaSweep(Section):
    """Figure A2: one data set and width, and every weight kappa of the coadjoint penalty."""

    dataset: Literal[IMAGES]
    paddings: tuple[Padding, ...] = Field(min_length=1)
    width: Positive
    initialisations: tuple[Literal[INITIALISATIONS], ...] = Field(min_length=1)
    kappas: tuple[Weight, ...] = Field(min_length=1)
    replicates: Positive

    @field_validator("paddings", "initialisations", "kappas")
    @classmethod
    def _no_repeats(cls, levels: tuple) -> tuple:
        return distinct(levels)


class PaddingSection(Section):
    """Experiment 2.3 of the dissertation and its appendix A3.2.

    `kappa` weighs the coadjoint penalty in the `grids`, `orthogonality` the penalty of the method
    ``constrained``; `input_scale` multiplies the initial input weights of the RNNs. Sizes of 0 mean "all of the data
    set"; `probe_size` training sequences are measured after every epoch, and the adjoint states of
    `adjoint_size` test sequences at the end.
    """

    grids: tuple[PaddingGrid, ...] = Field(min_length=1)
    sweep: KappaSweep
    kappa: Weight
    orthogonality: Weight
    input_scale: Annotated[float, Field(gt=0)]
    learning_rates: dict[Literal[METHODS], LearningRate]
    epochs: Positive
    batch_size: Positive
    train_size: int = Field(ge=0)
    test_size: int = Field(ge=0)
    probe_size: int = Field(ge=0)
    adjoint_size: Positive

    @model_validator(mode="after")
    def _every_method_has_a_rate(self) -> "PaddingSection":
        used = {"adjoint", "coadjoint"}.union(*(grid.methods for grid in self.grids))
        if missing := sorted(used - set(self.learning_rates)):
            raise ValueError(f"expected a learning rate for the method {missing[0]!r}, got none")
        return self
