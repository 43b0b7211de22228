"""What is checked and timed on a GPU: the tests, Figure 1, engines, training steps, and probes."""

import copy
import subprocess
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
from longrnn import kernels
from longrnn.cells import Cell, cell_names, make_cell
from longrnn.kernels import _cuda
from longrnn.probes.adjoint import adjoint_norms
from torch import Tensor

from study.bench.figure_1 import figure_1_timers
from study.bench.gpu import checks, slices
from study.bench.ledger import Ledger
from study.bench.race import race
from study.bench.timers import Workload, device_timer, engines_on, training_pass, wall_timer

FIGURE_1 = [Workload(128, length, 128) for length in (1000, 2000)]
"""Figure 1 of UnICORNN."""
PIXELS = Workload(100, 784, 128)
"""A mini-batch of MNIST's pixels."""
STEPS = [Workload(32, length, 128) for length in (50, 784)]
"""Training steps with and without a graph; the shorter one waits for the host."""
STEPPED = ("rnn", "lstm", "lem", "unicornn")
PROBED = ("rnn", "lstm", "gru", "lem", "unicornn")
"""Cells whose adjoint norms are timed."""
PROBE = Workload(16, 784, 128)
SLICES = [Workload(32, 784, width) for width in (128, 256)]
"""A training step of the factorial experiment, at the dissertation's widths."""
VARIANTS = {
    ("rnn", "numba-cuda"): ("rows", "persistent"),
    ("lstm", "numba-cuda"): ("rows", "persistent"),
    ("dt_lstm", "numba-cuda"): ("rows", "persistent"),
    ("gru", "numba-cuda"): ("rows", "persistent"),
    ("lem", "numba-cuda"): ("rows", "persistent"),
}
"""Variants of engines that are timed in addition to the one that ``auto`` chooses."""
_SMI = "driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu"


def parts(out: Path = Path("bench_gpu.csv")) -> dict[str, Callable[[Ledger], object]]:
    """Return the checks and measurements by name, in the order in which they run.

    Parameters
    ----------
    out : Path
        The table; logs of tests are written next to it.

    Returns
    -------
    dict of str to callable
        Each adds its rows to a `Ledger`. What is needed most comes first, what takes long or may
        crash comes last.
    """
    measurements: dict[str, Callable[[Ledger], object]] = {"machine": _machine}
    measurements["tests"] = partial(checks.run_tests, log=out.with_suffix(".tests.txt"))
    measurements |= {f"figure 1 {size}": partial(time_figure_1, size) for size in FIGURE_1}
    measurements |= {f"engines {name}": partial(time_engines, name, PIXELS) for name in _cells()}
    if find_spec("pydantic") is not None:  # a machine that only benchmarks may lack it
        measurements |= {f"steps {name}": partial(_time_steps, name) for name in STEPPED}
    measurements["losses"] = _compare_losses
    measurements |= {f"slices {name}": partial(_time_slices, name) for name in slices.CELLS}
    measurements["probes"] = _time_probes
    measurements["machine under load"] = _machine  # with its clock rates after all this work
    for tool in ("memcheck", "racecheck"):
        log = out.with_suffix(f".{tool}.txt")
        measurements[f"sanitizer {tool}"] = partial(checks.run_sanitizer, tool=tool, log=log)
    return measurements


def _cells() -> list[str]:
    """Return the names of the cells that have kernels."""
    return [
        name
        for name in cell_names()
        if "numba-cuda" in kernels.engine_names(name, with_opt_in=True)
    ]


def _time_steps(name: str, ledger: Ledger) -> None:
    """Time training steps of a cell."""
    from study.bench.gpu.steps import time_steps  # needs packages that a GPU machine may lack

    for size in STEPS:
        time_steps(name, size, ledger)


def _compare_losses(ledger: Ledger) -> None:
    """Compare the losses of all cells with the CPU's."""
    for name in cell_names():
        checks.compare_losses(name, ledger)


def _time_slices(name: str, ledger: Ledger) -> None:
    """Time slices of the factorial experiment with a cell."""
    for size in SLICES:
        slices.time_slice(name, size, ledger, pass_size=50, rounds=3)


