"""The one way to train: batches, an optimiser, what is recorded and when, and a state to go on from."""

import copy
import fnmatch
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from lib.probes import Diverged
from lib.results.schema import COMPLETED, DIVERGED
from lib.training.batches import Batches
from lib.training.outcome import Fit
from lib.training.resume import Resume

Objective = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""Maps a model, inputs and targets of a batch to the number that is minimised."""
Row = Mapping[str, float]

OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}


@dataclass(frozen=True)
class Group:
    """Parameters with a step of their own.

    Attributes
    ----------
    names
        Pattern of their names in the model, such as ``cell.parametrizations.*``.
    factor
        Of the learning rate.
    optimiser
        One of `OPTIMISERS`.
    """

    names: str
    factor: float = 1.0
    optimiser: str = "adam"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is trained.

    Attributes
    ----------
    learning_rate, optimiser, options
        Step of the optimiser, its name among `OPTIMISERS`, and further keywords of it.
    epochs, steps
        How long; one of the two.
    drops, drop_factor
        Epochs (or steps, where those count) after which the learning rate is multiplied by the factor.
    cosine
        Whether the learning rate falls to zero along a cosine.
    clip
        Largest norm of the gradient; 0 for any.
    groups
        Parameters with another step; a parameter belongs to the first group whose pattern it matches.
    """

    learning_rate: float
    optimiser: str = "adam"
    options: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = 0
    steps: int = 0
    drops: tuple[int, ...] = ()
    drop_factor: float = 0.1
    cosine: bool = False
    clip: float = 0.0
    groups: tuple[Group, ...] = ()

    def __post_init__(self) -> None:
        if (self.epochs > 0) == (self.steps > 0):
            raise ValueError(
                f"expected either epochs or steps of training, got {self.epochs} and {self.steps}"
            )
        for name in {self.optimiser, *(group.optimiser for group in self.groups)}:
            if name not in OPTIMISERS:
                raise ValueError(
                    f"expected an optimiser among {', '.join(OPTIMISERS)}, got {name!r}"
                )

    def total(self, epoch: int) -> int:
        """Return the number of steps, for epochs of so many batches each."""
        if self.epochs and not epoch:
            raise ValueError("the task has no epochs, its sequences are drawn; give steps instead")
        return self.steps or self.epochs * epoch


@dataclass(frozen=True)
class Record:
    """What is measured in training, and when.

    Attributes
    ----------
    measure
        Returns numbers by name; one that is ``nan`` ends the training as diverged, ``-inf`` is a number here.
    steps
        After how many steps; 0 is before the first.
    keep
        The figure of merit of a row: the model with the largest, the last of equals, is kept.
    stop
        Whether a row ends the training, as completed.
    """

    measure: Callable[[nn.Module], Row]
    steps: Iterable[int]
    keep: Callable[[Row], float] | None = None
    stop: Callable[[Row], bool] | None = None


def every_epoch(recipe: Recipe, batches: Batches) -> range:
    """Return the steps after which an epoch is over."""
    return range(batches.epoch, recipe.total(batches.epoch) + 1, batches.epoch)


