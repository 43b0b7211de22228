"""What the coadjoint method costs beside backpropagation: time, and memory in arrays of the states' size.

Run as ``python -m lib.bench.coadjoint METHOD BATCH TIME HIDDEN INPUTS`` it measures the memory of one training step in a
process of its own, whose largest size Linux knows.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F

from lib.bench import Workload
from lib.cells import make_cell
from lib.paths import ROOT
from lib.probes.coadjoint.loss import coadjoint_loss

METHODS = {
    "backpropagation": ("plain", "auto"),
    "backpropagation, nn.RNN": ("layer", ""),
    "Algorithm 2": ("coadjoint", "auto"),
    "double backward": ("coadjoint", "reference"),
}
"""Ways to the gradient of one mini-batch: the first two without, the others with the penalty (2.20)."""

BASELINES = ("backpropagation", "backpropagation, nn.RNN")

_CLASSES = 10
_PROCESS = Path("/proc/self")
_WARM_UP = 3
"""Time steps of a run that compiles and allocates what every run needs."""


def training_step(method: str, workload: Workload) -> Callable[[], None]:
    """Return a function that computes loss and gradients of one mini-batch, all random and float32."""
    kind, engine = METHODS[method]
    torch.manual_seed(0)
    u = torch.randn(workload.time_steps, workload.batch, workload.inputs)
    labels = torch.randint(0, _CLASSES, (workload.batch,))
    cell, layer = (
        make(workload.inputs, workload.hidden) for make in (partial(make_cell, "rnn"), nn.RNN)
    )
    output = nn.Linear(workload.hidden, _CLASSES)

    def losses(x):
        return F.cross_entropy(output(x), labels, reduction="none")

    def plain():
        losses(cell(u)[1][0]).mean().backward()

    def by_layer():
        losses(layer(u)[1][0]).mean().backward()

    def coadjoint():
        coadjoint_loss(cell, u, losses, kappa=1.0, engine=engine).backward()

    return {"plain": plain, "layer": by_layer, "coadjoint": coadjoint}[kind]


def bench_coadjoint(workload: Workload, *, rounds: int) -> pd.DataFrame:
    """Time one training step of every method beside the two ways of backpropagation.

    Parameters
    ----------
    workload
        The sizes.
    rounds
        Rounds after one warm-up; every round runs all methods in turn.

    Returns
    -------
    pandas.DataFrame
        As `lib.bench.bench_cells` returns it: one row for each pair of method (``engine``) and ``baseline``.
    """
    if rounds < 1:
        raise ValueError(f"expected at least one round, got {rounds}")
    steps = {name: training_step(name, workload) for name in METHODS}
    # Times on a shared machine drift: every round runs all methods, ratios are taken within a round.
    times = pd.DataFrame(
        [{name: _seconds(step) for name, step in steps.items()} for _ in range(rounds + 1)][1:]
    )
    return pd.DataFrame(
        [
            {
                "workload": str(workload),
                "cell": "rnn",
                "engine": method,
                "baseline": baseline,
                "median_ms": times[method].median() * 1e3,
                "baseline_median_ms": times[baseline].median() * 1e3,
                "ratio": (times[method] / times[baseline]).median(),
                "rounds": rounds,
            }
            for method in METHODS
            for baseline in BASELINES
        ]
    )


def _seconds(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def peak_arrays(method: str, workload: Workload) -> float:
    """Return the memory that one training step needs at once, in arrays of (time, batch, hidden).

    Inputs and weights, which exist before, do not count. Measured in a fresh process.

    Raises
    ------
    OSError
        This is not Linux, whose `/proc` tells a process its largest size.
    RuntimeError
        The process failed.
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
