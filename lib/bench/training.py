"""Whole training steps of cells, by each of their engines, on the adding problem."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from lib.bench.cells import engines_here
from lib.bench.race import Ledger, Workload, race, wall
from lib.cells import make_cell
from lib.tasks.adding import FEATURES, draw_sums

BASELINE = "reference"


def bench_training(
    cells: Sequence[str], workload: Workload, ledger: Ledger, *, rounds: int
) -> list[dict]:
    """Time training steps: a fresh batch, forward, backward, clipping and Adam.

    Parameters
    ----------
    cells
        Names of architectures; all their engines on the CPU are timed.
    workload
        The sizes; its number of inputs must be the task's.
    ledger, rounds
        As in `race`; a round is a step of every candidate.

    Returns
    -------
    list of dict
        Rows of `race`: ``what`` is "cell, engine", the baseline the cell's own reference.
    """
    if workload.inputs != FEATURES:
        raise ValueError(f"the adding problem has {FEATURES} inputs, got {workload.inputs}")
    names = {f"{cell}, {engine}": (cell, engine) for cell in cells for engine in engines_here(cell)}
    entrants = {what: wall(_training_step(*name, workload)) for what, name in names.items()}
    baselines = {what: (f"{cell}, {BASELINE}",) for what, (cell, _) in names.items()}
    return race(entrants, ledger, size=workload, rounds=rounds, baselines=baselines)


def _training_step(name: str, engine: str, workload: Workload) -> Callable[[], None]:
    cell = make_cell(name, workload.inputs, workload.hidden)
    output = nn.Linear(workload.hidden, 1)
    parameters = [*cell.parameters(), *output.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=1e-4)
    rng = np.random.default_rng(0)

    def step() -> None:
        part = draw_sums(workload.time_steps, workload.batch, rng)
        u = torch.from_numpy(part.inputs).transpose(0, 1).contiguous()
        last = cell(u, engine=engine)[0][-1]
        loss = F.mse_loss(output(last), torch.from_numpy(part.targets))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()

    return step
