"""Kernels beside what else computes the same: a cell's engines, the adjoint probe, and UnICORNN with few neurons.

The first says which engine ``auto`` should prefer on a GPU.
"""

from collections.abc import Callable

import torch

from lib import kernels
from lib.bench import figure_1
from lib.bench.gpu.checks import DEVICE, ENGINE, PARITY_SIZES, parity
from lib.bench.parity import moved, random_case
from lib.bench.race import Ledger, Workload, race, training_pass
from lib.cells import make_cell
from lib.probes.adjoint import adjoint_norms
from lib.probes.fused import fused_adjoint_norms

TRAINING = Workload(100, 784, 128)
"""A mini-batch of MNIST's pixels, for training and for probing."""
FEW = Workload(2, 17_984, 128, 6)
"""EigenWorms: 256 neurons and sequences, of as many time steps as that has."""
DECADES = 1e-3
"""Largest deviation of an adjoint's log10 norm from that in float64."""
FASTER = 5
"""How many times faster Newton's method is to be than one step after another, with few neurons."""


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


def probe(name: str, ledger: Ledger, *, rounds: int) -> None:
    """Compare a cell's adjoint norms by a kernel with those in float64 on the CPU, and its time with the other ways'."""
    deviation = decades(name)
    limit = {"limit": f"<= {DECADES}", "passed": deviation <= DECADES}
    ledger.add(name, "adjoint norms by a kernel", value=deviation, unit="decades", **limit)
    u = torch.randn(TRAINING.time_steps, TRAINING.batch, TRAINING.inputs, device=DEVICE)
    cell, times = make_cell(name, TRAINING.inputs, TRAINING.hidden).to(DEVICE), (1, len(u))
    fused = f"{name}, probe by a kernel"
    ways = {
        fused: lambda: fused_adjoint_norms(cell, u, torch.sum, times=times),
        f"{name}, probe": lambda: adjoint_norms(cell, u, torch.sum, times=times),
        f"{name}, probe in float32": lambda: adjoint_norms(
            cell, u, torch.sum, times=times, engine="float32"
        ),
    }
    _race(ways, ledger, TRAINING, rounds, fused)


def decades(name: str) -> float:
    """Return the largest deviation of a cell's log10 adjoint norms by a kernel from those in float64 on the CPU."""
    case = random_case(name, *PARITY_SIZES, torch.float32)
    expected = adjoint_norms(*case[:2], torch.sum, engine="reference").full
    cell, u, _ = moved(DEVICE, *case)
    return (fused_adjoint_norms(cell, u, torch.sum).full.cpu() - expected).abs().max().item()


def newton(ledger: Ledger, *, rounds: int) -> None:
    """Compare UnICORNN by windows with the reference, and its time with that of one step after another."""
    name, windows = "unicornn", "newton-cuda"
    for dtype in (torch.float64, torch.float32):
        worst, deviation, allowed = parity(name, dtype, windows)
        limit = {"limit": f"<= {allowed:.1e}", "passed": deviation <= allowed}
        ledger.add(windows, f"parity: {worst}", value=deviation, unit="relative", **limit)
    u = torch.randn(FEW.time_steps, FEW.batch, FEW.inputs, device=DEVICE)
    cell = make_cell(name, FEW.inputs, FEW.hidden, dt=0.0343, alpha=0.0).to(DEVICE)
    passes = {f"{name}, {one}": training_pass(cell, u, engine=one) for one in (ENGINE, windows)}
    for row in _race(passes, ledger, FEW, rounds, f"{name}, {ENGINE}"):
        if row["what"].endswith(windows) and row["ratio"]:
            value = 1 / row["ratio"]
            goal = {"limit": f">= {FASTER}", "passed": value >= FASTER}
            ledger.add(row["what"], f"{ENGINE} / this", size=FEW, value=value, unit="ratio", **goal)


def _race(
    ways: dict[str, Callable[[], object]], ledger: Ledger, size: Workload, rounds: int, base: str
) -> list[dict]:
    entrants = {what: figure_1.on_device(run) for what, run in ways.items()}
    return race(entrants, ledger, size=size, rounds=rounds, baselines=[base])