def fit(
    model: nn.Module,
    batches: Batches,
    recipe: Recipe,
    objective: Objective,
    record: Record,
    *,
    finite: str = "loss",
    resume: Resume | None = None,
) -> Fit:
    """Train a model in place.

    Parameters
    ----------
    model
        Its parameters that require a gradient are trained.
    batches
        Where inputs and targets come from.
    recipe
        Optimiser, length, clipping.
    objective
        What is minimised.
    record
        What is measured, and when; the last step need not be among them.
    finite
        What must stay finite, or the training has diverged: ``loss``, ``gradients`` (and the loss), or ``nothing``. On a GPU the loss is
        looked at with every recorded row, not at every step: reading it would stop the device.
    resume
        Where the state is kept every few minutes, and found again by the next call; with it the training ends with the
        same bits as without.

    Returns
    -------
    Fit

    Notes
    -----
    An `ArithmeticError`, from the objective or a measurement, ends the training as diverged: divergence is a result.
    """
    if finite not in ("loss", "gradients", "nothing"):
        raise ValueError(f"expected finite to be loss, gradients or nothing, got {finite!r}")
    total = recipe.total(batches.epoch)
    optimisers, schedules = _optimisers(model, recipe, total, batches.epoch)
    parameters = [p for p in model.parameters() if p.requires_grad]
    on_gpu = parameters[0].is_cuda
    at = set(record.steps)
    done = Fit(COMPLETED, 0, [])
    moving = {"optimisers": optimisers, "schedules": schedules}
    if resume is not None:
        resume.load(model, moving, batches, done)
    seen = torch.zeros((), device=parameters[0].device)

    try:
        if 0 in at and not done.rows:
            _row(model, record, done)
        while done.steps < total:
            inputs, targets = batches.next()
            for optimiser in optimisers:
                optimiser.zero_grad()
            loss = objective(model, inputs, targets)
            if finite != "nothing":
                if on_gpu:
                    seen += loss.detach()
                else:
                    _check(loss, "the loss of a batch")
            loss.backward()
            if finite == "gradients":
                for parameter in parameters:
                    if parameter.grad is not None:
                        _check(parameter.grad, "a gradient")
            if recipe.clip:
                nn.utils.clip_grad_norm_(parameters, recipe.clip)
            for moved in (*optimisers, *schedules):
                moved.step()
            done.steps += 1
            if done.steps in at:
                if on_gpu:
                    _check(seen, "the sum of the losses")
                _row(model, record, done)
                if record.stop is not None and record.stop(done.rows[-1]):
                    break
            if resume is not None:
                resume.save_if_due(model, moving, batches, done, total)
    except ArithmeticError:
        done.status = DIVERGED
    return done


def _row(model: nn.Module, record: Record, done: Fit) -> None:
    row = {name: float(value) for name, value in record.measure(model).items()}
    if bad := [name for name, value in row.items() if math.isnan(value)]:
        raise Diverged(f"{bad[0]} is not a number after {done.steps} steps")
    row["step"] = done.steps
    done.rows.append(row)
    if record.keep is not None and (
        done.kept is None or record.keep(row) >= record.keep(done.kept[0])
    ):
        done.kept = row, copy.deepcopy(model.state_dict())


def _check(values: Tensor, what: str) -> None:
    if not torch.isfinite(values).all():
        raise Diverged(f"{what} is not finite")


def _optimisers(
    model: nn.Module, recipe: Recipe, total: int, epoch: int
) -> tuple[list[torch.optim.Optimizer], list[torch.optim.lr_scheduler.LRScheduler]]:
    """Return an optimiser for each kind that the recipe's groups name, and what changes their learning rates."""
    groups = (*recipe.groups, Group("*", optimiser=recipe.optimiser))
    members: dict[str, dict[Group, list[nn.Parameter]]] = {}
    matched = set()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            group = next(group for group in groups if fnmatch.fnmatchcase(name, group.names))
            matched.add(group)
            members.setdefault(group.optimiser, {}).setdefault(group, []).append(parameter)
    if idle := [group.names for group in recipe.groups if group not in matched]:
        names = ", ".join(name for name, _ in model.named_parameters())
        raise ValueError(f"no parameter is called {idle[0]!r}; the model has {names}")
    optimisers, schedules = [], []
    for kind, parts in members.items():
        own = [
            {"params": chosen, "lr": recipe.learning_rate * group.factor}
            for group, chosen in parts.items()
        ]
        options = recipe.options if kind == recipe.optimiser else {}
        optimiser = OPTIMISERS[kind](own, lr=recipe.learning_rate, **options)
        optimisers.append(optimiser)
        if recipe.cosine:
            schedules.append(torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, total))
        if recipe.drops:
            steps = [drop * (epoch if recipe.epochs else 1) for drop in recipe.drops]
            schedules.append(
                torch.optim.lr_scheduler.MultiStepLR(optimiser, steps, recipe.drop_factor)
            )
    return optimisers, schedules
