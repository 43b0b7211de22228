"""What is recorded during training, and at which steps."""

import copy
import math
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from longrnn.probes import Diverged
from torch import nn

from study.training.state import RunState

Row = Mapping[str, float]


@dataclass(frozen=True)
class Record:
    """What to record during training.

    Attributes
    ----------
    measure : callable
        Returns measurements of the model as ``{name: number}``. A ``nan`` ends the run as diverged;
        ``-inf`` is an ordinary value.
    steps : container of int
        Optimizer steps to record at; 0 is before training.
    keep : callable, optional
        Figure of merit of a row. The weights at the largest one are kept, of equals the last.
    stop : callable, optional
        Training ends, as completed, once this is true of a row.
    """

    measure: Callable[[nn.Module], Row]
    steps: Container[int]
    keep: Callable[[Row], Any] | None = None
    stop: Callable[[Row], bool] | None = None

    def add_if_due(self, model: nn.Module, state: RunState) -> bool:
        """Measure the model if its step is one to record at.

        Parameters
        ----------
        model : nn.Module
            The model after ``state.step`` optimizer steps.
        state : RunState
            A row is added to it, and the model's weights if they are the best.

        Returns
        -------
        bool
            Whether training is to stop now.

        Raises
        ------
        Diverged
            A measurement, or a loss since the last record, is not a number.
        """
        if state.step not in self.steps:
            return False
        state.check_loss_sum()
        row = {name: float(value) for name, value in self.measure(model).items()}
        for name, value in row.items():
            if math.isnan(value):
                raise Diverged(f"{name} is not a number after {state.step} steps")
        row["step"] = state.step
        state.rows.append(row)
        if self._is_best(row, state):
            state.best = row, copy.deepcopy(model.state_dict())
        return self.stop is not None and self.stop(row)

    def _is_best(self, row: Row, state: RunState) -> bool:
        if self.keep is None:
            return False
        if state.best is None:
            return True
        return self.keep(row) >= self.keep(state.best[0])


NOTHING = Record(measure=lambda model: {}, steps=())


def every_epoch(steps_per_epoch: int, total_steps: int) -> range:
    """Return the steps at which an epoch ends."""
    return range(steps_per_epoch, total_steps + 1, steps_per_epoch)
