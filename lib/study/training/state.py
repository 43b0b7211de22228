"""The state of a run: its status, the number of steps so far, and the recorded measurements."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from longrnn.probes import Diverged
from torch import Tensor

from study.results.schema import COMPLETED, DIVERGED

NUMERICAL_ERRORS = (ArithmeticError, torch.linalg.LinAlgError)
"""Errors that end a run as diverged, because divergence is a result and not a failure.

`longrnn.probes.Diverged` and overflows of Python's numbers are kinds of `ArithmeticError`. So is
`ZeroDivisionError`, so code of measurements may only divide by zero if the run has diverged.
"""


@dataclass
class RunState:
    """Progress of one run.

    Attributes
    ----------
    step : int
        Number of optimizer steps so far.
    status : int
        `study.results.schema.COMPLETED` or `DIVERGED`.
    rows : list of dict
        Recorded measurements in order; each row also holds its ``step``.
    best : tuple of (dict, dict), optional
        Row and ``state_dict`` with the best score so far, see
        `study.training.recorder.Recorder.score`.
    loss_sum : Tensor or float
        Sum of the losses so far, on the GPU. It is only checked when a row is recorded and at the
        end, because reading it makes the host wait for the GPU. Not used on a CPU.
    """

    step: int = 0
    status: int = COMPLETED
    rows: list[dict[str, float]] = field(default_factory=list)
    best: tuple[dict[str, float], dict[str, Tensor]] | None = None
    loss_sum: Tensor | float = 0.0

    def column(self, name: str, length: int = 0) -> list[float]:
        """Return one measurement of every row.

        Parameters
        ----------
        name : str
            Name of the measurement.
        length : int
            Length to which the list is padded with ``nan``.

        Returns
        -------
        list of float
        """
        values = [row[name] for row in self.rows]
        return values + [math.nan] * (length - len(values))

    @contextlib.contextmanager
    def catching_divergence(self) -> Iterator[None]:
        """Mark the run as diverged if the block raises one of the `NUMERICAL_ERRORS`."""
        try:
            yield
        except NUMERICAL_ERRORS:
            self.status = DIVERGED

    def check_loss(self, loss: Tensor) -> None:
        """Check that the loss of a batch is finite.

        On a GPU this only adds the loss to `loss_sum`, because reading a value at every step would
        make the host wait for the GPU. `check_loss_sum` checks the sum later.

        Parameters
        ----------
        loss : Tensor
            A scalar.

        Raises
        ------
        Diverged
            The loss is infinite or ``nan``.
        """
        if loss.is_cuda:
            self.loss_sum = self.loss_sum + loss.detach()
        else:
            check_finite(loss, "the loss of a batch")

    def check_loss_sum(self) -> None:
        """Check that all losses on a GPU so far were finite.

        Raises
        ------
        Diverged
            One of them was infinite or ``nan``.
        """
        check_finite(torch.as_tensor(self.loss_sum), "the sum of the losses")


def check_finite(values: Tensor, name: str) -> None:
    """Check that all values are finite.

    Parameters
    ----------
    values : Tensor
    name : str
        What the values are, for the error message.

    Raises
    ------
    Diverged
        One of the values is infinite or ``nan``.
    """
    if not torch.isfinite(values).all():
        raise Diverged(f"{name} is not finite")
