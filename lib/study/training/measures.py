"""Measures of a classifier: loss, accuracy, adjoint norms, and the coadjoint penalty."""

import copy
from functools import partial

import numpy as np
import torch
from longrnn.probes.adjoint import adjoint_norms, log10_sum
from longrnn.probes.coadjoint import PenalizedLoss, coadjoint_loss
from torch import Tensor, nn

from study.results.factorial import MEASUREMENTS
from study.tasks import Split
from study.training.model import Model
from study.training.scores import cross_entropy, predicted_classes, tensors


@torch.no_grad()
def cell_inputs_without_dropout(model: Model, inputs: Tensor) -> Tensor:
    """Return the inputs of a model's cell, without dropout.

    Without dropout no random numbers are drawn, so a measurement doesn't change the rest of a run.

    Parameters
    ----------
    model : Model
    inputs : Tensor
        Shape (batch, time, feature), or (batch, time) of tokens.

    Returns
    -------
    Tensor
        Shape (time, batch, input).
    """
    was_training = model.training
    model.eval()
    cell_inputs = model.cell_inputs(inputs)
    model.train(was_training)
    return cell_inputs


def measure_classifier(
    model: Model, split: Split, *, batch_size: int, size: int = 0
) -> dict[str, float]:
    """Measure loss, accuracy and adjoint norms of a classifier.

    The norms are those of equation (3.5) of the dissertation, sums over sequences, as logarithms.
    Each sequence contributes the gradient of its own loss, not of the batch mean. The adjoint
    lambda of the paper is the gradient with respect to the tensors that the head reads: all tensors
    of the final state, or one of them.

    Parameters
    ----------
    model : Model
        A model that reads the last state, or all tensors of it.
    split : Split
    batch_size : int
        Number of sequences per forward and backward pass.
    size : int
        Number of sequences to measure, from the start of the split; 0 for all.

    Returns
    -------
    dict
        A value for each name in `study.results.factorial.MEASUREMENTS`: the mean loss in nat, the
        accuracy, and log10 of summed norms. All are ``nan`` if the loss is not finite.
    """
    output = copy.deepcopy(model.output).double().requires_grad_(False)
    device = output.weight.device
    size = min(size or len(split), len(split))
    reads_all = model.read == "all"
    loss = 0.0
    correct = 0
    norms: dict[str, list[Tensor]] = {
        name: [] for name in MEASUREMENTS if name.startswith("adjoint")
    }
    for first in range(0, size, batch_size):
        last = min(first + batch_size, size)
        inputs, labels = tensors(split.take(slice(first, last)), device)
        u = cell_inputs_without_dropout(model, inputs)
        losses = partial(head_losses, output, labels)
        adjoints = adjoint_norms(model.cell, u, losses, times=(1, u.shape[0]), whole=reads_all)
        features = model.head_inputs(adjoints.final_states)
        logits = output(features)
        loss += cross_entropy(logits, labels, reduction="sum").item()
        correct += (predicted_classes(logits) == labels).sum().item()
        read_by_head = adjoints.full if reads_all else adjoints.readout
        for name, t in (("adjoint_first", 0), ("adjoint_last", -1)):
            norms[name].append(log10_sum(read_by_head[t]))
            norms[f"{name}_full"].append(log10_sum(adjoints.full[t]))
    if not np.isfinite(loss):
        return dict.fromkeys(MEASUREMENTS, float("nan"))
    summed_norms = {name: log10_sum(torch.stack(parts)).item() for name, parts in norms.items()}
    return {"loss": loss / size, "accuracy": correct / size, **summed_norms}


def head_losses(output: nn.Linear, labels: Tensor, x: Tensor) -> Tensor:
    """Return the cross entropy of a head's predictions for each sequence.

    Parameters
    ----------
    output : nn.Linear
        The head.
    labels : Tensor
        Classes, shape (batch,).
    x : Tensor
        Inputs of the head, shape (batch, d).

    Returns
    -------
    Tensor
        In nats, shape (batch,).
    """
    return cross_entropy(output(x), labels, reduction="none")


def penalized_loss(model: Model, inputs: Tensor, classes: Tensor, kappa: float) -> PenalizedLoss:
    """Return loss and coadjoint penalty of a classifier that reads its last state.

    Parameters
    ----------
    model : Model
    inputs : Tensor
        Shape (batch, time, feature), or (batch, time) of tokens.
    classes : Tensor
        Shape (batch,).
    kappa : float
        Weight of the penalty G (dissertation, equation 2.20).

    Returns
    -------
    longrnn.probes.coadjoint.PenalizedLoss
        Total F + kappa G, loss F, and penalty G.
    """
    losses = partial(head_losses, model.output, classes)
    return coadjoint_loss(model.cell, model.cell_inputs(inputs), losses, kappa=kappa)
