"""Training settings of a run: optimizer, learning rate, length of training, objective."""

from collections.abc import Callable
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator

from study.config.section import LearningRate, Positive, Section, Size, Weight

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}
Optimizer = Literal["adam", "rmsprop", "sgd"]
PENALTY_WEIGHTS = {"plain": "", "coadjoint": "kappa", "orthogonal": "orthogonality"}
"""Name of the penalty's weight, by objective; empty for the plain loss, which has no penalty."""


class ParameterGroup(Section):
    """A parameter group with its own learning rate or optimizer.

    Attributes
    ----------
    names : str
        Glob pattern of the parameters' names in the model, such as ``cell.parametrizations.*``.
    factor : float
        The group's learning rate is `factor` times that of the recipe.
    optimizer : str, optional
        The group's optimizer; by default that of the recipe.
    """

    names: str
    factor: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    optimizer: Optimizer | None = None


class Recipe(Section):
    """Training settings of a run.

    Attributes
    ----------
    learning_rate : float
        Step size of the optimizer.
    optimizer : str
        ``adam``, ``rmsprop`` or ``sgd``.
    options : dict
        Further keyword arguments of the optimizer.
    epochs, steps : int
        Length of training; exactly one of the two is positive.
    drops : tuple of int
        Epochs (steps, if the length is given in `steps`) after which the learning rate is divided
        by ten.
    cosine : bool
        Whether to anneal the learning rate to zero along a cosine.
    gradient_clip : float
        The gradient's norm is clipped to this; 0 for no clipping.
    groups : tuple of ParameterGroup
        Parameter groups. A parameter belongs to the first group whose pattern matches its name.
    objective : str
        Training objective: ``plain`` (the loss), ``coadjoint`` (the loss plus `kappa` times the
        coadjoint penalty), or ``orthogonal`` (plus `orthogonality` times the orthogonal penalty).
    kappa, orthogonality : float, optional
        Weights of these penalties.
    stop_below : float
        Stop early, with status completed, once the validation loss is below this; 0 for never.
    """

    learning_rate: LearningRate
    optimizer: Optimizer = "adam"
    options: dict[Literal["eps", "fused", "weight_decay"], bool | float] = Field(
        default_factory=dict
    )
    epochs: Size = 0
    steps: Size = 0
    drops: tuple[Positive, ...] = ()
    cosine: bool = False
    gradient_clip: Weight = 0.0
    groups: tuple[ParameterGroup, ...] = ()
    objective: Literal["plain", "coadjoint", "orthogonal"] = "plain"
    kappa: Weight | None = None
    orthogonality: Weight | None = None
    stop_below: Weight = 0.0

    @model_validator(mode="after")
    def _can_train(self) -> Self:
        if (self.epochs > 0) == (self.steps > 0):
            raise ValueError(
                f"expected either epochs or steps above 0, got epochs {self.epochs} and steps "
                f"{self.steps}"
            )
        for name, value in self.options.items():
            if isinstance(value, bool) != (name == "fused"):
                kind = "true or false" if name == "fused" else "a number"
                raise ValueError(f"the option {name} is {value}; expected {kind}")
        if self.options:  # the first optimizer of a process takes a second, so only if needed
            self._check_options()
        weight = PENALTY_WEIGHTS[self.objective]
        if weight and getattr(self, weight) is None:
            raise ValueError(f"the objective {self.objective} needs its weight; give {weight}")
        return self

    def _check_options(self) -> None:
        """Raise a ValueError if the optimizer does not take the options."""
        try:
            OPTIMIZERS[self.optimizer]([torch.zeros(1)], lr=self.learning_rate, **self.options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.optimizer} does not take {self.options}: {error}") from None

    def total_steps(self, steps_per_epoch: int) -> int:
        """Return the number of optimizer steps of a whole run.

        Parameters
        ----------
        steps_per_epoch : int
            Batches per epoch.

        Returns
        -------
        int
        """
        if self.steps:
            return self.steps
        return self.epochs * steps_per_epoch
