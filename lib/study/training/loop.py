"""The training loop of one model."""

from typing import Literal

from torch import nn

from study.config.recipe import Recipe
from study.training.batches import Batches
from study.training.checkpoint import Checkpoint
from study.training.optimizers import build_optimizers
from study.training.record import NOTHING, Record
from study.training.state import RunState, check_finite
from study.training.together import Objective

Check = Literal["loss", "gradients", "nothing"]


def train(
    model: nn.Module,
    batches: Batches,
    objective: Objective,
    recipe: Recipe,
    *,
    record: Record = NOTHING,
    checkpoint: Checkpoint | None = None,
    check: Check = "loss",
) -> RunState:
    """Train one model in place, until its recipe ends, a record stops it, or it diverges.

    Parameters
    ----------
    model : nn.Module
        Its parameters that require a gradient are trained.
    batches : Batches
        Source of inputs and targets.
    objective : Objective
        What a step minimizes. It may raise `ArithmeticError` if the run has diverged.
    recipe : Recipe
        Optimizer, learning rate, length of training, clipping.
    record : Record, optional
        What to record during training.
    checkpoint : Checkpoint, optional
        If it holds a state, training goes on from there, with the same bits as without a break.
    check : str
        What must be finite: the ``loss``, the ``gradients`` and the loss, or ``nothing``.

    Returns
    -------
    RunState
        Status, steps taken, and what was recorded.

    Raises
    ------
    ValueError
        The recipe does not fit the model, see `parameter_groups`.
    """
    state = RunState()
    total_steps = recipe.total(batches.epoch)
    optimizers, schedulers = build_optimizers(model, recipe, batches.epoch)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if checkpoint is not None:
        checkpoint.restore(model, optimizers + schedulers, batches, state)
    with state.catching_divergence():
        if state.step == 0:
            record.add_if_due(model, state)
        while state.step < total_steps:
            inputs, targets = batches.next()
            model.zero_grad()
            loss = objective(model, inputs, targets)
            if check != "nothing":
                state.check_loss(loss)
            loss.backward()
            if check == "gradients":
                check_gradients(parameters)
            if recipe.gradient_clip:
                nn.utils.clip_grad_norm_(parameters, recipe.gradient_clip)
            for part in (*optimizers, *schedulers):
                part.step()
            state.step += 1
            if record.add_if_due(model, state):
                break
            if checkpoint is not None:
                checkpoint.save_if_due(total_steps)
    return state


def check_gradients(parameters: list[nn.Parameter]) -> None:
    """Raise `longrnn.probes.Diverged` if a gradient is not finite."""
    for parameter in parameters:
        if parameter.grad is not None:
            check_finite(parameter.grad, "a gradient")
