"""Every engine of every cell beside the layers of PyTorch."""

import torch
from torch import nn

from lib import kernels
from lib.bench.race import Ledger, Workload, race, training_pass, wall
from lib.cells import cell_names, make_cell

BASELINES = {"nn.RNN": nn.RNN, "nn.LSTM": nn.LSTM, "nn.GRU": nn.GRU}
"""What a user would pick from the library."""


def bench_cells(workload: Workload, ledger: Ledger, *, rounds: int) -> list[dict]:
    """Time forward plus backward of every engine of every cell on the CPU, in float32.

    Returns
    -------
    list of dict
        Rows of `race` for each pair of cell and engine (``what`` is "cell, engine") and for the library's layers.
    """
    u = torch.randn(workload.time_steps, workload.batch, workload.inputs)
    sizes = workload.inputs, workload.hidden
    modules = {
        f"{name}, {engine}": (make_cell(name, *sizes), {"engine": engine})
        for name in cell_names()
        for engine in engines_here(name)
    }
    modules |= {name: (layer(*sizes), {}) for name, layer in BASELINES.items()}
    entrants = {
        what: wall(training_pass(module, u, **more)) for what, (module, more) in modules.items()
    }
    return race(entrants, ledger, size=workload, rounds=rounds, baselines=list(BASELINES))


def engines_here(name: str) -> list[str]:
    """Return the engines that take a cell's float32 on the CPU."""
    found = []
    for engine in kernels.engine_names(name):
        try:
            kernels.select(name, engine, torch.zeros(1, 1, 1))
        except ValueError:  # it needs a GPU
            continue
        found.append(engine)
    return found
