"""The one way to train: batches, an optimiser, what is recorded and when, and a state to go on from."""

import copy
import fnmatch
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from lib.probes import Diverged
from lib.results.schema import COMPLETED, DIVERGED
from lib.training.batches import Batch, Batches
from lib.training.outcome import Fit
from lib.training.resume import Resume
from lib.training.together import Together

Objective = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""Maps a model, inputs and targets of a batch to the number that is minimised."""
Losses = Callable[[Sequence[nn.Module], Sequence[Batch]], Sequence[Tensor]]
"""Maps models, and a batch for each, to their losses."""
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


@dataclass(frozen=True, kw_only=True)
class Training:
    """What is trained, on what, how, and what is recorded: see `fit`."""

    model: nn.Module
    batches: Batches
    recipe: Recipe
    record: Record
    resume: Resume | None = None


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
    training = Training(model=model, batches=batches, recipe=recipe, record=record, resume=resume)
    (done,) = _fit([training], lambda models, parts: [objective(models[0], *parts[0])], finite)
    if isinstance(done, Exception):
        raise done
    return done


def fit_together(
    trainings: Sequence[Training], objective: Objective, *, finite: str = "loss", places: int = 0
) -> list[Fit | Exception]:
    """Train networks of one shape in place, side by side: each step is one pass of all that are still trained.

    Each has its own batches, recipe, optimiser, clipping, record and end. One that diverges, or is done, stays as it is while
    the others go on.

    Parameters
    ----------
    trainings
        Their models are built alike and without dropout, see `lib.training.together`.
    objective, finite
        As of `fit`, for all of them. The objective calls the model and looks at no value.
    places
        Networks in a pass, as many as there are by default. A network's bits do not depend on the others beside it as long
        as this number stays; those of `fit` differ by rounding.

    Returns
    -------
    list of Fit or Exception
        In the order of `trainings`: what came of each, or the error that ended it. One that comes from a network's own batches,
        measurements, optimiser or state ends that network alone; one of a pass ends all that share it, and those that were done
        before keep their results.

    Raises
    ------
    ValueError
        The networks cannot share a pass.
    """
    models = [training.model for training in trainings]
    return _fit(trainings, Together(models, objective, places or len(models)).losses, finite)


def _fit(trainings: Sequence[Training], losses: Losses, finite: str) -> list[Fit | Exception]:
    if finite not in ("loss", "gradients", "nothing"):
        raise ValueError(f"expected finite to be loss, gradients or nothing, got {finite!r}")
    runs = [_Run(training, finite) for training in trainings]
    for run in runs:
        with run.answers():
            run.begin()
    while any(run.going for run in runs):
        for run in _going(runs):
            with run.answers():
                run.read()
        if not (going := _going(runs)):
            break
        try:
            found = losses([run.model for run in going], [run.batch for run in going])
            for run, loss in zip(going, found, strict=True):
                with run.answers():
                    run.look_at(loss)
            if sound := [loss for run, loss in zip(going, found, strict=True) if run.going]:
                torch.autograd.backward(sound)
        except Exception as error:
            for run in _going(going):  # whose it is cannot be told, but of one alone
                run.end(error, own=len(runs) == 1)
        for run in _going(going):
            with run.answers():
                run.move()
    return [run.failure or run.done for run in runs]


def _going(runs: Iterable["_Run"]) -> list["_Run"]:
    return [run for run in runs if run.going]


class _Run:
    """A training on its way."""

    def __init__(self, training: Training, finite: str) -> None:
        self.model, self._batches = training.model, training.batches
        self._recipe, self._record, self._resume = training.recipe, training.record, training.resume
        self._finite, self._at = finite, set(training.record.steps)
        epoch = self._batches.epoch
        self._total = self._recipe.total(epoch)
        optimisers, schedules = _optimisers(self.model, self._recipe, self._total, epoch)
        self._moving = {"optimisers": optimisers, "schedules": schedules}
        self._parameters = [p for p in self.model.parameters() if p.requires_grad]
        self._on_gpu = self._parameters[0].is_cuda
        self._seen = torch.zeros((), device=self._parameters[0].device)
        self.done = Fit(COMPLETED, 0, [])
        self.failure: Exception | None = None
        self.going = True

    @contextmanager
    def answers(self) -> Iterator[None]:
        """End this training, and no other, where the block raises an error."""
        try:
            yield
        except Exception as error:
            self.end(error)

    def end(self, error: Exception, *, own: bool = True) -> None:
        """End the training: as diverged by an `ArithmeticError` of its own, else as failed."""
        self.going = False
        if own and isinstance(error, ArithmeticError):
            self.done.status = DIVERGED
        else:
            self.failure = error

    def begin(self) -> None:
        if self._resume is not None:
            self._resume.load(self.model, self._moving, self._batches, self.done)
        self.going = self.done.steps < self._total
        if 0 in self._at and not self.done.rows:
            _row(self.model, self._record, self.done)

    def read(self) -> None:
        self.batch = self._batches.next()
        for optimiser in self._moving["optimisers"]:
            optimiser.zero_grad()

    def look_at(self, loss: Tensor) -> None:
        if self._finite == "nothing":
            return
        if self._on_gpu:
            self._seen += loss.detach()
        else:
            _check(loss, "the loss of a batch")

    def move(self) -> None:
        """Take the step that the gradients ask for, and record it."""
        if self._finite == "gradients":
            for parameter in self._parameters:
                if parameter.grad is not None:
                    _check(parameter.grad, "a gradient")
        if self._recipe.clip:
            nn.utils.clip_grad_norm_(self._parameters, self._recipe.clip)
        for moved in (*self._moving["optimisers"], *self._moving["schedules"]):
            moved.step()
        self.done.steps += 1
        self.going = self.done.steps < self._total
        if self.done.steps in self._at:
            if self._on_gpu:
                _check(self._seen, "the sum of the losses")
            _row(self.model, self._record, self.done)
            if self._record.stop is not None and self._record.stop(self.done.rows[-1]):
                self.going = False
                return
        if self._resume is not None:
            self._resume.save_if_due(
                self.model, self._moving, self._batches, self.done, self._total
            )


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
