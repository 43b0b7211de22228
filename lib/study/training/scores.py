"""Losses and metrics of a model, and scores of single sequences."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.tasks import Split, Task

MOST_PREDICTIONS = 2**25
"""Largest number of predictions per batch in `evaluate`, 256 MiB in float64."""


def task_loss(task: Task) -> Callable[..., Tensor]:
    """Return the loss function of a task.

    Parameters
    ----------
    task : Task

    Returns
    -------
    callable
        Maps predictions and targets to the mean cross entropy or the mean squared error; takes
        another `reduction` as `cross_entropy` does.
    """
    if task.classifies:
        return cross_entropy
    return F.mse_loss


def cross_entropy(logits: Tensor, classes: Tensor, reduction: str = "mean") -> Tensor:
    """Return the cross entropy of logits.

    Parameters
    ----------
    logits : Tensor
        Shape (.., outputs). If there is a single output, there are two classes, and it is the log
        odds of class 1.
    classes : Tensor
        Shape (..).
    reduction : str
        ``mean``, ``sum`` or ``none``.

    Returns
    -------
    Tensor
        In nats: a scalar, or with ``none`` one number per element of `classes`, flattened.
    """
    if logits.shape[-1] == 1:
        log_odds = logits.squeeze(-1)
        labels = classes.to(logits.dtype)
        return F.binary_cross_entropy_with_logits(log_odds, labels, reduction=reduction)
    return F.cross_entropy(logits.flatten(0, -2), classes.flatten(), reduction=reduction)


def predicted_classes(logits: Tensor) -> Tensor:
    """Return the most likely classes.

    Parameters
    ----------
    logits : Tensor
        As in `cross_entropy`, shape (.., outputs).

    Returns
    -------
    Tensor
        Shape (..), int64.
    """
    if logits.shape[-1] == 1:
        return (logits[..., 0] > 0).long()
    return logits.argmax(-1)


def evaluate(
    model: nn.Module, task: Task, split: Split, *, batch_size: int = 500
) -> tuple[float, float]:
    """Return loss and metric of a model, or of a head alone, on a split.

    Parameters
    ----------
    model : nn.Module
    task : Task
    split : Split
    batch_size : int
        Number of sequences per forward pass. If the model predicts at every time step, batches may
        be smaller, so that the predictions take at most 256 MiB.

    Returns
    -------
    loss : float
        Mean over sequences and time steps, computed in float64.
    metric : float
        Accuracy, or the root of the mean squared error.
    """
    if task.target == "steps":
        predictions_per_sequence = task.outputs * split.time_steps
        batch_size = max(1, min(batch_size, MOST_PREDICTIONS // predictions_per_sequence))
    loss_of = task_loss(task)
    loss = 0.0
    correct = 0
    for predicted, targets in predictions(model, split, batch_size):
        loss += loss_of(predicted.double(), as_double(targets)).item() * len(targets)
        if task.classifies:
            correct += (predicted_classes(predicted) == targets).sum().item()
    loss /= len(split)
    metric = correct / split.targets.size if task.classifies else math.sqrt(loss)
    return loss, metric


def sequence_scores(
    model: nn.Module, task: Task, split: Split, *, batch_size: int = 100
) -> np.ndarray:
    """Return a score for each sequence.

    Parameters
    ----------
    model : nn.Module
    task : Task
    split : Split
        n sequences.
    batch_size : int
        Number of sequences per forward pass.

    Returns
    -------
    numpy.ndarray
        Shape (n,), float16: accuracy over the targets of a sequence, or its mean squared error.
    """
    scores = []
    for predicted, targets in predictions(model, split, batch_size):
        if task.classifies:
            score = (predicted_classes(predicted) == targets).double()
        else:
            score = (predicted - targets).double().square()
        scores.append(score.reshape(len(score), -1).mean(1))
    all_scores = torch.cat(scores).cpu().numpy()
    return np.clip(all_scores, 0, np.finfo(np.float16).max).astype(np.float16)


@torch.no_grad()
def predictions(model: nn.Module, split: Split, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield predictions of a model without dropout, and the targets, batch by batch.

    The model is in evaluation mode until the iterator ends or is closed.

    Parameters
    ----------
    model : nn.Module
    split : Split
    batch_size : int

    Yields
    ------
    predicted : Tensor
        Shape (batch, outputs), or (batch, time, outputs).
    targets : Tensor
    """
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        for first in range(0, len(split), batch_size):
            inputs, targets = tensors(split.take(slice(first, first + batch_size)), device)
            yield model(inputs), targets
    finally:  # also if a batch fails, or if the caller stops early
        model.train(was_training)


def as_double(targets: Tensor) -> Tensor:
    """Convert real values to float64; return class indices unchanged.

    Parameters
    ----------
    targets : Tensor

    Returns
    -------
    Tensor
    """
    if targets.is_floating_point():
        return targets.double()
    return targets


def tensors(split: Split, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Return the arrays of a split as tensors on a device.

    Parameters
    ----------
    split : Split
    device : torch.device or str

    Returns
    -------
    inputs, targets : Tensor
        With the shapes and types of the arrays.
    """
    inputs = torch.from_numpy(split.inputs)
    targets = torch.from_numpy(split.targets)
    return inputs.to(device), targets.to(device)
