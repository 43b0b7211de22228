"""Measurements during training: what to record, at which steps, and when to stop early.

The training loops call `Recorder.record_if_due` after every step. The measurements at one step are
called a row.
"""

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
class Recorder:
    """Records measurements at some steps of training, and says when to stop early.

    Attributes
    ----------
    measure : callable
        Returns measurements of the model as ``{name: number}``. A ``nan`` ends the run as diverged;
        ``-inf`` is an ordinary value.
    steps : container of int
        Steps to record at, as numbers of optimizer steps so far; 0 for before training.
    score : callable, optional
        Returns the score of a row; larger is better. `RunState.best` keeps the row with the largest
        score, and the weights at that step. If two scores are equal, it keeps the later row.
    stop : callable, optional
        Criterion for early stopping. Training stops, with status ``COMPLETED``, after the first row
        for which this returns True.
    """

    measure: Callable[[nn.Module], Row]
    steps: Container[int]
    score: Callable[[Row], Any] | None = None
    stop: Callable[[Row], bool] | None = None

    def record_if_due(self, model: nn.Module, state: RunState) -> bool:
        """Measure the model if ``state.step`` is a step to record at.

        Parameters
        ----------
        model : nn.Module
            The model after ``state.step`` optimizer steps.
        state : RunState
            Gets a new row, and a copy of the model's weights if they are the best so far.

        Returns
        -------
        bool
            Whether to stop training now. Always False at a step that is not recorded.

        Raises
        ------
        Diverged
            A weight or a measurement is ``nan``, or (on a GPU) a loss so far was not finite.
        """
        if state.step not in self.steps:
            return False
        state.check_loss_sum()
        for name, weight in model.named_parameters():
            if weight.isnan().any():
                raise Diverged(f"{name} is not a number after {state.step} steps")
        row = {name: float(value) for name, value in self.measure(model).items()}
        for name, value in row.items():
            if math.isnan(value):
                raise Diverged(f"{name} is not a number after {state.step} steps")
        row["step"] = state.step
        state.rows.append(row)
        if self._is_best(row, state):
            weights = copy.deepcopy(model.state_dict())
            state.best = (row, weights)
        return self.stop is not None and self.stop(row)

    def _is_best(self, row: Row, state: RunState) -> bool:
        if self.score is None:
            return False
        if state.best is None:
            return True
        return self.score(row) >= self.score(state.best[0])


NO_RECORDER = Recorder(measure=lambda model: {}, steps=())
"""The recorder of a run that measures nothing during training."""


def epoch_ends(steps_per_epoch: int, total_steps: int) -> range:
    """Return the steps at which an epoch ends, for `Recorder.steps`.

    Parameters
    ----------
    steps_per_epoch : int
        Batches per epoch.
    total_steps : int
        Length of the run in optimizer steps.

    Returns
    -------
    range
    """
    return range(steps_per_epoch, total_steps + 1, steps_per_epoch)
