"""The one way to train: batches, an optimiser, what is recorded and when, and a state to go on from."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from lib.probes import Diverged
from lib.results.schema import COMPLETED, DIVERGED
from lib.run.params import LearningRate, Positive, Section, Size, Weight
from lib.training.batches import Batches
from lib.training.model import matched
from lib.training.resume import Fit, Resume
from lib.training.together import Together

Objective = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""Maps a model, inputs and targets of a batch to the number that is minimised."""
Recorded = Mapping[str, float]
"""What is measured at one time, by name."""

OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}
_FLAGS = ("amsgrad", "centered", "fused", "nesterov")
_Option = Literal["alpha", "betas", "dampening", "eps", "momentum", "weight_decay", *_FLAGS]
_Numbers = Annotated[tuple[float, ...], Field(strict=False)]  # or a list of them
Optimiser = Literal[tuple(OPTIMISERS)]


class Group(Section):
    """Parameters with a step of their own: the pattern of their names in the model, such as ``cell.parametrizations.*``, the
    factor of the learning rate, and the optimiser."""

    names: str
    factor: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    optimiser: Optimiser = "adam"


class Recipe(Section):
    """How a model is trained: by one of the `OPTIMISERS`, of which `options` are further keywords, for so many `epochs` or `steps`.

    After each of the `drops`, epochs or steps as those count, the learning rate is multiplied by `drop_factor`; with `cosine` it falls to
    zero along a cosine. `gradient_clip` is the largest norm of the gradient, 0 for any. Parameters of `groups` have another step; one
    belongs to the first group whose pattern it matches.
    """

    learning_rate: LearningRate
    optimiser: Optimiser = "adam"
    options: dict[_Option, bool | float | _Numbers] = Field(default_factory=dict)
    epochs: Size = 0
    steps: Size = 0
    drops: tuple[Positive, ...] = ()
    drop_factor: Annotated[float, Field(gt=0, lt=1)] = 0.1
    cosine: bool = False
    gradient_clip: Weight = 0.0
    groups: tuple[Group, ...] = ()

    @model_validator(mode="after")
    def _can_train(self) -> Self:
        if (self.epochs > 0) == (self.steps > 0):
            raise ValueError(f"expected either epochs or steps, got {self.epochs} and {self.steps}")
        for name, value in self.options.items():
            if isinstance(value, bool) != (name in _FLAGS):
                kind = "true or false" if name in _FLAGS else "a number, betas two"
                raise ValueError(f"the option {name} is {value}; expected {kind}")
        try:
            OPTIMISERS[self.optimiser]([torch.zeros(1)], lr=self.learning_rate, **self.options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.optimiser} does not take {self.options}: {error}") from None
        return self

    def total(self, epoch: int) -> int:
        """Return the number of steps, for epochs of so many batches each."""
        if self.epochs and not epoch:
            raise ValueError("the task has no epochs, its sequences are drawn; give steps instead")
        return self.steps or self.epochs * epoch


@dataclass(frozen=True)
class Record:
    """What is measured in training, a row of numbers by name, and after how many steps: 0 is before the first, the last need not be there.

    A number that is ``nan`` ends the training as diverged, ``-inf`` is a number here; a row of which `stop` is true ends it as completed.
    `keep` is the figure of merit of a row: the model with the largest, the last of equals, is kept.
    """

    measure: Callable[[nn.Module], Recorded]
    steps: Iterable[int]
    keep: Callable[[Recorded], float] | None = None
    stop: Callable[[Recorded], bool] | None = None


NOTHING = Record(lambda model: {}, ())
"""Of a training that is measured when it is over."""


def every_epoch(recipe: Recipe, batches: Batches) -> range:
    """Return the steps after which an epoch is over."""
    return range(batches.epoch, recipe.total(batches.epoch) + 1, batches.epoch)


