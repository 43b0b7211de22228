"""Check and time every GPU engine: ``python -m study.bench.gpu --out data/tables/bench_gpu.csv``.

The parts are those of `study.bench.gpu.parts`, in this order: the tests on a GPU, Figure 1 of
UnICORNN, every engine, training steps, losses compared with the CPU, fifty networks in one pass,
probes, and NVIDIA's sanitizer. Every part runs in its own process, so that a kernel that crashes
the device doesn't affect other parts. Every measurement is written to the table at once.

All parts but the sanitizer should take about 20 minutes on an H200; that is an estimate.
``--minutes 9`` ends in time for a slot of ten minutes, and ``--resume`` goes on with the parts that
have not finished. ``--keep data/reference/timings/kernels`` stores the medians under the name of
the GPU.

The exit status is 0 if every part ran and every check passed, 1 if not, 2 without a GPU, and 3 if
the minutes are over before the last part. A slow engine is not a failure.
"""

import argparse
import csv
import subprocess
import sys
import time
from pathlib import Path

import torch

from study.bench.gpu.parts import parts
from study.bench.ledger import COLUMNS, Ledger, read_rows
from study.bench.race import MEASUREMENT

PATIENCE = 480.0
"""Time limit of a part, in seconds."""
SHORTEST = 20.0
"""Seconds that must be left to start another part."""
FINISHED = "finished"
"""Quantity of the row that says that a part has finished."""


def run_in_own_process(part: str, out: Path, where: str, limit: float = PATIENCE) -> None:
    """Run one of `parts` in another process, and add a row that says how it finished.

    There is no such row if a part was stopped before `PATIENCE`. It has not finished then, and the
    next call with ``--resume`` runs it again.

    Parameters
    ----------
    part : str
        Name of the part.
    out : Path
        The table.
    where : str
        Name of the GPU.
    limit : float
        Time limit in seconds.
    """
    print(part, file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "study.bench.gpu", "--out", str(out), "--part", part]
    start = time.monotonic()
    try:
        status = subprocess.run(command, check=False, timeout=limit).returncode
        failure = None
        if status != 0:
            failure = f"its process ended with status {status}"
    except subprocess.TimeoutExpired:
        if limit < PATIENCE:
            return
        failure = f"it took more than {limit:.0f} s"
    row = {"value": time.monotonic() - start, "unit": "s", "passed": failure is None}
    ledger = Ledger(out, overwrite=False, where=where)
    ledger.add(part, FINISHED, **row, failure=failure)


def run_parts(names: list[str], out: Path, where: str, seconds: float) -> list[str]:
    """Run parts one after another while there is time.

    Parameters
    ----------
    names : list of str
        Names of the parts.
    out : Path
        The table.
    where : str
        Name of the GPU.
    seconds : float
        Time limit of all parts.

    Returns
    -------
    list of str
        Names of the parts that are left.
    """
    end = time.monotonic() + seconds
    for part in names:
        left = end - time.monotonic()
        if left < SHORTEST:
            break
        run_in_own_process(part, out, where, min(left, PATIENCE))
    return _unfinished(names, out)


def _unfinished(names: list[str], out: Path) -> list[str]:
    """Return the parts that the table does not list as finished."""
    finished = {row["what"] for row in read_rows(out) if row["quantity"] == FINISHED}
    return [name for name in names if name not in finished]


def keep_medians(table: Path, folder: Path) -> Path:
    """Store the rows of a table that are not single measurements, under the name of the GPU.

    Parameters
    ----------
    table : Path
        A table of this program.
    folder : Path
        Where to store them, such as ``data/reference/timings/kernels``.

    Returns
    -------
    Path
        The file, such as ``h200.csv``.
    """
    rows = [row for row in read_rows(table) if row["quantity"] != MEASUREMENT]
    kept = folder / f"{file_name(rows[0]['machine'])}.csv"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return kept


def file_name(device: str) -> str:
    """Return the name of the file with the times of a GPU.

    Parameters
    ----------
    device : str
        Such as ``NVIDIA H200``.

    Returns
    -------
    str
        Such as ``h200``.

    Examples
    --------
    >>> file_name("NVIDIA A100-SXM4-80GB")
    'a100-sxm4-80gb'
    """
    return "-".join(device.removeprefix("NVIDIA ").lower().split())


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
    parser.add_argument("--part", metavar="PART", help="run only this part")
    parser.add_argument("--minutes", type=float, default=600.0, help="time limit of all parts")
    parser.add_argument("--resume", action="store_true", help="skip parts that have finished")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="store the medians here")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        need = "bench-gpu needs an NVIDIA GPU that PyTorch can use"
        print(f"{need}, and this machine has none", file=sys.stderr)
        return 2
    where = torch.cuda.get_device_name(0)
    if arguments.look:
        print(where)
        return 0
    known = parts(arguments.out)
    if arguments.part:
        if arguments.part not in known:
            parser.error(f"unknown part {arguments.part!r}; known: {', '.join(known)}")
        known[arguments.part](Ledger(arguments.out, overwrite=False, where=where))
        return 0
    names = list(known)
    if arguments.resume and arguments.out.exists():
        names = _unfinished(names, arguments.out)
    else:
        Ledger(arguments.out)  # starts a new table
    left = run_parts(names, arguments.out, where, 60 * arguments.minutes)
    status = _report(arguments.out)
    if arguments.keep:
        print("kept in", keep_medians(arguments.out, arguments.keep))
    if left:
        print(f"{len(left)} of {len(known)} parts are left; run the same command with --resume")
        return 3
    return status


def _report(out: Path) -> int:
    """Print the rows of a table that are not single measurements; return the exit status."""
    rows = read_rows(out)
    for row in rows:
        if row["quantity"] != MEASUREMENT:
            print(_summary(row))
    failed = [row for row in rows if row["failure"]]
    print(f"{len(failed)} of {len(rows)} rows in {out} report a failure")
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
