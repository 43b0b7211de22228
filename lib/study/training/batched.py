"""The training loop of several models of one shape, in one vmapped pass per step."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from study.config.recipe import Recipe
from study.results.schema import COMPLETED, DIVERGED
from study.training.batches import Batches
from study.training.checkpoint import Checkpoint
from study.training.optimizers import build_optimizers
from study.training.record import NOTHING, Record
from study.training.state import NUMERICAL_ERRORS, RunState
from study.training.together import Objective, Together


@dataclass(eq=False)
class Run:
    """One model of a batched pass; the arguments are those of `study.training.loop.train`."""

    model: nn.Module
    batches: Batches
    recipe: Recipe
    record: Record = NOTHING
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        self.state = RunState()
        self.stopped = False
        self.total_steps = self.recipe.total(self.batches.epoch)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]

    def begin(self) -> None:
        """Build the optimizers, go on from the checkpoint if it holds a state, and record."""
        optimizers, schedulers = build_optimizers(self.model, self.recipe, self.batches.epoch)
        self._stepped = optimizers + schedulers
        if self.checkpoint is not None:
            self.checkpoint.restore(self.model, self._stepped, self.batches, self.state)
        if self.state.step == 0:
            with self.state.catching_divergence():
                self.record.add_if_due(self.model, self.state)

    @property
    def is_active(self) -> bool:
        """Whether there are steps left to take."""
        return (
            not self.stopped
            and self.state.status == COMPLETED
            and self.state.step < self.total_steps
        )

    def step(self) -> None:
        """Clip the gradients, take an optimizer step, record, and save a checkpoint if due."""
        if self.recipe.gradient_clip:
            nn.utils.clip_grad_norm_(self.parameters, self.recipe.gradient_clip)
        for part in self._stepped:
            part.step()
        self.state.step += 1
        self.stopped = self.record.add_if_due(self.model, self.state)
        if self.checkpoint is not None and not self.stopped:
            self.checkpoint.save_if_due(self.total_steps)


def train_batched(runs: Sequence[Run], objective: Objective, *, pass_size: int) -> list[RunState]:
    """Train models of one shape in place, with one forward and backward pass per step for all.

    Each run has its own batches, recipe, optimizer, clipping, record and end. One that diverges or
    ends stays as it is while the others go on. The bits of a run don't depend on the other runs of
    its pass, as long as `pass_size` stays the same.

    Parameters
    ----------
    runs : sequence of Run
        At most `pass_size` runs whose models and batches have one shape.
    objective : Objective
        What a step minimizes. It must not branch on values, see `study.training.together`.
    pass_size : int
        Number of models that a pass has room for.

    Returns
    -------
    list of RunState
        The state of each run at its end.

    Raises
    ------
    ArithmeticError
        The objective itself failed with several runs: we can't tell which one has diverged.
    """
    vmapped_pass = Together(runs[0].model, objective, pass_size)
    for run in runs:
        run.begin()
    longest = max(run.total_steps - run.state.step for run in runs)
    for _ in range(longest):
        active = [run for run in runs if run.is_active]
        if not active:
            break
        try:
            finite = _forward_and_backward(vmapped_pass, active)
        except NUMERICAL_ERRORS:
            if len(runs) > 1:
                raise  # in a batched pass we can't tell which run failed
            runs[0].state.status = DIVERGED
            break
        for run in finite:
            with run.state.catching_divergence():
                run.step()
    return [run.state for run in runs]


def _forward_and_backward(vmapped_pass: Together, runs: Sequence[Run]) -> list[Run]:
    """Compute the gradients of some runs on their next batches.

    Returns
    -------
    list of Run
        The runs whose loss is finite. The others have diverged, and have no gradients.
    """
    for run in runs:
        run.model.zero_grad()
    models = [run.model for run in runs]
    losses = vmapped_pass.losses(models, [run.batches.next() for run in runs])
    finite_runs = []
    finite_losses = []
    for run, loss in zip(runs, losses, strict=True):
        with run.state.catching_divergence():
            run.state.check_loss(loss)
            finite_runs.append(run)
            finite_losses.append(loss)
    if finite_losses:
        torch.autograd.backward(finite_losses)
    return finite_runs
