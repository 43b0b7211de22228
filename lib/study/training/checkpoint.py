"""Checkpoints: a long run that is killed resumes from its last saved state."""

import io
import math
import time
from pathlib import Path

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from study.training.batches import Batches
from study.training.log import log_line
from study.training.sealed import read_sealed, write_sealed
from study.training.state import RunState

SECONDS_BETWEEN = 180.0
"""Seconds between two checkpoints."""


class Checkpoint:
    """The file that holds the state of one run.

    The training loop calls `track` and `resume` once before the first step, and `save_if_due` after
    every step. `study.training.progress.PendingJob.store` deletes the file when the result is
    stored.

    Attributes
    ----------
    resumed : bool
        Whether the run resumed from a saved state.
    """

    _last_line = -math.inf
    """Value of `time.monotonic` when this process last printed a line of progress."""

    def __init__(
        self,
        path: Path,
        title: str = "run",
        *,
        every: float = SECONDS_BETWEEN,
        runs_in_pass: int = 1,
    ) -> None:
        """Name the file of a run.

        Parameters
        ----------
        path : Path
            The file. Its name is a hash of everything the run depends on, so no run can read the
            state of another.
        title : str
            Name of the run in lines of progress.
        every : float
            Seconds between two checkpoints.
        runs_in_pass : int
            Number of runs in the same vmapped pass. Each run is charged an equal share of the
            processor time.
        """
        self.resumed = False
        self._path = Path(path)
        self._title = title
        self._every = every
        self._runs_in_pass = runs_in_pass
        self._started_at = time.monotonic()
        self._saved_at = self._started_at
        self._process_time_at_start = time.process_time()
        self._earlier_seconds = 0.0
        self._first_step = 0

    @property
    def seconds(self) -> float:
        """Processor time of the run so far, including the time before the last resume."""
        seconds_here = time.process_time() - self._process_time_at_start
        return self._earlier_seconds + seconds_here / self._runs_in_pass

    def track(
        self,
        model: nn.Module,
        optimizers: list[Optimizer | LRScheduler],
        batches: Batches,
        state: RunState,
    ) -> None:
        """Keep references to the objects whose state `save` writes and `resume` loads.

        Parameters
        ----------
        model : nn.Module
        optimizers : list
            Optimizers and learning rate schedulers.
        batches : Batches
        state : RunState
        """
        self._model = model
        self._optimizers = optimizers
        self._batches = batches
        self._state = state

    def resume(self) -> None:
        """Load the saved state into the tracked objects, if the file exists.

        PyTorch's random generators, which draw dropout masks, are set to their saved states as
        well. If the file is damaged, it is renamed and the run starts over.
        """
        content = read_sealed(self._path, f"{self._title} starts over")
        if content is None:
            return
        # weights_only: the file contains only tensors and plain values; code in it never runs.
        stored = torch.load(io.BytesIO(content), weights_only=True)
        self._model.load_state_dict(stored["model"])
        for optimizer, optimizer_state in zip(self._optimizers, stored["optimizers"], strict=True):
            optimizer.load_state_dict(optimizer_state)
        torch.random.set_rng_state(stored["torch"])
        if stored["cuda"] is not None:
            torch.cuda.set_rng_state(stored["cuda"])
        self._batches.restore(stored["batches"])
        vars(self._state).update(stored["state"])
        self._first_step = self._state.step
        self._earlier_seconds = stored["seconds"]
        self.resumed = True
        log_line(f"{self._title}: resumes at step {self._state.step}")

    def save(self) -> None:
        """Write the state of the tracked objects."""
        stored = {
            "model": self._model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
            "torch": torch.random.get_rng_state(),
            "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
            "batches": self._batches.state(),
            "state": vars(self._state),
            "seconds": self.seconds,
        }
        buffer = io.BytesIO()
        torch.save(stored, buffer)
        write_sealed(self._path, buffer.getvalue())

    def save_if_due(self, total_steps: int) -> None:
        """Save the state if the last checkpoint is older than `every`, and print the progress.

        If the state can't be saved, for example because the disk is full, training goes on. The
        earlier checkpoint stays, and after `every` seconds it is tried again.

        Parameters
        ----------
        total_steps : int
            Length of the run in steps, to estimate the remaining time.
        """
        now = time.monotonic()
        if now - self._saved_at < self._every:
            return
        try:
            self.save()
        except OSError as error:
            log_line(f"{self._title}: its state is not saved ({error}); training goes on")
        self._saved_at = time.monotonic()
        if now - Checkpoint._last_line >= self._every:
            Checkpoint._last_line = now
            log_line(self._progress(now, total_steps))

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
