"""Optimizers and learning rate schedules of a recipe."""

from fnmatch import fnmatchcase

import torch
from torch import nn

from study.config.recipe import OPTIMIZERS, ParameterGroup, Recipe
from study.pipeline.instructions import pinned
from study.training import vmapped_pass
from study.training.model import matching_parameters

Optimizer = torch.optim.Optimizer
Scheduler = torch.optim.lr_scheduler.LRScheduler


def build_optimizers(
    model: nn.Module, recipe: Recipe, steps_per_epoch: int
) -> tuple[list[Optimizer], list[Scheduler]]:
    """Build the optimizers and learning rate schedulers of a recipe.

    Parameters
    ----------
    model : nn.Module
        Only parameters that require a gradient are trained.
    recipe : Recipe
        Optimizer, learning rate, its schedule, and parameter groups.
    steps_per_epoch : int
        Batches per epoch; 0 if the training sequences are generated.

    Returns
    -------
    optimizers : list
        One for each kind of optimizer in the recipe and its groups.
    schedulers : list
        Learning rate schedulers. Like the optimizers, they take a step after every batch.

    Raises
    ------
    ValueError
        See `parameter_groups`.
    """
    parts_by_kind: dict[str, list[dict]] = {}
    for group, parameters in parameter_groups(model, recipe).items():
        part = {"params": parameters, "lr": recipe.learning_rate * group.factor}
        kind = group.optimizer or recipe.optimizer
        parts_by_kind.setdefault(kind, []).append(part)
    optimizers = []
    for kind, parts in parts_by_kind.items():
        options = adam_options() if kind == "adam" else {}
        if kind == recipe.optimizer:
            options |= recipe.options
        if _counts_on_device(kind, options, model):
            options["capturable"] = True
        optimizers.append(OPTIMIZERS[kind](parts, lr=recipe.learning_rate, **options))
    schedulers = []
    for optimizer in optimizers:
        schedulers += _schedulers(optimizer, recipe, steps_per_epoch)
    return optimizers, schedulers


def adam_options() -> dict[str, bool]:
    """Return options with which Adam gives equal bytes on different processors, if they must.

    Adam's default loop calls `torch.sqrt`. For that, MKL refines the processor's own approximation.
    In single precision a fifth of the results are off in the last digit, and which ones depends on
    the processor. The square roots of the fused loop are correctly rounded.

    Returns
    -------
    dict
        ``fused``, True, if instructions are pinned (`study.pipeline.instructions.pinned`); else
        empty.
    """
    return {"fused": True} if pinned() else {}


def _counts_on_device(kind: str, options: dict, model: nn.Module) -> bool:
    """Return whether an optimizer is to count its steps on the device of the model.

    Then a CUDA graph can contain it (`study.training.graphed_step`). Only optimizers that compute
    the same numbers either way do; the default Adam would round differently.
    """
    if next(model.parameters()).device.type not in vmapped_pass.GRAPH_DEVICES:
        return False
    return kind == "rmsprop" or (kind == "adam" and bool(options.get("fused")))


def _schedulers(optimizer: Optimizer, recipe: Recipe, steps_per_epoch: int) -> list[Scheduler]:
    """Build the learning rate schedulers of one optimizer."""
    schedulers: list[Scheduler] = []
    if recipe.cosine:
        total_steps = recipe.total_steps(steps_per_epoch)
        schedulers.append(torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total_steps))
    if recipe.drops:
        unit = steps_per_epoch if recipe.epochs else 1
        milestones = [drop * unit for drop in recipe.drops]
        schedulers.append(torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones))
    return schedulers


def parameter_groups(model: nn.Module, recipe: Recipe) -> dict[ParameterGroup, list[nn.Parameter]]:
    """Return the trainable parameters of each group of a recipe.

    Parameters
    ----------
    model : nn.Module
    recipe : Recipe
        A parameter belongs to the first group whose pattern matches its name.

    Returns
    -------
    dict of ParameterGroup to list of nn.Parameter
        Parameters that match no group belong to a last group with the pattern ``*``. Empty groups
        are left out.

    Raises
    ------
    ValueError
        A group's pattern matches no parameter, or all parameters are frozen.
    """
    for group in recipe.groups:
        matching_parameters(model, group.names)
    groups = (*recipe.groups, ParameterGroup(names="*"))
    members: dict[ParameterGroup, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            group = next(group for group in groups if fnmatchcase(name, group.names))
            members.setdefault(group, []).append(parameter)
    if not members:
        raise ValueError(
            "all parameters are frozen, so there is nothing to train; remove a pattern from frozen"
        )
    return members
