"""Time whole training steps of cells and their engines side by side in one run.

As in `lib.bench` nothing is timed alone: every round trains all candidates in turn, and a ratio is taken within its round.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F

from lib import kernels
from lib.bench import Workload
from lib.cells import make_cell
from lib.tasks.adding import FEATURES, draw_sums

BASELINE = "reference"


def bench_training(cells: Sequence[str], workload: Workload, *, rounds: int) -> pd.DataFrame:
    """Time training steps on the adding problem: a fresh batch, forward, backward, clipping and Adam.

    Parameters
    ----------
    cells
        Names of architectures; all their engines on the CPU are timed.
    workload
        The sizes; its number of inputs must be the task's.
    rounds
        Steps of every candidate that are timed, after one in which kernels compile.

    Returns
    -------
    pandas.DataFrame
        One row for each cell and engine: median training steps per second of the engine and of the cell's
        reference, and the median over rounds of the ratio of their times, below 1 where the engine is faster.
    """
    if rounds < 1:
        raise ValueError(f"expected at least one round, got {rounds}")
    if workload.inputs != FEATURES:
        raise ValueError(f"the adding problem has {FEATURES} inputs, got {workload.inputs}")
    candidates = {
        (cell, engine): _training(cell, engine, workload)
        for cell in cells
        for engine in kernels.engine_names(cell)
        if _runs_here(cell, engine)
    }
    times = pd.DataFrame(
        [{key: _seconds(step) for key, step in candidates.items()} for _ in range(rounds + 1)][1:]
    )
    return pd.DataFrame(
        [
            {
                "workload": str(workload),
                "cell": cell,
                "engine": engine,
                "baseline": BASELINE,
                "steps_per_second": 1 / times[cell, engine].median(),
                "baseline_steps_per_second": 1 / times[cell, BASELINE].median(),
                "ratio": (times[cell, engine] / times[cell, BASELINE]).median(),
                "rounds": rounds,
            }
            for cell, engine in candidates
        ]
    )


def _runs_here(cell: str, engine: str) -> bool:
    """Tell whether an engine takes float32 on the CPU; one that needs a GPU does not."""
    try:
        kernels.select(cell, engine, torch.zeros(1, 1, 1))
    except ValueError:
        return False
    return True


def _training(name: str, engine: str, workload: Workload) -> Callable[[], None]:
    cell = make_cell(name, workload.inputs, workload.hidden)
    output = nn.Linear(workload.hidden, 1)
    parameters = [*cell.parameters(), *output.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=1e-4)
    rng = np.random.default_rng(0)

    def step() -> None:
        part = draw_sums(workload.time_steps, workload.batch, rng)
        u = torch.from_numpy(part.inputs).transpose(0, 1).contiguous()
        last = cell(u, engine=engine)[0][-1]
        loss = F.mse_loss(output(last)[:, 0], torch.from_numpy(part.targets[:, 0]))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()

    return step


def _seconds(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start
