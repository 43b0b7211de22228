"""How well a model does on sequences: losses, metrics, and the score of each sequence."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.tasks import Part, Task

MOST = 2**25
"""Predictions that a batch of `evaluate` may have, where there is one for every step."""


def task_loss(task: Task) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the mean loss of predictions and targets: cross entropy of classes, squared error of values."""
    return cross_entropy if task.classifies else F.mse_loss


def cross_entropy(logits: Tensor, classes: Tensor, reduction: str = "mean") -> Tensor:
    """Return the cross entropy of logits (.., outputs) and classes (..); one output is the log odds of class 1 of two."""
    if logits.shape[-1] == 1:
        odds, classes = logits.squeeze(-1), classes.to(logits.dtype)
        return F.binary_cross_entropy_with_logits(odds, classes, reduction=reduction)
    return F.cross_entropy(logits.flatten(0, -2), classes.flatten(), reduction=reduction)


def likeliest(logits: Tensor) -> Tensor:
    """Return the classes (..) that logits (.., outputs) make likeliest, as `cross_entropy` reads them."""
    return (logits[..., 0] > 0).long() if logits.shape[-1] == 1 else logits.argmax(-1)


def evaluate(
    model: nn.Module, task: Task, part: Part, *, batch_size: int = 500
) -> tuple[float, float]:
    """Return loss and metric of a model, or of a head alone, on a part: means over sequences, and steps, in float64.

    The metric is the share of classes found, or the root of the mean squared error. Where every step has its predictions,
    batches are so much smaller that these stay below 256 MiB.
    """
    if task.target == "steps":
        batch_size = max(1, min(batch_size, MOST // (task.outputs * part.time_steps)))
    loss, right = 0.0, 0
    for predicted, targets in predictions(model, part, batch_size):
        mean = task_loss(task)(predicted.double(), wide(targets))
        loss += mean.item() * len(targets)
        if task.classifies:
            right += (likeliest(predicted) == targets).sum().item()
    loss /= len(part)
    return loss, right / part.targets.size if task.classifies else math.sqrt(loss)


def sequence_scores(
    model: nn.Module, task: Task, part: Part, *, batch_size: int = 100
) -> np.ndarray:
    """Return for each sequence the share of its targets found, or its mean squared error, float16."""
    scores = []
    for predicted, targets in predictions(model, part, batch_size):
        if task.classifies:
            each = (likeliest(predicted) == targets).double()
        else:
            each = (predicted - targets).double().square()
        scores.append(each.reshape(len(each), -1).mean(1))
    found = torch.cat(scores).cpu().numpy()
    return np.clip(found, 0, np.finfo(np.float16).max).astype(np.float16)


@torch.no_grad()
def predictions(model: nn.Module, part: Part, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what a model predicts of a part, without dropout, and the targets, batch by batch."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    for start in range(0, len(part), batch_size):
        inputs, targets = tensors(part.take(slice(start, start + batch_size)), device)
        yield model(inputs), targets
    model.train(was_training)


def wide(targets: Tensor) -> Tensor:
    """Return targets in float64, classes as they are."""
    return targets.double() if targets.is_floating_point() else targets


def tensors(part: Part, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a part as tensors on a device."""
    inputs, targets = torch.from_numpy(part.inputs), torch.from_numpy(part.targets)
    return inputs.to(device), targets.to(device)
