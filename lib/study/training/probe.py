"""The measures that `params.yaml` can request in addition to losses and metrics.

`study.training.runs` calls `Probe` before training, at every record, after training, and once more
with the best weights.
"""

import copy
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from longrnn.probes.adjoint import adjoint_norms
from longrnn.probes.lyapunov import log_gain, singular_values
from longrnn.probes.time_steps import count_time_steps
from torch import Tensor

from study.config.run import RunConfig
from study.results.rows import POSITIONS
from study.tasks import Split, Task
from study.training.equilibria import equilibrium_eigenvalues, real_part_fractions
from study.training.measures import (
    cell_inputs_without_dropout,
    head_losses,
    measure_classifier,
    penalized_loss,
)
from study.training.model import Model
from study.training.scores import as_double, task_loss, tensors
from study.training.state import NUMERICAL_ERRORS

WITH_RECORDS = ("gains", "penalty")
"""Measures that are computed at every record."""
BEFORE_AND_AFTER = (
    "time_steps",
    "adjoint_norms",
    "adjoint_curve",
    "singular_values",
    "eigenvalues",
)
"""Measures that are computed before and after training."""
_EIGENVALUE_SEQUENCES = 8
"""Sequences along which eigenvalues are computed."""
_EIGENVALUE_EVERY = 4
"""Eigenvalues are computed at every 4th time step."""
_MAY_BE_NAN = "time_step_share"
"""A variable that is padded with ``nan`` for cells with fewer layers."""

Values = dict[str, np.ndarray | float]


