"""Show the stored results without training: their analyses and a report of them alone, in ``data/look`` (`python -m lib.report.look`).

Every notebook whose parameters, as it is opened, read a stored reference is run as it is, several at a time; DVC has no
part in it.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lib.paths import REFERENCE, ROOT
from lib.run.code import notebooks
from lib.run.notebooks import read_parameters

LOOK = Path("data/look")


def stored() -> list[Path]:
    """Return the notebooks that read a stored reference."""
    folder = f"{REFERENCE.relative_to(ROOT).as_posix()}/"
    found = notebooks()
    return [
        path for path in found if str(read_parameters(path).get("results", "")).startswith(folder)
    ]


def main() -> int:
    """Run the notebooks and build the report of them; return the exit status."""
    names = [path.stem for path in stored()]
    # One thread each, on all cores, as in `lib.run.execute`.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        statuses = pool.map(
            lambda name: _notebook(
                name, f"made/{name}/reference/{name}", out=LOOK, result_set="reference"
            ),
            names,
        )
        for count, (name, status) in enumerate(zip(names, statuses, strict=True), start=1):
            print(f"{count} of {len(names)} notebooks: {name}", flush=True)
            if status:
                pool.shutdown(cancel_futures=True)
                return status
    coverage = LOOK / "coverage.csv"
    status = _notebook("90_coverage", "executed/90_coverage", data_dir=LOOK, out=coverage)
    return status or _run("lib.report", "--data", LOOK, "--out", LOOK / "report")


def _notebook(name: str, executed: str, **parameters: str | Path) -> int:
    given = [text for pair in parameters.items() for text in ("-p", *pair)]
    target = LOOK / f"{executed}.ipynb"
    return _run("lib.run", f"notebooks/{name}.ipynb", target, "-q", *given)


def _run(module: str, *arguments: str | Path) -> int:
    return subprocess.call([sys.executable, "-m", module, *map(str, arguments)], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