@dataclass(eq=False, kw_only=True)
class Training:
    """What is trained, on what, how, and what is recorded (see `fit`); and how far it is."""

    model: nn.Module
    batches: Batches
    recipe: Recipe
    record: Record = NOTHING
    resume: Resume | None = None

    def begin(self, finite: str) -> None:
        """Make the optimisers, and take up the state where one is kept."""
        self._finite, self._at, self.failure = finite, set(self.record.steps), None
        epoch = self.batches.epoch
        self._total = self.recipe.total(epoch)
        optimisers, schedules = _optimisers(self.model, self.recipe, self._total, epoch)
        self._moving = {"optimisers": optimisers, "schedules": schedules}
        self._parameters = [p for p in self.model.parameters() if p.requires_grad]
        self._on_gpu = self._parameters[0].is_cuda
        self._loss_sum = torch.zeros((), device=self._parameters[0].device)
        self.done = Fit(COMPLETED, 0, [])
        self._state = self.model, self._moving, self.batches, self.done
        if self.resume is not None:
            self.resume.load(*self._state)
        self.going = self.done.steps < self._total
        if 0 in self._at and not self.done.rows:
            self._measure()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """End this training, and no other, where the block raises an error."""
        try:
            yield
        except Exception as error:
            self.end(error)

    def end(self, error: Exception, *, alone: bool = True) -> None:
        """End the training: as diverged by an `ArithmeticError` of its own, else as failed."""
        self.going = False
        if alone and isinstance(error, ArithmeticError):
            self.done.status = DIVERGED
        else:
            self.failure = error

    def next_batch(self) -> None:
        self.batch = self.batches.next()
        for optimiser in self._moving["optimisers"]:
            optimiser.zero_grad()

    def check_loss(self, loss: Tensor) -> None:
        if self._finite == "nothing":
            return
        if self._on_gpu:
            self._loss_sum += loss.detach()
        else:
            _check(loss, "the loss of a batch")

    def step(self) -> None:
        """Take the step that the gradients ask for, and record it."""
        if self._finite == "gradients":
            for parameter in self._parameters:
                if parameter.grad is not None:
                    _check(parameter.grad, "a gradient")
        if self.recipe.gradient_clip:
            nn.utils.clip_grad_norm_(self._parameters, self.recipe.gradient_clip)
        for part in (*self._moving["optimisers"], *self._moving["schedules"]):
            part.step()
        self.done.steps += 1
        self.going = self.done.steps < self._total
        if self.done.steps in self._at:
            if self._on_gpu:
                _check(self._loss_sum, "the sum of the losses")
            self._measure()
            if self.record.stop is not None and self.record.stop(self.done.rows[-1]):
                self.going = False
                return
        if self.resume is not None:
            self.resume.save_if_due(*self._state, self._total)

    def _measure(self) -> None:
        """Record a row, and the model where its figure of merit is the largest."""
        row = {name: float(value) for name, value in self.record.measure(self.model).items()}
        if bad := [name for name, value in row.items() if math.isnan(value)]:
            raise Diverged(f"{bad[0]} is not a number after {self.done.steps} steps")
        row["step"] = self.done.steps
        self.done.rows.append(row)
        merit, kept = self.record.keep, self.done.kept
        if merit is not None and (kept is None or merit(row) >= merit(kept[0])):
            self.done.kept = row, copy.deepcopy(self.model.state_dict())


def fit(
    model: nn.Module,
    batches: Batches,
    recipe: Recipe,
    objective: Objective,
    record: Record = NOTHING,
    *,
    finite: str = "loss",
    resume: Resume | None = None,
) -> Fit:
    """Train a model in place, those of its parameters that require a gradient.

    An `ArithmeticError`, from the objective or a measurement, ends the training as diverged: divergence is a result.

    Parameters
    ----------
    finite
        What must stay finite, or the training has diverged: ``loss``, ``gradients`` (and the loss), or ``nothing``. On a GPU the loss is
        looked at with every recorded row, not at every step: reading it would stop the device.
    resume
        Where the state is kept every few minutes, and found again by the next call; with it the training ends with the
        same bits as without.
    """
    training = Training(model=model, batches=batches, recipe=recipe, record=record, resume=resume)
    (done,) = _fit([training], lambda models, parts: [objective(models[0], *parts[0])], finite)
    if isinstance(done, Exception):
        raise done
    return done


