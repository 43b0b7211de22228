"""The engines of a cell side by side, which says which one ``auto`` should prefer on a GPU."""

from collections.abc import Callable

import torch

from lib import kernels
from lib.bench import figure_1
from lib.bench.gpu.checks import DEVICE, ENGINE
from lib.bench.race import Ledger, Workload, race, training_pass
from lib.cells import make_cell

TRAINING = Workload(100, 784, 128)
"""A mini-batch of MNIST's pixels, for training and for probing."""


def time_engines(name: str, ledger: Ledger, *, rounds: int) -> list[dict]:
    """Time a training pass by each engine of a cell, beside its kernels; return rows of `race`."""
    u = torch.randn(TRAINING.time_steps, TRAINING.batch, TRAINING.inputs, device=DEVICE)
    cell = make_cell(name, TRAINING.inputs, TRAINING.hidden).to(DEVICE)
    engines = [one for one in kernels.engine_names(name) if _takes(name, one, u)]
    passes = {f"{name}, {one}": training_pass(cell, u, engine=one) for one in engines}
    return _race(passes, ledger, TRAINING, rounds, f"{name}, {ENGINE}")


def _takes(name: str, engine: str, u: torch.Tensor) -> bool:
    try:
        kernels.select(name, engine, u)
    except ValueError:
        return False
    return True


def _race(
    ways: dict[str, Callable[[], object]], ledger: Ledger, size: Workload, rounds: int, base: str
) -> list[dict]:
    entrants = {what: figure_1.on_device(run) for what, run in ways.items()}
    return race(entrants, ledger, size=size, rounds=rounds, baselines=[base])
