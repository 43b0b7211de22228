"""What is measured on a classifier while it is trained: loss, accuracy, and the adjoint states at both ends."""

import copy
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from lib.probes.adjoint import adjoint_norms, log10_sum
from lib.results.factorial import MEASUREMENTS
from lib.tasks import Part
from lib.training.model import Model, cross_entropy, likeliest, tensors


def measure(model: Model, part: Part, *, batch_size: int, size: int = 0) -> dict[str, float]:
    """Measure a classifier on sequences: one value for each of `lib.results.factorial.MEASUREMENTS`.

    The model reads the last state, or all tensors of it. Of `size` sequences the first are measured; 0, or more than there are,
    means all.

    Equation (3.5) of the dissertation: the norms are summed over sequences before the logarithm is taken. Each
    sequence's own loss is differentiated, not the batch's mean. Where the head sees all states, so does the adjoint that the
    text calls lambda.
    """
    output = copy.deepcopy(model.output).double().requires_grad_(False)
    device = output.weight.device
    size = min(size or len(part), len(part))
    whole = model.read == "all"
    loss = correct = 0.0
    norms = {name: [] for name in MEASUREMENTS if name.startswith("adjoint")}
    for start in range(0, size, batch_size):
        inputs, labels = tensors(part.take(slice(start, min(start + batch_size, size))), device)
        with torch.no_grad():
            u = model.drive(inputs)
        summed = partial(summed_loss, output, labels)
        adjoints = adjoint_norms(model.cell, u, summed, times=(1, u.shape[0]), whole=whole)
        last = model.seen(adjoints.final_states)
        loss += summed(last).item()
        correct += (likeliest(output(last)) == labels).sum().item()
        for where, t in (("first", 0), ("last", -1)):
            read = adjoints.full if whole else adjoints.readout
            norms[f"adjoint_{where}"].append(log10_sum(read[t]))
            norms[f"adjoint_{where}_full"].append(log10_sum(adjoints.full[t]))
    if not np.isfinite(loss):
        return dict.fromkeys(MEASUREMENTS, float("nan"))
    found = {name: log10_sum(torch.stack(parts)).item() for name, parts in norms.items()}
    return {"loss": loss / size, "accuracy": correct / size, **found}


def summed_loss(output: nn.Linear, labels: Tensor, x: Tensor) -> Tensor:
    """Return the sum over sequences of the cross entropy of what the head sees, (batch, ..)."""
    return cross_entropy(output(x), labels, reduction="sum")
