"""Run every GPU check and write one table: ``python -m lib.bench.gpu --out data/tables/bench_gpu.csv``.

Exit status: 0 where every kernel is right, 1 where one is not (speed is reported, not judged), 2 where there is no GPU to use.
"""

import argparse
import sys
import traceback
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import torch

from lib.bench.gpu import checks
from lib.bench.gpu.speed import figure_1
from lib.kernels import _cuda

COLUMNS = ["check", "case", "quantity", "value", "unit", "limit", "passed"]


def what_is_missing() -> str:
    """Return why nothing can be checked on this machine, or an empty string."""
    if not torch.cuda.is_available():
        return (
            "bench-gpu needs an NVIDIA GPU that PyTorch can use, and there is none on this machine"
        )
    return _cuda.obstacle()


def table(*, time_steps: tuple[int, ...] = (1000, 2000)) -> pd.DataFrame:
    """Run all checks and benchmarks; a check that fails is a row, not an end.

    Returns
    -------
    pandas.DataFrame
        ``check``, ``case``, ``quantity``, ``value``, ``unit``, ``limit`` and ``passed``, which is empty where nothing is
        promised.
    """
    rows = [_machine()]
    for name in checks.cells():
        rows += [_parity(name, dtype) for dtype in checks.TOLERANCE]
        rows += [_outcome(check, name) for check in checks.CHECKS]
    _say("speed")
    parts = [pd.DataFrame(rows), *(figure_1(steps) for steps in time_steps)]
    return pd.concat(parts, ignore_index=True)[COLUMNS]


def _machine() -> dict:
    versions = f"torch {torch.__version__}, numba-cuda {version('numba-cuda')}"
    count = torch.cuda.get_device_properties(0).multi_processor_count
    case = f"{torch.cuda.get_device_name(0)}, {versions}"
    return {
        "check": "machine",
        "case": case,
        "quantity": "multiprocessors",
        "value": count,
        "passed": "",
    }


def _parity(name: str, dtype: torch.dtype) -> dict:
    _say(f"{name}: parity in {dtype}")
    row = {
        "check": "parity",
        "case": f"{name}, {str(dtype).removeprefix('torch.')}",
        "unit": "relative",
    }
    try:
        worst, deviation, allowed = checks.parity(name, dtype)
    except Exception:  # a kernel that fails is a result; the others are still wanted
        traceback.print_exc()
        return row | {"quantity": _last_error(), "passed": False}
    passed = deviation <= allowed
    return row | {
        "quantity": worst,
        "value": deviation,
        "limit": f"<= {allowed:.1e}",
        "passed": passed,
    }


def _outcome(check, name: str) -> dict:
    label = check.__name__.replace("_", " ")
    _say(f"{name}: {label}")
    row = {"check": label, "case": name, "quantity": "", "passed": True}
    try:
        check(name)
    except Exception:  # as above
        traceback.print_exc()
        return row | {"quantity": _last_error(), "passed": False}
    return row


def _last_error() -> str:
    kind, error, _ = sys.exc_info()
    return f"{kind.__name__}: {error}".split("\n")[0]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lib.bench.gpu", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--out", type=Path, help="where the table is written (CSV)")
    parser.add_argument("--look", action="store_true", help="only say whether there is a GPU")
    arguments = parser.parse_args()
    if arguments.look and torch.cuda.is_available():
        print(torch.cuda.get_device_name(0))
        return 0
    if missing := what_is_missing():
        _say(missing)
        return 2
    found = table()
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        partial = arguments.out.with_suffix(".partial")
        found.to_csv(partial, index=False, float_format="%.6g")
        partial.replace(arguments.out)
    print(found.to_string(index=False, na_rep=""))
    wrong = found[(found["passed"] == False) & (found["check"] != "speed")]  # noqa: E712 - "" is neither
    print(f"{len(wrong)} of {(found['check'] != 'speed').sum()} checks failed")
    return 1 if len(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
