"""Time every GPU engine: ``python -m study.bench.gpu --out data/tables/bench_gpu.csv``.

Every part runs in its own process, so that a kernel that crashes the device doesn't affect other
parts. Every measurement is written to the table at once. This measures times only;
tests/test_gpu.py checks that the results of the engines are correct.

The exit status is 0 if every part ran, 1 if a part failed, and 2 without a GPU. A slow engine is
not a failure.
"""

import argparse
import copy
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from longrnn import kernels
from longrnn.cells import cell_names, make_cell
from longrnn.kernels import _cuda

from study.bench.gpu import slices
from study.bench.ledger import Ledger, read_rows
from study.bench.race import race
from study.bench.timers import Workload, device_timer, engines_on, training_pass

PIXELS = Workload(100, 784, 128)
"""A mini-batch of MNIST's pixels."""
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
PATIENCE = 600.0
"""Time limit of a part, in seconds."""
_SMI = "driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu"


def parts() -> dict[str, Callable[[Ledger], object]]:
    """Return the measurements by name, in the order in which they run.

    Returns
    -------
    dict of str to callable
        Each adds its rows to a `Ledger`. The fastest and safest come first.
    """
    measurements: dict[str, Callable[[Ledger], object]] = {"machine": _machine}
    for name in slices.CELLS:
        for size in SLICES:
            measurement = partial(slices.time_slice, name, size, pass_size=50, rounds=3)
            measurements[f"slice {name} {size}"] = measurement
    for name in cell_names():
        if "numba-cuda" in kernels.engine_names(name, with_opt_in=True):
            measurements[f"engines {name}"] = partial(time_engines, name, PIXELS)
    return measurements


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
    u = torch.randn(workload.time_steps, workload.batch, workload.inputs, device=device)
    cell = make_cell(name, workload.inputs, workload.hidden).to(device)
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


def _machine(ledger: Ledger) -> None:
    """Add the properties of the machine: first and last, because clock rates change under load."""
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


def run_in_own_process(part: str, out: Path, where: str) -> None:
    """Run one of `parts` in another process, and add a row if that process fails.

    Parameters
    ----------
    part : str
        Name of the part.
    out : Path
        The table.
    where : str
        Name of the GPU.
    """
    print(part, file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "study.bench.gpu", "--out", str(out), "--part", part]
    try:
        status = subprocess.run(command, check=False, timeout=PATIENCE).returncode
        failure = ""
        if status != 0:
            failure = f"its process ended with status {status}"
    except subprocess.TimeoutExpired:
        failure = f"it took more than {PATIENCE:.0f} s"
    if failure:
        Ledger(out, overwrite=False, where=where).add(
            part, "process", passed=False, failure=failure
        )


def main() -> int:
    """Run all parts, or one part if the command line names it.

    Returns
    -------
    int
        The exit status.
    """
    parser = argparse.ArgumentParser(
        prog="python -m study.bench.gpu", description=__doc__.split(":")[0]
    )
    parser.add_argument(
        "--out", type=Path, default=Path("data/tables/bench_gpu.csv"), help="table (CSV)"
    )
    parser.add_argument("--look", action="store_true", help="only print the name of the GPU")
    parser.add_argument("--part", choices=parts(), metavar="PART", help="run only this part")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        need = "bench-gpu needs an NVIDIA GPU that PyTorch can use"
        print(f"{need}, and this machine has none", file=sys.stderr)
        return 2
    where = torch.cuda.get_device_name(0)
    if arguments.look:
        print(where)
        return 0
    if arguments.part:
        parts()[arguments.part](Ledger(arguments.out, overwrite=False, where=where))
        return 0
    Ledger(arguments.out)  # starts a new table
    for part in (*parts(), "machine"):
        run_in_own_process(part, arguments.out, where)
    rows = read_rows(arguments.out)
    for row in rows:
        if row["quantity"] != "time":
            print(_summary(row))
    failed = [row for row in rows if row["failure"]]
    print(f"{len(failed)} of {len(rows)} rows in {arguments.out} report a failure")
    if failed:
        return 1
    return 0


def _summary(row: dict[str, str]) -> str:
    """Return the values of a row that differ between rows, on one line."""
    values = []
    for column, value in row.items():
        if value and column not in ("machine", "versions"):
            values.append(value)
    return "  ".join(values)


if __name__ == "__main__":
    sys.exit(main())