def _time_probes(ledger: Ledger) -> None:
    """Time the probes of some cells."""
    for name in PROBED:
        time_probes(name, PROBE, ledger)


def time_figure_1(workload: Workload, ledger: Ledger, device: str = "cuda") -> list[dict]:
    """Time the networks of Figure 1 of UnICORNN, plainly and as CUDA graphs.

    Parameters
    ----------
    workload : Workload
        Batch size, time steps and width.
    ledger : Ledger
        Receives the rows.
    device : str
        Device of the tensors.

    Returns
    -------
    list of dict
        The rows, as from `study.bench.race.race`.
    """
    timers, baselines = figure_1_timers(workload, device)
    return race(timers, ledger, size=workload, rounds=5, baselines=baselines)


def time_probes(name: str, workload: Workload, ledger: Ledger, device: str = "cuda") -> list[dict]:
    """Time the adjoint norms at the first and the last time step, by the engine and the reference.

    Parameters
    ----------
    name : str
        Architecture.
    workload : Workload
        Batch size, time steps and width.
    ledger : Ledger
        Receives the rows.
    device : str
        Device of the tensors.

    Returns
    -------
    list of dict
        The rows, as from `study.bench.race.race`.
    """
    cell, u = _cell_and_inputs(name, workload, device)

    def compute_norms(engine: str) -> Tensor:
        times = (1, workload.time_steps)
        norms = adjoint_norms(cell, u, lambda x: x.sum(1), times=times, engine=engine)
        return norms.full.cpu()  # waits for the GPU

    label = f"probes {name}, "
    timers = {
        label + engine: wall_timer(partial(compute_norms, engine))
        for engine in ("auto", "reference")
    }
    return race(timers, ledger, size=workload, rounds=2, baselines=[label + "reference"])


def time_engines(name: str, workload: Workload, ledger: Ledger, device: str = "cuda") -> list[dict]:
    """Time a training pass with each engine of a cell, to check that ``auto`` is the fastest.

    Parameters
    ----------
    name : str
        Architecture.
    workload : Workload
        Batch size, time steps and width.
    ledger : Ledger
        Receives the rows.
    device : str
        Device of the tensors.

    Returns
    -------
    list of dict
        The rows, as from `study.bench.race.race`.
    """
    cell, u = _cell_and_inputs(name, workload, device)
    entrants = {}
    for engine in engines_on(name, device):
        entrants[f"{name}, {engine}"] = device_timer(training_pass(cell, u, engine=engine))
        for variant in VARIANTS.get((name, engine), ()):
            other = copy.deepcopy(cell)
            other.engine_options = {"variant": variant}
            timer = device_timer(training_pass(other, u, engine=engine))
            entrants[f"{name}, {engine}, {variant}"] = timer
    baselines = [f"{name}, numba-cuda"]
    return race(entrants, ledger, size=workload, rounds=5, baselines=baselines)


def _cell_and_inputs(name: str, workload: Workload, device: str) -> tuple[Cell, Tensor]:
    """Return a cell on a device, and random inputs (time, batch, features)."""
    u = torch.randn(workload.time_steps, workload.batch, workload.inputs, device=device)
    return make_cell(name, workload.inputs, workload.hidden).to(device), u


def _machine(ledger: Ledger) -> None:
    """Add the properties of the machine."""
    device = torch.cuda.get_device_properties(0)
    facts = {
        "multiprocessors": device.multi_processor_count,
        "memory": f"{device.total_memory / 2**30:.1f} GiB",
        "compute capability": f"{device.major}.{device.minor}",
        "CUDA of PyTorch": torch.version.cuda,
        "cuDNN": torch.backends.cudnn.version(),
        "TF32 in cuDNN": torch.backends.cudnn.allow_tf32,
        "TF32 in products": torch.backends.cuda.matmul.allow_tf32,
    }
    for quantity, value in facts.items():
        ledger.add("machine", quantity, value=value)
    obstacle = _cuda.obstacle()
    if obstacle:  # PyTorch's own layers can still be timed
        ledger.add("machine", "compiler of the kernels", failure=obstacle)
    command = ["nvidia-smi", f"--query-gpu={_SMI}", "--format=csv,noheader", "--id=0"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    ledger.add("machine", _SMI, value=done.stdout.strip())
