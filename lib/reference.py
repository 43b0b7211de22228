"""Keep this run's results in the repository, with what is needed to know how they came about.

`python -m lib.reference` (`make keep-reference`) copies ``data/results/factorial.nc``, the tables and the pictures of
``data/tables/rebuilt`` and ``data/figures/rebuilt`` to ``data/reference/<profile>/`` and writes ``provenance.json`` beside
them. Analyses of every later run read the results, so that tables at a scale of hours are shown without training again.
"""

import hashlib
import json
import os
import platform
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import psutil
import xarray as xr
from ruamel.yaml import YAML

from lib.paths import ROOT
from lib.results import COMPLETED, DIVERGED, MISSING, ResultsError, load

RESULTS = "data/results/factorial.nc"
TABLES = "data/tables/rebuilt"
FIGURES = "data/figures/rebuilt"
PACKAGES = (
    "torch",
    "numba",
    "numpy",
    "scipy",
    "statsmodels",
    "pandas",
    "xarray",
    "netCDF4",
    "distributed",
)


def keep(root: Path = ROOT) -> Path:
    """Copy the results and tables of the pipeline below `root` into its references and return the folder.

    Raises
    ------
    ResultsError
        The results are missing, do not follow the schema, lack attempts, or are not those of the last
        complete run; the reference kept before stays as it was.
    """
    results = load(root / RESULTS)
    if missing := int((results["status"] == MISSING).sum()):
        raise ResultsError(
            f"{missing} attempts of {RESULTS} are missing; finish the study with `make repro`"
        )
    if not any((root / TABLES).glob("*/*.csv")):
        raise ResultsError(f"no tables in {TABLES}; make them with `make repro`")
    record = provenance(results, _recorded_md5(root))
    target = root / "data" / "reference" / results.attrs["profile"]
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        shutil.copyfile(root / RESULTS, partial / "factorial.nc")
        for kind, pattern in ((TABLES, "*/*.csv"), (FIGURES, "*/*.png")):
            folder = partial / Path(kind).parent.name
            folder.mkdir()
            for path in sorted((root / kind).glob(pattern)):
                shutil.copyfile(path, folder / path.name)
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        (partial / "provenance.json").write_text(text, encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def provenance(results: xr.Dataset, md5: str) -> dict:
    """Return what produced `results`: settings, size, software and machine, without names, times or paths."""
    status, counts = np.unique(results["status"], return_counts=True)
    ended = dict(zip(status.tolist(), counts.tolist(), strict=True))
    return {
        "profile": results.attrs["profile"],
        "results": {"schema": results.attrs["schema"], "md5": md5},
        "attempts": {
            "all": int(results["status"].size),
            "completed": ended.get(COMPLETED, 0),
            "diverged": ended.get(DIVERGED, 0),
        },
        "settings": json.loads(results.attrs["settings"]),
        "software": {
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory": f"{round(psutil.virtual_memory().total / 2**30)} GiB",
        },
    }


def _recorded_md5(root: Path) -> str:
    """Return the hash of the results in `dvc.lock`, which must be that of the file itself."""
    lock = root / "dvc.lock"
    stages = YAML(typ="safe").load(lock.read_text("utf-8"))["stages"] if lock.exists() else {}
    recorded = {
        out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", [])
    }.get(RESULTS)
    with (root / RESULTS).open("rb") as file:
        found = hashlib.file_digest(file, "md5").hexdigest()
    if recorded != found:
        raise ResultsError(
            f"{RESULTS} has the hash {found}, dvc.lock records {recorded}; run `make repro` to the end first"
        )
    return found


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def main() -> int:
    """Keep the results of the last run and say where."""
    try:
        folder = keep()
    except ResultsError as error:
        print(f"lib.reference: {error}", file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(
        f"kept in {folder.relative_to(ROOT)}, {size / 1e6:.1f} MB; add it to Git to keep it for all"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
