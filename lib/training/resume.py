"""The state of a training in a file, so that hours of it survive a kill."""

import hashlib
import io
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lib.run.files import write_whole
from lib.training.batches import Batches
from lib.training.outcome import Fit

EVERY = 180.0
"""Seconds between two states."""


class Resume:
    """Where a training keeps its state.

    Parameters
    ----------
    path
        The file; it is named after all that the training depends on, so that a state is never taken for another's.
    what
        A few words on the training, for the line that tells how far it is.
    every
        Seconds between two states. Trainings side by side keep theirs one after another, and the first of them says how far it is.
    beside
        Trainings side by side, of which each is said to take an equal share of the process's time.
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

    def save_if_due(
        self, model: nn.Module, moving: dict[str, list], batches: Batches, done: Fit, total: int
    ) -> None:
        """Write the state if the last one is old, and say how far the training is."""
        now = time.monotonic()
        if now - self._saved < self._every:
            return
        self.save(model, moving, batches, done)
        self._saved = time.monotonic()
        if now - Resume._printed < self._every:
            return
        Resume._printed = now
        left = (now - self._began) / max(done.steps - self._first, 1) * (total - done.steps)
        last = done.rows[-1] if done.rows else {}
        measured = ", ".join(f"{name} {last[name]:.4g}" for name in last if name != "step")
        print(
            f"{self._what}: step {done.steps} of {total}, about {left / 60:.0f} min left; {measured}",
            file=sys.stderr,
            flush=True,
        )

    def save(self, model: nn.Module, moving: dict[str, list], batches: Batches, done: Fit) -> None:
        """Write the state: weights, optimisers, generators, and what was recorded."""
        held: dict[str, Any] = {
            "model": model.state_dict(),
            **{name: [part.state_dict() for part in parts] for name, parts in moving.items()},
            "torch": torch.random.get_rng_state(),
            "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
            "kept": done.kept and done.kept[1],
            "text": json.dumps(
                {
                    "batches": batches.state(),
                    "seconds": self.seconds,
                    "steps": done.steps,
                    "rows": done.rows,
                    "kept": done.kept and done.kept[0],
                }
            ),
        }
        buffer = io.BytesIO()
        torch.save(held, buffer)
        content = buffer.getvalue()
        write_whole(
            self._path,
            lambda partial: partial.write_bytes(hashlib.sha256(content).digest() + content),
        )

    def load(self, model: nn.Module, moving: dict[str, list], batches: Batches, done: Fit) -> None:
        """Take up the state in the file, if there is one that can be trusted; otherwise leave all as it is."""
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            print(f"{self._path.name} is damaged; {self._what} begins anew", file=sys.stderr)
            self._path.unlink()
            return
        held = torch.load(io.BytesIO(content[32:]), weights_only=True)  # tensors and numbers alone
        text = json.loads(held["text"])
        model.load_state_dict(held["model"])
        for name, parts in moving.items():
            for part, state in zip(parts, held[name], strict=True):
                part.load_state_dict(state)
        torch.random.set_rng_state(held["torch"])
        if held["cuda"] is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(held["cuda"])  # masks of dropout come from there
        batches.restore(text["batches"])
        self._seconds_before, self.resumed = text["seconds"], True
        done.steps = self._first = text["steps"]
        done.rows = text["rows"]
        done.kept = (text["kept"], held["kept"]) if text["kept"] else None
        print(f"{self._what}: goes on from step {done.steps}", file=sys.stderr, flush=True)

    def forget(self) -> None:
        """Remove the file, once the training's results are kept."""
        self._path.unlink(missing_ok=True)
