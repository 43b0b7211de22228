"""What the coadjoint method costs beside backpropagation: time, and memory in arrays of the states' size."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch
from longrnn.cells import make_cell
from longrnn.probes.coadjoint import coadjoint_loss
from torch import nn
from torch.nn import functional as F

from study.bench.race import Workload

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

    Inputs and weights, which exist before, do not count. Measured in a fresh process, whose largest size Linux knows; elsewhere that is
    an OSError.
    """
    if not _PROCESS.joinpath("clear_refs").exists():
        raise OSError("the memory of a training step can only be measured on Linux")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        grown = fresh.submit(_growth, method, workload).result()
    return grown / (workload.time_steps * workload.batch * workload.hidden * torch.float32.itemsize)


def _growth(method: str, workload: Workload) -> int:
    """Return the bytes that one training step adds to this process, beside what is needed before it."""
    torch.set_num_threads(1)
    training_step(method, replace(workload, time_steps=_WARM_UP))()
    step = training_step(method, workload)
    before = _status("VmRSS")
    _PROCESS.joinpath("clear_refs").write_text("5", "ascii")  # forget the largest size so far
    step()
    return _status("VmHWM") - before


def _status(key: str) -> int:
    """Return a size of this process that Linux knows, in bytes."""
    lines = _PROCESS.joinpath("status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))
