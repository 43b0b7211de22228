"""Time cells and their engines side by side in one run.

Times on a shared machine drift, so nothing is timed alone: every round runs all candidates in turn, and a ratio is
taken within its round. Medians over rounds are reported.
"""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn

from lib import kernels
from lib.cells import cell_names, make_cell

BASELINES = {"nn.RNN": nn.RNN, "nn.LSTM": nn.LSTM, "nn.GRU": nn.GRU}
"""What a user would pick from the library."""


@dataclass(frozen=True)
class Workload:
    """Sizes of one benchmark: forward plus backward of one recurrent layer."""

    batch: int
    time_steps: int
    hidden: int
    inputs: int = 1

    def __str__(self) -> str:
        return f"B{self.batch} T{self.time_steps} d{self.hidden}"


def bench_cells(workload: Workload, *, rounds: int, device: str = "cpu") -> pd.DataFrame:
    """Time every engine of every cell against the library's layers.

    Parameters
    ----------
    workload
        The sizes; inputs are standard normal, float32.
    rounds
        Rounds after one warm-up in which kernels compile.
    device
        ``cpu`` or ``cuda``.

    Returns
    -------
    pandas.DataFrame
        One row for each (cell, engine, baseline): median milliseconds of both and the median over rounds of
        the ratio engine / baseline, below 1 where the engine is faster.
    """
    if rounds < 1:
        raise ValueError(f"expected at least one round, got {rounds}")
    u = torch.randn(workload.time_steps, workload.batch, workload.inputs, device=device)
    candidates = {
        (name, engine): _cell_pass(name, engine, workload, u)
        for name in cell_names()
        for engine in kernels.engine_names(name)
        if _runs(name, engine, u)
    }
    layers = {name: _layer_pass(layer, workload, u) for name, layer in BASELINES.items()}
    times = pd.DataFrame(
        [
            {key: seconds(run, u) for key, run in [*candidates.items(), *layers.items()]}
            for _ in range(rounds + 1)
        ][1:]
    )
    return pd.DataFrame(
        [
            {
                "workload": str(workload),
                "cell": cell,
                "engine": engine,
                "baseline": baseline,
                "median_ms": times[cell, engine].median() * 1e3,
                "baseline_median_ms": times[baseline].median() * 1e3,
                "ratio": (times[cell, engine] / times[baseline]).median(),
                "rounds": rounds,
            }
            for cell, engine in candidates
            for baseline in layers
        ]
    )


def machine() -> str:
    """Return what a reader needs to place the times: processor, cores, threads used."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [row.split(":")[1] for row in info.read_text().splitlines() if "model name" in row]
        model = names[0].strip() if names else model
    return f"{model}, {os.cpu_count()} cores, {torch.get_num_threads()} thread(s) used"


def _runs(name: str, engine: str, u: Tensor) -> bool:
    """Return whether an engine can run a cell on such an input here."""
    try:
        kernels.select(name, engine, u)
    except ValueError:
        return False
    return True


def _cell_pass(name: str, engine: str, workload: Workload, u: Tensor) -> Callable[[], Tensor]:
    cell = make_cell(name, workload.inputs, workload.hidden).to(u.device)
    return lambda: cell(u, engine=engine)[0]


def _layer_pass(layer: type[nn.Module], workload: Workload, u: Tensor) -> Callable[[], Tensor]:
    module = layer(workload.inputs, workload.hidden).to(u.device)
    return lambda: module(u)[0]


def seconds(run: Callable[[], Tensor], u: Tensor) -> float:
    """Time one forward and backward pass from the last output, as training does."""
    start = time.perf_counter()
    run()[-1].sum().backward()
    if u.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start
