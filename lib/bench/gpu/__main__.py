"""Check and time every GPU kernel: ``python -m lib.bench.gpu --out data/tables/bench_gpu.csv``.

Every part runs in a process of its own, so that a kernel that breaks the device breaks no other part, and every
measurement is a row of the table as soon as it is known. Rows are added to a table that is already there.

Exit status: 0 where every kernel is right, 1 where one is not or a part failed (speed is reported, not judged), 2 where there is no
GPU to use.
"""

import argparse
import subprocess
import sys
import time
import traceback
from pathlib import Path

import torch

from lib.bench.figure_1 import time_figure_1
from lib.bench.gpu import checks, slices, speed
from lib.bench.race import Ledger, Workload, read_rows, sentence
from lib.kernels import _cuda

BATCH, HIDDEN = 128, 128
"""Of Figure 1's workload. The texts give no number of units; 128 is that of their smallest psMNIST network."""
LENGTHS = (1000, 2000)
ROUNDS, FEW_ROUNDS = 30, 5
"""The fewer where loops of PyTorch are timed beside the kernels."""
WIDTHS, SLICE, PLACES = (128, 256), 784, 50
"""Of the slices: widths of the dissertation, time steps of an image, networks in a pass as `lib.experiments.factorial` has them."""
PATIENCE = 600.0
"""Seconds that a part may take."""

_SMI = (
    "driver_version",
    "clocks.sm",
    "clocks.max.sm",
    "clocks.mem",
    "power.limit",
    "temperature.gpu",
)


def parts() -> list[str]:
    """Return what there is to do, the surest first."""
    lengths = [f"figure-1 {length}" for length in LENGTHS]
    tests = [f"checks {name}" for name in checks.cells()]
    own = [f"slice {name}" for name in slices.CELLS]
    engines = [f"engines {name}" for name in checks.cells()]
    return ["machine", *tests, *lengths, *own, *engines, "machine"]


def run_part(part: str, ledger: Ledger) -> None:
    """Do one of `parts` here; what fails inside it is a row."""
    kind, _, name = part.partition(" ")
    if kind == "machine":
        _machine(ledger)
    elif kind == "checks":
        for dtype in checks.TOLERANCE:
            _parity(name, dtype, ledger)
        for check in checks.CHECKS:
            _outcome(check, name, ledger)
    elif kind == "engines":
        speed.time_engines(name, ledger, rounds=FEW_ROUNDS)
    elif kind == "slice":
        for hidden in WIDTHS:
            slices.time_slice(
                name,
                Workload(32, SLICE, hidden),
                ledger,
                places=PLACES,
                probed=256,
                rounds=3,
                device="cuda",
            )
    else:
        time_figure_1(Workload(BATCH, int(name), HIDDEN), ledger, rounds=ROUNDS, device="cuda")


def _machine(ledger: Ledger) -> None:
    """Add what times depend on: it is asked before and after them, since clocks change under load."""
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
    if obstacle := _cuda.obstacle():  # the library's layers are timed all the same
        ledger.add("machine", "compiler of the kernels", failure=obstacle)
    try:
        command = ["nvidia-smi", f"--query-gpu={','.join(_SMI)}", "--format=csv,noheader", "--id=0"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        for quantity, value in zip(_SMI, done.stdout.strip().split(", "), strict=True):
            ledger.add("machine", quantity, value=value)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        ledger.add("machine", "nvidia-smi", failure=sentence(error))


def _parity(name: str, dtype: torch.dtype, ledger: Ledger) -> None:
    label = f"parity in {str(dtype).removeprefix('torch.')}"
    try:
        worst, deviation, allowed = checks.parity(name, dtype)
    except Exception as error:  # a kernel that fails is a result; the others are still wanted
        traceback.print_exc()
        ledger.add(name, label, passed=False, failure=sentence(error))
        return
    limit = {"limit": f"<= {allowed:.1e}", "passed": deviation <= allowed}
    ledger.add(name, f"{label}: {worst}", value=deviation, unit="relative", **limit)


def _outcome(check, name: str, ledger: Ledger) -> None:
    label = check.__name__.replace("_", " ")
    start = time.perf_counter()
    try:
        check(name)
    except Exception as error:  # as above
        traceback.print_exc()
        ledger.add(name, label, passed=False, failure=sentence(error))
    else:
        ledger.add(name, label, value=time.perf_counter() - start, unit="s", passed=True)


def is_wrong(row: dict) -> bool:
    """Return whether a row says that a kernel is wrong; a goal of speed that was missed is none such."""
    return str(row["passed"]) == "False" and row["unit"] != "ratio"


def _in_its_own_process(part: str, out: Path, where: str) -> None:
    print(part, file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "lib.bench.gpu", "--out", str(out), "--part", part]
    try:
        status = subprocess.run(command, check=False, timeout=PATIENCE).returncode
        failure = f"its process ended with status {status}" if status else ""
    except subprocess.TimeoutExpired:
        failure = f"it took more than {PATIENCE:.0f} s"
    if failure:
        Ledger(out, anew=False, where=where).add(part, "process", passed=False, failure=failure)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lib.bench.gpu", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--out", type=Path, default=Path("data/tables/bench_gpu.csv"), help="table (CSV)"
    )
    parser.add_argument("--look", action="store_true", help="only say whether there is a GPU")
    parser.add_argument("--part", help=f"do this alone: {', '.join(dict.fromkeys(parts()))}")
    arguments = parser.parse_args()
    if arguments.look and torch.cuda.is_available():
        print(torch.cuda.get_device_name(0))
        return 0
    if not torch.cuda.is_available():
        print(
            "bench-gpu needs an NVIDIA GPU that PyTorch can use, and there is none on this machine",
            file=sys.stderr,
        )
        return 2
    where = torch.cuda.get_device_name(0)
    if arguments.part:
        run_part(arguments.part, Ledger(arguments.out, anew=False, where=where))
        return 0
    before = len(read_rows(arguments.out)) if arguments.out.exists() else 0
    kernels_compile = not _cuda.obstacle()
    for part in parts():
        if kernels_compile or not part.startswith("checks"):
            _in_its_own_process(part, arguments.out, where)
    found = read_rows(arguments.out)[before:]
    for row in found:
        if row["quantity"] != "time":
            print("  ".join(row[c] for c in row if c not in ("machine", "versions") and row[c]))
    wrong = [row for row in found if row["failure"] or is_wrong(row)]
    print(f"{len(wrong)} rows say that something is wrong, of {len(found)} in {arguments.out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
