"""What the coadjoint method costs beside backpropagation: time, and memory in arrays of the states' size.

Run as ``python -m lib.bench.coadjoint METHOD BATCH TIME HIDDEN INPUTS`` it measures the memory of one training step in a
process of its own, whose largest size Linux knows.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from lib.bench.race import Workload
from lib.cells import make_cell
from lib.paths import ROOT
from lib.probes.coadjoint import coadjoint_loss

METHODS = {
    "backpropagation": lambda cell, layer, u, losses: losses(cell(u)[1][0]).mean(),
    "backpropagation, nn.RNN": lambda cell, layer, u, losses: losses(layer(u)[1][0]).mean(),
    "Algorithm 2": lambda cell, layer, u, losses: coadjoint_loss(cell, u, losses, kappa=1.0).total,
    "double backward": lambda cell, layer, u, losses: (
        coadjoint_loss(cell, u, losses, kappa=1.0, engine="reference").total
    ),
}
"""Ways to the gradient of one mini-batch: the first two without, the others with the penalty (2.20)."""

_CLASSES = 10
_PROCESS = Path("/proc/self")
_WARM_UP = 3
"""Time steps of a run that compiles and allocates what every run needs."""


def training_step(method: str, workload: Workload) -> Callable[[], dict[str, torch.Tensor]]:
    """Return a function that computes the gradients of one mini-batch by name, all random and float32."""
    torch.manual_seed(0)
    u = torch.randn(workload.time_steps, workload.batch, workload.inputs)
    labels = torch.randint(0, _CLASSES, (workload.batch,))
    sizes = workload.inputs, workload.hidden
    cell, layer = make_cell("rnn", *sizes), nn.RNN(*sizes)
    output, loss = nn.Linear(workload.hidden, _CLASSES), METHODS[method]

    def losses(x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output(x), labels, reduction="none")

    def step() -> dict[str, torch.Tensor]:
        loss(cell, layer, u, losses).backward()
        named = nn.ModuleList([cell, layer, output]).named_parameters()
        return {name: part.grad for name, part in named if part.grad is not None}

    return step


def peak_arrays(method: str, workload: Workload) -> float:
    """Return the memory that one training step needs at once, in arrays of (time, batch, hidden).

    Inputs and weights, which exist before, do not count. Measured in a fresh process.
    Raises OSError: this is not Linux, whose `/proc` tells a process its largest size.
    Raises RuntimeError: the process failed.
    """
    if not _PROCESS.joinpath("clear_refs").exists():
        raise OSError("the memory of a training step can only be measured on Linux")
    sizes = [str(size) for size in astuple(workload)]
    command = [sys.executable, "-m", "lib.bench.coadjoint", method, *sizes]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"measuring the memory of {method!r} failed: {done.stderr}")
    array = workload.time_steps * workload.batch * workload.hidden * torch.float32.itemsize
    return int(done.stdout) / array


def _status(key: str) -> int:
    """Return a size of this process that Linux knows, in bytes."""
    for line in _PROCESS.joinpath("status").read_text("ascii").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{_PROCESS / 'status'} has no line {key}")


def main(method: str, *sizes: str) -> None:
    """Print the bytes that one training step adds to what is needed before it."""
    torch.set_num_threads(1)
    workload = Workload(*map(int, sizes))
    training_step(method, replace(workload, time_steps=_WARM_UP))()
    step = training_step(method, workload)
    before = _status("VmRSS")
    _PROCESS.joinpath("clear_refs").write_text("5", "ascii")  # forget the largest size so far
    step()
    print(_status("VmHWM") - before)


if __name__ == "__main__":
    main(*sys.argv[1:])
