"""The training loop of several models of the same shape, with one vmapped pass per step.

A step does what a step of `study.training.loop.train` with ``check="loss"`` does for one model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from study.config.recipe import Recipe
from study.results.schema import COMPLETED, DIVERGED
from study.training.batches import Batches
from study.training.checkpoint import Checkpoint
from study.training.graphed_step import apply_gradients
from study.training.optimizers import build_optimizers
from study.training.recorder import NO_RECORDER, Recorder
from study.training.state import NUMERICAL_ERRORS, RunState
from study.training.vmapped_pass import Objective, VmappedPass


@dataclass(eq=False)
class Run:
    """One of several runs that are trained together.

    The fields are the arguments of `study.training.loop.train`.

    Attributes
    ----------
    state : RunState
        Status, number of steps, and recorded measurements.
    stopped : bool
        Whether the run stopped early.
    total_steps : int
        Length of the whole run in optimizer steps.
    parameters : list of nn.Parameter
        The trained parameters, whose gradients are clipped together.
    """

    model: nn.Module
    batches: Batches
    recipe: Recipe
    recorder: Recorder = NO_RECORDER
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        self.state = RunState()
        self.stopped = False
        self.total_steps = self.recipe.total_steps(self.batches.steps_per_epoch)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]

    def begin(self) -> None:
        """Build the optimizers, and resume from the checkpoint or record step 0."""
        self.optimizers, self.schedulers = build_optimizers(
            self.model, self.recipe, self.batches.steps_per_epoch
        )
        if self.checkpoint is not None:
            steppers = [*self.optimizers, *self.schedulers]
            self.checkpoint.track(self.model, steppers, self.batches, self.state)
            self.checkpoint.resume()
        if self.state.step == 0:
            with self.state.catching_divergence():
                self.recorder.record_if_due(self.model, self.state)

    @property
    def is_active(self) -> bool:
        """Whether there are steps left to take."""
        return (
            not self.stopped
            and self.state.status == COMPLETED  # the initial status; only divergence changes it
            and self.state.step < self.total_steps
        )

    def step(self) -> None:
        """Finish a step after `backward`: clip, optimizer step, record, save a checkpoint."""
        apply_gradients(self.parameters, self.optimizers, self.recipe.gradient_clip)
        for scheduler in self.schedulers:
            scheduler.step()
        self.state.step += 1
        self.stopped = self.recorder.record_if_due(self.model, self.state)
        if self.checkpoint is not None and not self.stopped:
            self.checkpoint.save_if_due(self.total_steps)


def train_batched(runs: Sequence[Run], objective: Objective, *, pass_size: int) -> list[RunState]:
    """Train models of the same shape in place, with one forward and backward pass per step.

    Each run has its own batches, recipe, optimizer, clipping, measurements and number of steps. A
    run that has finished or diverged does not change while the others continue. For a fixed
    `pass_size`, the results of a run are bit-identical whichever other runs share the pass.

    Parameters
    ----------
    runs : sequence of Run
        At most `pass_size` runs; their models have equal shapes, and so do their batches.
    objective : Objective
        Function of a model, inputs and targets that returns the scalar to minimize. It must not
        branch on values, see `study.training.vmapped_pass`.
    pass_size : int
        The vmapped pass is padded to this number of models, see `VmappedPass`.

    Returns
    -------
    list of RunState
        The final state of each run.

    Raises
    ------
    ArithmeticError
        The objective raised it while several runs were active, so we can't tell which of them
        diverged. If only one run was active, that run is marked as diverged instead.
    """
    vmapped_pass = VmappedPass(runs[0].model, objective, pass_size)
    for run in runs:
        run.begin()
    most_steps_left = max(run.total_steps - run.state.step for run in runs)
    for _ in range(most_steps_left):
        active = [run for run in runs if run.is_active]
        if not active:
            break
        try:
            finite_runs = _forward_and_backward(vmapped_pass, active)
        except NUMERICAL_ERRORS:
            if len(active) > 1:
                raise  # in a batched pass we can't tell which run failed
            active[0].state.status = DIVERGED
            break
        for run in finite_runs:
            with run.state.catching_divergence():
                run.step()
    for run in runs:  # on a GPU, losses after the last record are not checked yet
        with run.state.catching_divergence():
            run.state.check_loss_sum()
    return [run.state for run in runs]


def _forward_and_backward(vmapped_pass: VmappedPass, runs: Sequence[Run]) -> list[Run]:
    """Compute the gradients of all runs on their next batches.

    Returns
    -------
    list of Run
        The runs whose loss is finite. The others are marked as diverged, and their losses are not
        part of the backward pass. On a GPU, losses are not checked here, so all runs are returned.
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
