"""What a row measures of its network beside losses and metrics: with every record, before and after training, and of the one that is kept."""

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from lib.probes.adjoint import adjoint_norms
from lib.probes.lyapunov import singular_values
from lib.probes.state_gains import state_gains
from lib.probes.time_steps import counted
from lib.results.rows import POSITIONS
from lib.tasks import Part, Task
from lib.training.job import Job
from lib.training.measure import measure
from lib.training.model import Model, task_loss, tensors, wide
from lib.training.objectives import class_losses, penalised

WITH_RECORDS = ("gains", "penalty")
AT_ENDS = ("time_steps", "adjoint_norms", "adjoint_curve", "singular_values")
_COUNTING = ("lu_rnn", "inverse_rnn")
"""Cells whose second state counts steps and is no memory."""


class Probe:
    """Measures of a model on a task, each a method; a row asks for them by name (`lib.training.rows.Row.measures`)."""

    def __init__(
        self, row: Job, task: Task, model: Model, train: Part, test: Part, device: torch.device
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
        except ArithmeticError:  # such as a matrix that has become singular
            return {}, False
        unused = "time_step_share"  # of layers that a cell has not
        return found, not any(np.isnan(v).any() for name, v in found.items() if name != unused)

    def gains(self) -> dict[str, float]:
        inputs, targets = self._trained_on
        u = driven(self._model, inputs)
        return state_gains(self._model.cell, u, self._summed_loss(targets))

    def penalty(self) -> dict[str, float]:
        all_tested = tensors(self._test, self._tested[0].device)
        return {"penalty": penalised(self._model, *all_tested, 0.0).penalty.item()}

    def time_steps(self) -> dict[str, np.ndarray]:
        u = driven(self._model, self._trained_on[0])
        return {"time_step_share": counted(self._model.cell, u)}

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

    def trajectories(self) -> dict[str, np.ndarray]:
        inputs, labels = self._tested
        model = copy.deepcopy(self._model).double().requires_grad_(False)
        u = model.drive(inputs.double())
        states, _ = model.cell(u)
        adjoints = adjoint_norms(model.cell, u, lambda x: class_losses(model, labels, x).sum())
        return {
            "state_norm": states.norm(dim=2).T.numpy(),
            "adjoint_norm": adjoints.readout.T.numpy(),
        }

    def _summed_loss(self, targets: Tensor) -> Callable[[Tensor], Tensor]:
        output = copy.deepcopy(self._model.output).double().requires_grad_(False)
        loss = task_loss(self._task)
        return lambda x: loss(output(x), wide(targets)) * len(x)


@torch.no_grad()
def driven(model: Model, inputs: Tensor) -> Tensor:
    """Return what the cell reads, without dropout: measuring draws nothing that training would have drawn."""
    was_training = model.training
    found = model.eval().drive(inputs)
    model.train(was_training)
    return found
