"""The training loop of one model.

`study.training.batched` has the loop for several models in one vmapped pass.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from study.config.recipe import Recipe
from study.training.batches import Batches
from study.training.checkpoint import Checkpoint
from study.training.graphed_step import GraphedStep, apply_gradients, step_obstacle
from study.training.optimizers import build_optimizers
from study.training.recorder import NO_RECORDER, Recorder
from study.training.state import RunState, check_finite
from study.training.vmapped_pass import Objective

Check = Literal["loss", "gradients", "nothing"]


def train(
    model: nn.Module,
    batches: Batches,
    objective: Objective,
    recipe: Recipe,
    *,
    recorder: Recorder = NO_RECORDER,
    checkpoint: Checkpoint | None = None,
    check: Check = "loss",
) -> RunState:
    """Train one model in place, until its last step, early stopping, or divergence.

    Parameters
    ----------
    model : nn.Module
        Its parameters that require a gradient are trained.
    batches : Batches
        Source of inputs and targets.
    objective : Objective
        Function of the model, inputs and targets that returns the scalar to minimize. If it raises
        `ArithmeticError`, the run has diverged.
    recipe : Recipe
        Optimizer, learning rate, length of training, clipping.
    recorder : Recorder, optional
        The plan of measurements: what to measure, at which steps, and when to stop early. The
        measured values are in the result. By default nothing is measured.
    checkpoint : Checkpoint, optional
        Checkpoint file. If it already contains a state, training resumes from it, and the result is
        bit-identical to that of an uninterrupted run.
    check : {"loss", "gradients", "nothing"}
        What must be finite; otherwise the run has diverged.

        - ``loss``: the loss. On a CPU it is checked at every step. On a GPU it is only checked when
          `recorder` takes a measurement and at the end, see `RunState.check_loss`.
        - ``gradients``: the loss as above, and the gradients at every step.
        - ``nothing``: only what `recorder` checks, see `Recorder.record_if_due`.

    Returns
    -------
    RunState
        Status, number of steps, and recorded measurements. The status starts as ``COMPLETED`` and
        becomes ``DIVERGED`` if a check fails or a numerical error is raised; such errors are not
        passed on.

    Raises
    ------
    ValueError
        The recipe does not fit the model, see `study.training.optimizers.parameter_groups`.
    """
    state = RunState()
    total_steps = recipe.total_steps(batches.steps_per_epoch)
    optimizers, schedulers = build_optimizers(model, recipe, batches.steps_per_epoch)
    take_step = _step_function(model, objective, optimizers, recipe, state, check)
    if checkpoint is not None:
        checkpoint.track(model, [*optimizers, *schedulers], batches, state)
        checkpoint.resume()  # restores model, optimizers, batches and state in place
    with state.catching_divergence():
        if state.step == 0:
            recorder.record_if_due(model, state)  # step 0 never triggers early stopping
        while state.step < total_steps:
            inputs, targets = batches.next()
            take_step(inputs, targets)
            for scheduler in schedulers:
                scheduler.step()
            state.step += 1
            stop_early = recorder.record_if_due(model, state)
            if stop_early:
                break
            if checkpoint is not None:
                checkpoint.save_if_due(total_steps)
        state.check_loss_sum()  # on a GPU, losses after the last record are not checked yet
    return state


def _step_function(
    model: nn.Module,
    objective: Objective,
    optimizers: list[torch.optim.Optimizer],
    recipe: Recipe,
    state: RunState,
    check: Check,
) -> Callable[[Tensor, Tensor], None]:
    """Return the function that takes a training step on a batch, as one CUDA graph if possible."""
    if check != "gradients" and not step_obstacle(objective, optimizers, recipe):
        graphed_step = GraphedStep(objective, model, optimizers, recipe.gradient_clip)

        def take_graphed_step(inputs: Tensor, targets: Tensor) -> None:
            loss = graphed_step(inputs, targets)
            if check != "nothing":
                state.check_loss(loss)

        return take_graphed_step

    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def take_step(inputs: Tensor, targets: Tensor) -> None:
        model.zero_grad()
        loss = objective(model, inputs, targets)
        if check != "nothing":
            state.check_loss(loss)
        loss.backward()
        if check == "gradients":
            check_gradients(parameters)
        apply_gradients(parameters, optimizers, recipe.gradient_clip)

    return take_step


def check_gradients(parameters: list[nn.Parameter]) -> None:
    """Check the gradients of parameters.

    Parameters
    ----------
    parameters : list of nn.Parameter
        Parameters without a gradient are skipped.

    Raises
    ------
    longrnn.probes.Diverged
        A gradient is not finite.
    """
    for parameter in parameters:
        if parameter.grad is not None:
            check_finite(parameter.grad, "a gradient")
