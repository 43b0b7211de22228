"""The state of a run in a file, so that hours of training survive a kill."""

import math
import time
from functools import partial
from pathlib import Path

import torch
from torch import nn

from study.training.batches import Batches
from study.training.sealed import read_sealed, say, write_sealed
from study.training.state import RunState

EVERY = 180.0
"""Seconds between two checkpoints."""
Stepped = list[torch.optim.Optimizer | torch.optim.lr_scheduler.LRScheduler]
"""Optimizers and schedulers, which have a state of their own."""


class Checkpoint:
    """Where the state of a run is kept.

    Attributes
    ----------
    resumed : bool
        Whether the run went on from a stored state.
    """

    _last_line = -math.inf
    """Time of the last line of progress in this process."""

    def __init__(
        self, path: Path, title: str = "run", *, every: float = EVERY, batch_size: int = 1
    ) -> None:
        """Name the file of a run.

        Parameters
        ----------
        path : Path
            The file. It is named after everything the run depends on, so that no run reads the
            state of another.
        title : str
            What lines of progress call the run.
        every : float
            Seconds between two checkpoints.
        batch_size : int
            Number of runs in the same vmapped pass. Each counts an equal share of the time.
        """
        self.resumed = False
        self._path = Path(path)
        self._title = title
        self._every = every
        self._batch_size = batch_size
        self._started_at = time.monotonic()
        self._saved_at = self._started_at
        self._process_time_at_start = time.process_time()
        self._earlier_seconds = 0.0
        self._first_step = 0

    @property
    def seconds(self) -> float:
        """Processor time of the run, including that before its last checkpoint."""
        here = time.process_time() - self._process_time_at_start
        return self._earlier_seconds + here / self._batch_size

    def restore(
        self, model: nn.Module, stepped: Stepped, batches: Batches, state: RunState
    ) -> None:
        """Remember what makes up the run, and load its last state if the file holds one.

        Parameters
        ----------
        model : nn.Module
        stepped : list
            Optimizers and schedulers.
        batches : Batches
        state : RunState
            All four are changed in place, and PyTorch's generators, which draw dropout masks. A
            damaged file is renamed, and the run begins anew.
        """
        self._model = model
        self._stepped = stepped
        self._batches = batches
        self._state = state
        # Tensors and numbers only: nothing is unpickled.
        load = partial(torch.load, weights_only=True)
        stored = read_sealed(self._path, load, f"{self._title} begins anew")
        if stored is None:
            return
        model.load_state_dict(stored["model"])
        for part, part_state in zip(stepped, stored["stepped"], strict=True):
            part.load_state_dict(part_state)
        torch.random.set_rng_state(stored["torch"])
        if stored["cuda"] is not None:
            torch.cuda.set_rng_state(stored["cuda"])
        batches.restore(stored["batches"])
        vars(state).update(stored["state"])
        self._first_step = state.step
        self._earlier_seconds = stored["seconds"]
        self.resumed = True
        say(f"{self._title}: goes on from step {state.step}")

    def save(self) -> None:
        """Write the state of the run."""
        stored = {
            "model": self._model.state_dict(),
            "stepped": [part.state_dict() for part in self._stepped],
            "torch": torch.random.get_rng_state(),
            "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
            "batches": self._batches.state(),
            "state": vars(self._state),
            "seconds": self.seconds,
        }
        write_sealed(self._path, partial(torch.save, stored))

    def save_if_due(self, total_steps: int) -> None:
        """Save the state if the last checkpoint is old, and print how far the run is.

        Parameters
        ----------
        total_steps : int
            Length of the run, from which the remaining time is estimated.
        """
        now = time.monotonic()
        if now - self._saved_at < self._every:
            return
        self.save()
        self._saved_at = time.monotonic()
        if now - Checkpoint._last_line >= self._every:
            Checkpoint._last_line = now
            say(self._progress(now, total_steps))

    def _progress(self, now: float, total_steps: int) -> str:
        state = self._state
        steps_here = max(state.step - self._first_step, 1)
        seconds_left = (now - self._started_at) / steps_here * (total_steps - state.step)
        last_row = state.rows[-1] if state.rows else {}
        measured = [f"{name} {value:.4g}" for name, value in last_row.items() if name != "step"]
        return (
            f"{self._title}: step {state.step} of {total_steps}, "
            f"about {seconds_left / 60:.0f} min left; {', '.join(measured)}"
        )
