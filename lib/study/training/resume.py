"""What a training has come to, and its state in a file, so that hours of it survive a kill: no file is believed without its hash."""

import hashlib
import io
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from study.pipeline.files import set_aside, write_whole
from study.training.batches import Batches

EVERY = 180.0
"""Seconds between two states."""
Moving = list[torch.optim.Optimizer | torch.optim.lr_scheduler.LRScheduler]
"""What moves weights, and its own state, in training."""


@dataclass
class Fit:
    """What came of a training: `study.results.schema.COMPLETED` or `DIVERGED` after so many steps, and what was recorded until then, with ``step``.

    `kept` are the row of the model that is kept, and its weights; none where nothing asks for it. `losses` is the sum of all on a GPU.
    """

    status: int
    steps: int
    rows: list[dict[str, float]]
    kept: tuple[dict[str, float], dict[str, Tensor]] | None = None
    losses: Tensor | float = 0.0

    def column(self, name: str, length: int) -> list[float]:
        """Return one measurement of all rows, filled up with ``nan`` to `length`."""
        values = [row[name] for row in self.rows]
        return values + [math.nan] * (length - len(values))


class Resume:
    """Where a training keeps its state.

    The file at `path` is named after all that the training depends on, so that a state is never taken for another's; `what` are a few words
    on the training, for the line that tells how far it is, `every` the seconds between two states. Of trainings `beside` each other each
    keeps its own and is said to take an equal share of the process's time, and the first of them says how far it is.
    """

    _printed = -math.inf
    """When any in this process said last how far it is."""

    def __init__(
        self, path: Path, what: str = "training", *, every: float = EVERY, beside: int = 1
    ) -> None:
        self._path, self._what, self._every, self._beside = Path(path), what, every, beside
        self._began = self._saved = time.monotonic()
        self._process_began, self._seconds_before = time.process_time(), 0.0
        self._first = 0
        self.resumed = False
        """Whether the training went on from a state."""

    @property
    def seconds(self) -> float:
        """What the training has taken of its processes' time, that before its last state included."""
        return self._seconds_before + (time.process_time() - self._process_began) / self._beside

    def save_if_due(self, total: int) -> None:
        """Write the state if the last one is old, and say how far the training is."""
        now = time.monotonic()
        if now - self._saved < self._every:
            return
        self.save()
        self._saved = time.monotonic()
        if now - Resume._printed < self._every:
            return
        Resume._printed = now
        *_, done = self._state
        left = (now - self._began) / max(done.steps - self._first, 1) * (total - done.steps)
        last = done.rows[-1] if done.rows else {}
        measured = ", ".join(f"{name} {last[name]:.4g}" for name in last if name != "step")
        say(
            f"{self._what}: step {done.steps} of {total}, about {left / 60:.0f} min left; {measured}"
        )

    def save(self) -> None:
        """Write the state: what training moves, the generators, from which masks of dropout come, too, and what was recorded."""
        model, moving, batches, done = self._state
        held = {
            "model": model.state_dict(),
            "moving": [part.state_dict() for part in moving],
            "torch": torch.random.get_rng_state(),
            "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
            "batches": batches.state(),
            "done": vars(done),
            "seconds": self.seconds,
        }
        write_sealed(self._path, partial(torch.save, held))

    def begin(self, model: nn.Module, moving: Moving, batches: Batches, done: Fit) -> None:
        """Begin with these, from the state in the file if there is one that can be trusted; otherwise put it aside and leave all as it is."""
        self._state = model, moving, batches, done
        # Tensors and numbers alone.
        load = partial(torch.load, weights_only=True)
        held = read_sealed(self._path, load, f"{self._what} begins anew")
        if held is None:
            return
        model.load_state_dict(held["model"])
        for part, state in zip(moving, held["moving"], strict=True):
            part.load_state_dict(state)
        torch.random.set_rng_state(held["torch"])
        if held["cuda"] is not None:
            torch.cuda.set_rng_state(held["cuda"])
        batches.restore(held["batches"])
        vars(done).update(held["done"])
        self._first, self._seconds_before, self.resumed = done.steps, held["seconds"], True
        say(f"{self._what}: goes on from step {done.steps}")


def write_sealed(path: Path, write: Callable[[io.BytesIO], object]) -> Path:
    """Keep what `write` writes in a file, whole or not at all, behind it a hash of it and of the file's name."""
    buffer = io.BytesIO()
    write(buffer)
    content = buffer.getvalue()
    return write_whole(path, lambda file: file.write_bytes(content + _seal(path, content)))


def read_sealed(path: Path, read: Callable[[io.BytesIO], Any], instead: str) -> Any:
    """Return what `read` makes of what was written; None where there is no file that can be trusted.

    One that is damaged, altered or another job's is put aside under a name that nothing reads, and a sentence says so and what
    happens `instead`. What a disk or a want of memory makes of reading is raised (OSError, MemoryError), and the file stays.
    """
    if not os.path.lexists(path):
        return None
    try:
        whole = path.read_bytes() if path.is_file() else b""
        content = whole[:-32]  # before the hash
        if whole != content + _seal(path, content):
            raise ValueError("its content is not what was written")
        return read(io.BytesIO(content))
    except (MemoryError, OSError):  # of this machine, not of the file
        raise
    except Exception as error:  # whatever a damaged file makes anyone raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        say(f"{path.name} is damaged ({reason}); {instead}")
        set_aside(path)
        return None


def _seal(path: Path, content: bytes) -> bytes:
    return hashlib.sha256(path.stem.encode() + content).digest()


def say(line: str) -> None:
    """Print a line to the standard error, which no stored notebook keeps."""
    print(line, file=sys.stderr, flush=True)