class Probe:
    """Computes the measures that a run requests.

    The method of each measure, see `_METHODS`, returns variables of `study.results.rows` by name.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        model: Model,
        train: Split,
        test: Split,
        device: torch.device,
    ) -> None:
        """Select the sequences to measure.

        Parameters
        ----------
        config : RunConfig
            `config.measurement` lists the measures and the number of sequences.
        task : Task
        model : Model
            The model, which training changes in place.
        train, test : Split
            The first sequences of these splits are measured.
        device : torch.device
            The device of the model.
        """
        measurement = config.measurement
        measured = slice(measurement.measure_size or None)
        self._requested = measurement.measures
        self._stretch = measurement.stretch
        self._measure_size = measurement.measure_size
        self._task = task
        self._model = model
        self._test = test
        self._train_batch = tensors(train.take(measured), device)
        self._test_batch = tensors(test.take(measured), device)

    def compute(self, *names: str) -> Values:
        """Compute the named measures, and skip those that the run doesn't request.

        Parameters
        ----------
        *names : str
            Names of measures.

        Returns
        -------
        dict
            Their variables by name.
        """
        values: Values = {}
        for name in names:
            if name in self._requested:
                values |= _METHODS[name](self)
        return values

    def compute_before_or_after(self) -> tuple[Values, bool]:
        """Compute the requested measures of `BEFORE_AND_AFTER`.

        Returns
        -------
        values : dict
            Their variables by name; empty if one of them failed.
        is_valid : bool
            False if one of them failed or is ``nan``: the run has diverged.
        """
        try:
            values = self.compute(*BEFORE_AND_AFTER)
        except NUMERICAL_ERRORS:  # for example, a matrix is singular
            return {}, False
        checked = [value for name, value in values.items() if name != _MAY_BE_NAN]
        return values, not any(np.isnan(value).any() for value in checked)

    def _measure_gains(self) -> Values:
        """Compute medians over sequences of log10 norms of dh_T/dh_1, dh_T/dh_(T-1) and dL/dh_1.

        For an even number of sequences, PyTorch's median is the lower of the two middle values.

        Returns
        -------
        dict of str to float
            ``gain_first``, ``gain_last`` and ``adjoint_first``.
        """
        inputs, targets = self._train_batch
        cell = self._model.cell
        u = cell_inputs_without_dropout(self._model, inputs)
        adjoints = adjoint_norms(cell, u, self._losses(targets), times=(1,))
        gains = {
            "gain_first": log_gain(cell, u, 1),
            "gain_last": log_gain(cell, u, len(u) - 1),
            "adjoint_first": adjoints.readout[0],
        }
        return {name: values.median().item() for name, values in gains.items()}

    def _measure_penalty(self) -> Values:
        """Compute the coadjoint penalty G (dissertation, equation 2.20) on the whole test split.

        Returns
        -------
        dict of str to float
            ``penalty``.
        """
        inputs, classes = tensors(self._test, self._test_batch[0].device)
        model = copy.deepcopy(self._model).eval()
        return {"penalty": penalized_loss(model, inputs, classes, 0.0).penalty.item()}

    def _measure_time_steps(self) -> Values:
        """Compute the fractions of a network's time steps by size.

        Returns
        -------
        dict of str to numpy.ndarray
            ``time_step_share``, (scale, decade), see `longrnn.probes.time_steps`.
        """
        u = cell_inputs_without_dropout(self._model, self._train_batch[0])
        return {"time_step_share": count_time_steps(self._model.cell, u)}

    def _measure_adjoint_norms(self) -> Values:
        """Compute norms of the full adjoint state at the first and the last time step.

        Returns
        -------
        dict of str to numpy.ndarray
            ``adjoint_norm_first`` and ``adjoint_norm_last``: scalars, log10 of the sum over
            sequences.
        """
        norms = measure_classifier(self._model, self._test, batch_size=128, size=self._measure_size)
        return {
            "adjoint_norm_first": np.array(norms["adjoint_first_full"]),
            "adjoint_norm_last": np.array(norms["adjoint_last_full"]),
        }

    def _measure_adjoint_curve(self) -> Values:
        """Compute the median over sequences of the adjoint norm along the sequence.

        Returns
        -------
        dict of str to numpy.ndarray
            ``adjoint_curve``: log10 at the positions `study.results.rows.POSITIONS`.
        """
        inputs, targets = self._test_batch
        u = cell_inputs_without_dropout(self._model, inputs)
        times = [max(1, round(position * len(u))) for position in POSITIONS]
        norms = adjoint_norms(self._model.cell, u, self._losses(targets), times=times)
        medians = norms.readout.median(dim=1).values.tolist()
        median_at = dict(zip(norms.times, medians, strict=True))
        return {"adjoint_curve": np.array([median_at[t] for t in times])}

    def _measure_singular_values(self) -> Values:
        """Compute the mean log10 of the largest and the smallest singular value of dx_T/dx_(T-s).

        The number s of steps is the setting `stretch`; 0 stands for T.

        Returns
        -------
        dict of str to numpy.ndarray
            ``singular_values``, (2,): means over sequences.
        """
        u = cell_inputs_without_dropout(self._model, self._test_batch[0])
        cell = self._model.cell
        start = max(0, len(u) - (self._stretch or len(u)))
        logarithms = singular_values(cell, u, start=start).log10()
        largest = logarithms[:, 0].mean().item()
        smallest = logarithms[:, -1].mean().item()
        return {"singular_values": np.array([largest, smallest])}

    def _measure_eigenvalues(self) -> Values:
        """Compute the fractions of eigenvalues near iRNN's equilibrium by their real parts.

        Returns
        -------
        dict of str to numpy.ndarray
            ``eigenvalue_sign`` and ``eigenvalue_share``, see
            `study.training.equilibria.real_part_fractions`.
        """
        cell = copy.deepcopy(self._model.cell).cpu().double().requires_grad_(False)
        inputs = self._test_batch[0][:_EIGENVALUE_SEQUENCES]
        u = cell_inputs_without_dropout(self._model, inputs).cpu().double()
        by_sign, by_size = real_part_fractions(
            equilibrium_eigenvalues(cell, u, every=_EIGENVALUE_EVERY)
        )
        return {"eigenvalue_sign": by_sign, "eigenvalue_share": by_size}

    def _measure_trajectories(self) -> Values:
        """Compute the norms of states and adjoint states at every time step.

        Returns
        -------
        dict of str to numpy.ndarray
            ``state_norm`` and ``adjoint_norm`` (log10), (sequence, time).
        """
        inputs, labels = self._test_batch
        model = copy.deepcopy(self._model).eval().double().requires_grad_(False)
        u = model.cell_inputs(as_double(inputs))
        states, _ = model.cell(u)
        adjoints = adjoint_norms(model.cell, u, partial(head_losses, model.output, labels))
        return {
            "state_norm": states.norm(dim=2).T.cpu().numpy(),
            "adjoint_norm": adjoints.readout.T.cpu().numpy(),
        }

    def _losses(self, targets: Tensor) -> Callable[[Tensor], Tensor]:
        """Return a function from inputs of the head to the float64 loss of each sequence."""
        output = copy.deepcopy(self._model.output).double().requires_grad_(False)
        loss = task_loss(self._task)

        def losses(x: Tensor) -> Tensor:
            elements = loss(output(x), as_double(targets), reduction="none")
            return elements.view(len(x), -1).mean(1)

        return losses


_METHODS: dict[str, Callable[[Probe], Values]] = {
    "gains": Probe._measure_gains,
    "penalty": Probe._measure_penalty,
    "time_steps": Probe._measure_time_steps,
    "adjoint_norms": Probe._measure_adjoint_norms,
    "adjoint_curve": Probe._measure_adjoint_curve,
    "singular_values": Probe._measure_singular_values,
    "eigenvalues": Probe._measure_eigenvalues,
    "trajectories": Probe._measure_trajectories,
}
"""The method that computes each measure of `study.config.measurement.Measure`."""
