"""What is measured of a network beside losses and metrics: with every record, before and after training, and of the one that is kept."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from longrnn.probes.adjoint import adjoint_norms, log10_sum
from longrnn.probes.coadjoint import Penalised, coadjoint_loss
from longrnn.probes.lyapunov import log_gain, singular_values
from longrnn.probes.time_steps import count_time_steps
from torch import Tensor, nn

from study.results.factorial import MEASUREMENTS
from study.results.rows import POSITIONS
from study.tasks import Part, Task
from study.training.equilibria import signs, stability
from study.training.scores import cross_entropy, likeliest, task_loss, tensors, wide

WITH_RECORDS = ("gains", "penalty")
AT_ENDS = ("time_steps", "adjoint_norms", "adjoint_curve", "singular_values", "eigenvalues")
FOLLOWED = 8
"""Sequences along which eigenvalues are taken."""
_COUNTING = ("lu_rnn", "inverse_rnn", "irnn")
"""Cells whose second state counts steps and is no memory."""


class Probe:
    """Measures of a model (`study.training.model.Model`) on a task, each a method; a row asks for them by name (`study.training.rows.Row.measures`)."""

    def __init__(
        self, row: Any, task: Task, model: nn.Module, train: Part, test: Part, device: torch.device
    ) -> None:
        self._row, self._task, self._model, self._test = row, task, model, test
        measured = slice(row.measure_size or None)
        self._trained_on = tensors(train.take(measured), device)
        self._tested = tensors(test.take(measured), device)

    def asked(self, *names: str) -> dict[str, np.ndarray | float]:
        """Return what those of the measures find that the row asks for."""
        return {
            variable: value
            for name in names
            if name in self._row.measures
            for variable, value in getattr(self, name)().items()
        }

    def ends(self) -> tuple[dict[str, np.ndarray], bool]:
        """Return what is measured before and after training, and whether all of it is a number."""
        try:
            found = self.asked(*AT_ENDS)
        except (ArithmeticError, torch.linalg.LinAlgError):  # such as of a singular matrix
            return {}, False
        unused = "time_step_share"  # of layers that a cell has not
        return found, not any(np.isnan(v).any() for name, v in found.items() if name != unused)

    def gains(self) -> dict[str, float]:
        """Medians over sequences (the lower middle value) of log10 norms: of dh_T/dh_1, of dh_T/dh_(T-1), and of the adjoint state at time 1."""
        inputs, targets = self._trained_on
        cell, u = self._model.cell, driven(self._model, inputs)
        adjoint = adjoint_norms(cell, u, self._summed_loss(targets), times=(1,)).readout[0]
        gains = {"gain_first": log_gain(cell, u, 1), "gain_last": log_gain(cell, u, len(u) - 1)}
        return {name: v.median().item() for name, v in (gains | {"adjoint_first": adjoint}).items()}

    def penalty(self) -> dict[str, float]:
        all_tested = tensors(self._test, self._tested[0].device)
        model = copy.deepcopy(self._model).eval()
        return {"penalty": penalised(model, *all_tested, 0.0).penalty.item()}

    def time_steps(self) -> dict[str, np.ndarray]:
        u = driven(self._model, self._trained_on[0])
        return {"time_step_share": count_time_steps(self._model.cell, u)}

    def adjoint_norms(self) -> dict[str, np.ndarray]:
        norms = measure(self._model, self._test, batch_size=128, size=self._row.measure_size)
        return {
            f"adjoint_norm_{end}": np.array(norms[f"adjoint_{end}_full"])
            for end in ("first", "last")
        }

    def adjoint_curve(self) -> dict[str, np.ndarray]:
        inputs, targets = self._tested
        u = driven(self._model, inputs)
        times = [max(1, round(position * len(u))) for position in POSITIONS]
        norms = adjoint_norms(self._model.cell, u, self._summed_loss(targets), times=times)
        medians = norms.readout.median(dim=1).values.tolist()
        by_time = dict(zip(norms.times, medians, strict=True))
        return {"adjoint_curve": np.array([by_time[t] for t in times])}

    def singular_values(self) -> dict[str, np.ndarray]:
        u = driven(self._model, self._tested[0])
        parts = (0,) if self._row.cell in _COUNTING else None
        start = max(0, len(u) - (self._row.stretch or len(u)))
        values = singular_values(self._model.cell, u, parts=parts, start=start).log10()
        return {"singular_values": np.array([values[:, end].mean().item() for end in (0, -1)])}

    def eigenvalues(self) -> dict[str, np.ndarray]:
        """Of the first `FOLLOWED` sequences, at every fourth step."""
        cell = copy.deepcopy(self._model.cell).cpu().double().requires_grad_(False)
        u = driven(self._model, self._tested[0][:FOLLOWED]).cpu().double()
        by_sign, by_size = signs(stability(cell, u, every=4))
        return {"eigenvalue_sign": by_sign, "eigenvalue_share": by_size}

    def trajectories(self) -> dict[str, np.ndarray]:
        inputs, labels = self._tested
        model = copy.deepcopy(self._model).eval().double().requires_grad_(False)
        u = model.drive(wide(inputs))
        states, _ = model.cell(u)
        adjoints = adjoint_norms(model.cell, u, lambda x: class_losses(model, labels, x).sum())
        return {
            "state_norm": states.norm(dim=2).T.cpu().numpy(),
            "adjoint_norm": adjoints.readout.T.cpu().numpy(),
        }

    def _summed_loss(self, targets: Tensor) -> Callable[[Tensor], Tensor]:
        output = copy.deepcopy(self._model.output).double().requires_grad_(False)
        loss = task_loss(self._task)
        return lambda x: loss(output(x), wide(targets)) * len(x)


@torch.no_grad()
def driven(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return what the cell reads, without dropout: measuring draws nothing that training would have drawn."""
    was_training = model.training
    found = model.eval().drive(inputs)
    model.train(was_training)
    return found


def measure(model: nn.Module, part: Part, *, batch_size: int, size: int = 0) -> dict[str, float]:
    """Measure a classifier on sequences: one value for each of `study.results.factorial.MEASUREMENTS`.

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
        u = driven(model, inputs)
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


def penalised(model: nn.Module, inputs: Tensor, classes: Tensor, kappa: float) -> Penalised:
    """Return loss and penalty G of a classifier that reads its last state."""
    losses = partial(class_losses, model, classes)
    return coadjoint_loss(model.cell, model.drive(inputs), losses, kappa=kappa)


def class_losses(model: nn.Module, classes: Tensor, x: Tensor) -> Tensor:
    """Return the cross entropy of each sequence, (batch,), from what the head sees of it."""
    return cross_entropy(model.output(x), classes, reduction="none")
