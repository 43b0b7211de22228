"""How a network is trained: optimizer, learning rate, length of training, objective."""

from collections.abc import Callable
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator

from study.config.section import LearningRate, Positive, Section, Size, Weight

OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}
Optimiser = Literal["adam", "rmsprop", "sgd"]
WEIGHTS = {"plain": "", "coadjoint": "kappa", "orthogonal": "orthogonality"}
"""The weight that each objective needs, by the objective's name."""


class Group(Section):
    """Parameters with their own step.

    Attributes
    ----------
    names : str
        Pattern of their names in the model, such as ``cell.parametrizations.*``.
    factor : float
        Factor of the learning rate.
    optimiser : str, optional
        Their optimizer; by default the recipe's.
    """

    names: str
    factor: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    optimiser: Optimiser | None = None


class Recipe(Section):
    """How a network is trained.

    Attributes
    ----------
    learning_rate : float
        Step size of the optimizer.
    optimiser : str
        ``adam``, ``rmsprop`` or ``sgd``.
    options : dict
        Further keywords of the optimizer.
    epochs, steps : int
        Length of training; exactly one of the two is positive.
    drops : tuple of int
        Epochs (or steps, if `steps` counts) after which the learning rate falls to a tenth.
    cosine : bool
        Whether the learning rate falls to zero along a cosine.
    gradient_clip : float
        Largest norm of the gradient; 0 for no limit.
    groups : tuple of Group
        Parameters with their own step. A parameter belongs to the first group whose pattern it
        matches.
    objective : str
        What a step minimizes: ``plain`` (the loss), ``coadjoint`` with weight `kappa`, or
        ``orthogonal`` with weight `orthogonality`.
    kappa, orthogonality : float, optional
        Weights of these objectives.
    stop_below : float
        Training ends, as completed, once the validation loss is below this; 0 for never.
    """

    learning_rate: LearningRate
    optimiser: Optimiser = "adam"
    options: dict[Literal["eps", "fused", "weight_decay"], bool | float] = Field(
        default_factory=dict
    )
    epochs: Size = 0
    steps: Size = 0
    drops: tuple[Positive, ...] = ()
    cosine: bool = False
    gradient_clip: Weight = 0.0
    groups: tuple[Group, ...] = ()
    objective: Literal["plain", "coadjoint", "orthogonal"] = "plain"
    kappa: Weight | None = None
    orthogonality: Weight | None = None
    stop_below: Weight = 0.0

    @model_validator(mode="after")
    def _can_train(self) -> Self:
        if (self.epochs > 0) == (self.steps > 0):
            raise ValueError(f"expected either epochs or steps, got {self.epochs} and {self.steps}")
        for name, value in self.options.items():
            if isinstance(value, bool) != (name == "fused"):
                kind = "true or false" if name == "fused" else "a number"
                raise ValueError(f"the option {name} is {value}; expected {kind}")
        try:
            OPTIMISERS[self.optimiser]([torch.zeros(1)], lr=self.learning_rate, **self.options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.optimiser} does not take {self.options}: {error}") from None
        weight = WEIGHTS[self.objective]
        if weight and getattr(self, weight) is None:
            raise ValueError(f"the objective {self.objective} needs its weight; give {weight}")
        return self

    def total(self, epoch: int) -> int:
        """Return the number of steps, for epochs of so many batches each."""
        return self.steps or self.epochs * epoch