def fit_together(
    trainings: Sequence[Training], objective: Objective, *, finite: str = "loss", pass_size: int = 0
) -> list[Fit | Exception]:
    """Train networks of one shape in place, side by side: each step is one pass of all that are still trained.

    Each has its own batches, recipe, optimiser, clipping, record and end. One that diverges, or is done, stays as it is while
    the others go on. An error of a network's own batches, measurements, optimiser or state ends that network alone, and is returned
    in the place of what came of it; one of a pass ends all that share it. The `objective` calls the model and looks at no value.

    `pass_size` are the networks in a pass, as many as there are by default. A network's bits do not depend on the others beside it as
    long as this number stays; those of `fit` differ by rounding.

    Raises `ValueError` where the networks cannot share a pass, see `lib.training.together.Together`.
    """
    models = [training.model for training in trainings]
    return _fit(trainings, Together(models, objective, pass_size or len(models)).losses, finite)


def _fit(
    trainings: Sequence[Training], losses: Callable[..., Sequence[Tensor]], finite: str
) -> list[Fit | Exception]:
    """Train with `losses`, which maps models and a batch for each to their losses."""
    if finite not in ("loss", "gradients", "nothing"):
        raise ValueError(f"expected finite to be loss, gradients or nothing, got {finite!r}")
    for run in trainings:
        with run.ending():
            run.begin(finite)
    while going := _going(trainings):
        for run in going:
            with run.ending():
                run.next_batch()
        if not (going := _going(going)):
            break
        try:
            batch_losses = losses([run.model for run in going], [run.batch for run in going])
            for run, loss in zip(going, batch_losses, strict=True):
                with run.ending():
                    run.check_loss(loss)
            if sound := [loss for run, loss in zip(going, batch_losses, strict=True) if run.going]:
                torch.autograd.backward(sound)
        except Exception as error:
            for run in _going(going):  # whose it is cannot be told, but of one alone
                run.end(error, alone=len(trainings) == 1)
        for run in _going(going):
            with run.ending():
                run.step()
    return [run.failure or run.done for run in trainings]


def _going(runs: Iterable[Training]) -> list[Training]:
    return [run for run in runs if run.going]


def _check(values: Tensor, what: str) -> None:
    if not torch.isfinite(values).all():
        raise Diverged(f"{what} is not finite")


def grouped(model: nn.Module, recipe: Recipe) -> dict[Group, list[nn.Parameter]]:
    """Return the parameters to train by group; those of none form the last one.

    Raises `ValueError` where a group's pattern fits no parameter, or all parameters are frozen.
    """
    for group in recipe.groups:
        matched(model, group.names)
    groups = (*recipe.groups, Group(names="*", optimiser=recipe.optimiser))
    members: dict[Group, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            group = next(group for group in groups if fnmatchcase(name, group.names))
            members.setdefault(group, []).append(parameter)
    if not members:
        raise ValueError("all parameters are frozen, none is left to train")
    return members


def _optimisers(
    model: nn.Module, recipe: Recipe, total: int, epoch: int
) -> tuple[list[torch.optim.Optimizer], list[torch.optim.lr_scheduler.LRScheduler]]:
    """Return an optimiser for each kind that the recipe's groups name, and what changes their learning rates."""
    kinds: dict[str, list[dict]] = {}
    for group, parameters in grouped(model, recipe).items():
        rate = recipe.learning_rate * group.factor
        kinds.setdefault(group.optimiser, []).append({"params": parameters, "lr": rate})
    optimisers, schedules = [], []
    for kind, parts in kinds.items():
        options = recipe.options if kind == recipe.optimiser else {}
        optimiser = OPTIMISERS[kind](parts, lr=recipe.learning_rate, **options)
        optimisers.append(optimiser)
        if recipe.cosine:
            schedules.append(torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, total))
        if recipe.drops:
            steps = [drop * (epoch if recipe.epochs else 1) for drop in recipe.drops]
            schedules.append(
                torch.optim.lr_scheduler.MultiStepLR(optimiser, steps, recipe.drop_factor)
            )
    return optimisers, schedules
