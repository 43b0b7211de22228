"""The one way to train: batches, an optimiser, what is recorded and when, and a state to go on from."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from longrnn.probes import Diverged
from longrnn.probes.coadjoint import soft_orthogonality
from torch import Tensor, nn

from study.config.recipe import OPTIMISERS, Group, Recipe
from study.results.schema import COMPLETED, DIVERGED
from study.tasks import Task
from study.training.batches import Batch, Batches
from study.training.measures import penalised
from study.training.model import matched
from study.training.resume import Fit, Moving, Resume
from study.training.scores import task_loss
from study.training.together import Objective, Together


@dataclass(frozen=True)
class Record:
    """What is measured in training, a row of numbers by name, and after how many steps: 0 is before the first, the last need not be there.

    A number that is ``nan`` ends the training as diverged, ``-inf`` is a number here; a row of which `stop` is true ends it as completed.
    `keep` is the figure of merit of a row: the model with the largest, the last of equals, is kept.
    """

    measure: Callable[[nn.Module], Mapping[str, float]]
    steps: Iterable[int]
    keep: Callable[[Mapping[str, float]], Any] | None = None
    stop: Callable[[Mapping[str, float]], bool] | None = None


def every_epoch(recipe: Recipe, batches: Batches) -> range:
    """Return the steps after which an epoch is over."""
    return range(batches.epoch, recipe.total(batches.epoch) + 1, batches.epoch)


@dataclass(eq=False)
class Training:
    """What is trained, on what, how, and what is recorded.

    With `resume`, where the state is kept every few minutes and found again by the next call, it ends with the same bits as without.
    """

    model: nn.Module
    batches: Batches
    recipe: Recipe
    record: Record = Record(lambda model: {}, ())
    resume: Resume | None = None


def fit(
    trainings: Sequence[Training], objective: Objective, *, places: int = 1, finite: str = "loss"
) -> list[Fit]:
    """Train models in place, those of their parameters that require a gradient: one, or networks of one shape side by side.

    An `ArithmeticError` or `LinAlgError`, from the objective or a measurement, ends a training as diverged: divergence is a result. So it is if what
    must be `finite` is not: the ``loss``, the ``gradients`` (and the loss), or ``nothing``. On a GPU the loss is looked at with every
    recorded row, not at every step: reading it would stop the device.

    Where there are several `places` each step is one pass of all that are still trained, see `study.training.together.Together`, and the
    `objective` looks at no value. Each has its own batches, recipe, optimiser, clipping, record and end. One that diverges, or is done, stays
    as it is while the others go on. A network's bits do not depend on the others beside it, as long as the places stay as many.
    """

    def one_by_one(models: Sequence[nn.Module], batches: Sequence[Batch]) -> list[Tensor]:
        return [objective(model, *batch) for model, batch in zip(models, batches, strict=True)]

    losses = Together(trainings[0].model, objective, places).losses if places > 1 else one_by_one
    found = [Fit(COMPLETED, 0, []) for _ in trainings]
    runs = {i: _steps(one, found[i], finite) for i, one in enumerate(trainings)}

    def proceed(i: int, loss: Tensor | None = None) -> Batch | None:
        """Let a training go on to where it waits next; one that ends is left out from now on."""
        try:
            return runs[i].send(loss)
        except (ArithmeticError, torch.linalg.LinAlgError):
            found[i].status = DIVERGED
        except StopIteration:
            pass
        del runs[i]
        return None

    while batches := {i: batch for i in list(runs) if (batch := proceed(i)) is not None}:
        try:
            came = losses([trainings[i].model for i in batches], list(batches.values()))
            for i, loss in zip(batches, came, strict=True):
                proceed(i, loss)
            if sound := [loss for i, loss in zip(batches, came, strict=True) if i in runs]:
                torch.autograd.backward(sound)
        except (ArithmeticError, torch.linalg.LinAlgError):
            if len(trainings) > 1:
                raise  # whose it is cannot be told
            found[0].status = DIVERGED
            break
    return found


def _steps(run: Training, done: Fit, finite: str) -> Iterator[Batch | None]:
    """Train: yield a batch, for which its loss is sent, and once more for its gradients; what came of it is in `done`."""
    model, batches, recipe = run.model, run.batches, run.recipe
    record, resume = run.record, run.resume
    total, at = recipe.total(batches.epoch), set(record.steps)
    moving = _optimisers(model, recipe, total, batches.epoch)
    parameters = [p for p in model.parameters() if p.requires_grad]
    if resume is not None:
        resume.begin(model, moving, batches, done)
    if 0 in at and not done.rows:
        _measure(model, record, done)
    while done.steps < total:
        batch = batches.next()
        model.zero_grad()
        loss = yield batch
        if finite != "nothing":
            if loss.is_cuda:
                done.losses = done.losses + loss.detach()
            else:
                _check(loss, "the loss of a batch")
        yield None
        if finite == "gradients":
            for parameter in parameters:
                if parameter.grad is not None:
                    _check(parameter.grad, "a gradient")
        if recipe.gradient_clip:
            nn.utils.clip_grad_norm_(parameters, recipe.gradient_clip)
        for part in moving:
            part.step()
        done.steps += 1
        if done.steps in at:
            _check(torch.as_tensor(done.losses), "the sum of the losses")
            _measure(model, record, done)
            if record.stop is not None and record.stop(done.rows[-1]):
                return
        if resume is not None:
            resume.save_if_due(total)


def _measure(model: nn.Module, record: Record, done: Fit) -> None:
    """Record a row, and the model where its figure of merit is the largest."""
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


def grouped(model: nn.Module, recipe: Recipe) -> dict[Group, list[nn.Parameter]]:
    """Return the parameters to train by group; those of none form the last one.

    Raises `ValueError` where a group's pattern fits no parameter, or all parameters are frozen.
    """
    for group in recipe.groups:
        matched(model, group.names)
    groups = (*recipe.groups, Group(names="*"))
    members: dict[Group, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            group = next(group for group in groups if fnmatchcase(name, group.names))
            members.setdefault(group, []).append(parameter)
    if not members:
        raise ValueError("all parameters are frozen, none is left to train")
    return members


def _optimisers(model: nn.Module, recipe: Recipe, total: int, epoch: int) -> Moving:
    """Return what takes a step with every batch: an optimiser for each kind that the recipe's groups name, then what changes their rates."""
    kinds: dict[str, list[dict]] = {}
    for group, parameters in grouped(model, recipe).items():
        part = {"params": parameters, "lr": recipe.learning_rate * group.factor}
        kinds.setdefault(group.optimiser or recipe.optimiser, []).append(part)
    optimisers, schedules = [], []
    for kind, parts in kinds.items():
        options = recipe.options if kind == recipe.optimiser else {}
        optimiser = OPTIMISERS[kind](parts, lr=recipe.learning_rate, **options)
        optimisers.append(optimiser)
        if recipe.cosine:
            schedules.append(torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, total))
        if recipe.drops:
            steps = [drop * (epoch if recipe.epochs else 1) for drop in recipe.drops]
            schedules.append(torch.optim.lr_scheduler.MultiStepLR(optimiser, steps))
    return optimisers + schedules


def objective(name: str, task: Task, weight: float = 0.0) -> Objective:
    r"""Return what a step minimises, by its name among `WEIGHTS`; `weight` is its kappa or beta (dissertation, chapter 2).

    =============== ================================================================================================================
    ``plain``       F, the loss of the task
    ``coadjoint``   :math:`F + \kappa G`, G the scaled variance of the adjoints' norms (2.20), of a classifier
    ``orthogonal``  :math:`F + \beta (\|W'W - I\|_2^2 + \|WW' - I\|_2^2)`, the soft orthogonal penalty of Table 2.1
    =============== ================================================================================================================
    """
    loss = task_loss(task)

    def minimised(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        if name == "coadjoint":
            return penalised(model, inputs, targets, weight).total
        plain = loss(model(inputs), targets)
        if name == "orthogonal":
            return plain + weight * soft_orthogonality(model.cell.W)
        return plain

    return minimised
