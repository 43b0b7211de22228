"""Keep this run's results in the repository, with what is needed to know how they came about.

`python -m study.results.reference NAME...` (`make keep-reference`) copies ``data/results/<name>.nc`` to ``data/reference/<profile>/``, the
tables and pictures that notebooks made of it to ``tables/<name>/`` and ``figures/<name>/`` beside it, and writes
``<name>.json``, its provenance. Analyses of every later run read the results, so that tables at a scale of hours are shown
without training again.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import psutil
import xarray as xr
from ruamel.yaml import YAML

from study.paths import ROOT
from study.pipeline.files import write_whole
from study.pipeline.machine import processor
from study.pipeline.notebooks import NotebookError, read_parameters
from study.results.artefacts import CLAIMS
from study.results.schema import ResultsError, count_ends, load

RESULTS = "data/results"
CACHE = "data/cache"
MADE = "data/made"
PACKAGES = (
    "torch", "numba", "numpy", "scipy", "statsmodels", "pandas", "xarray", "netCDF4", "distributed",
)  # fmt: skip


def names(root: Path = ROOT) -> list[str]:
    """Return the names of the datasets that this run's experiments have written below `root`."""
    return sorted(path.stem for path in (root / RESULTS).glob("*.nc"))


def keep(name: str, root: Path = ROOT) -> Path:
    """Copy the dataset `name`, its tables and pictures into the references below `root`; return its copy.

    A ResultsError says that results are missing, lack attempts, or are not those of the last complete run; the reference
    kept before stays as it was.
    """
    source = root / RESULTS / f"{name}.nc"
    results = load(source)
    if missing := count_ends(results["status"])["missing"]:
        raise ResultsError(
            f"{missing} attempts of {RESULTS}/{name}.nc are missing; "
            "finish the experiment with `make repro`"
        )
    notebooks = [
        path.stem
        for path in (root / "notebooks").glob("*.ipynb")
        if Path(str(read_parameters(path).get("results", ""))).stem == name
    ]
    ended = (root / MADE / stem for stem in notebooks)
    if failed := [path.name for folder in ended for path in folder.glob("rebuilt/*.failed.ipynb")]:
        raise ResultsError(f"{failed[0]} did not end; run `make repro` to the end first")
    made = {
        "tables": _made(root / MADE, notebooks, "tables/*.csv"),
        "figures": _made(root / MADE, notebooks, "figures/*.png"),
    }
    if not any(made.values()):
        raise ResultsError(f"no tables or figures of {name} in {MADE}; make them with `make repro`")
    cost = next(
        (root / CACHE).glob(f"*/{name}.cost.json"), None
    )  # as `study.training.jobs` wrote it
    spent = json.loads(cost.read_text("utf-8")) if cost else {}
    record = provenance(results, _recorded_md5(root, f"{RESULTS}/{name}.nc"), spent)
    target = root / "data" / "reference" / results.attrs["profile"]
    for kind, paths in made.items():
        folder = target / kind / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in paths:
            shutil.copyfile(path, folder / path.name)
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    write_whole(target / f"{name}.json", lambda partial: partial.write_text(text, "utf-8"))
    # The results last: where they are new, all else is. What was kept before is in Git.
    write_whole(target / f"{name}.nc", lambda partial: shutil.copyfile(source, partial))
    return target / f"{name}.nc"


def provenance(results: xr.Dataset, md5: str, cost: dict) -> dict:
    """Return what produced `results`: commit, settings, size, cost, software and machine, without names, dates or paths."""
    ends = count_ends(results["status"])
    ends.pop("missing")  # of which there are none
    return {
        "profile": results.attrs["profile"],
        "commit": _commit(),
        "results": {"schema": results.attrs["schema"], "md5": md5},
        "attempts": {"all": sum(ends.values()) - ends.get("not_planned", 0), **ends},
        "cost": cost,
        "settings": json.loads(results.attrs["settings"]),
        "software": {
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "processor": processor(),
            "cores": os.cpu_count(),
            "memory": f"{round(psutil.virtual_memory().total / 2**30)} GiB",
        },
    }


def _commit() -> str:
    """Return the commit that is checked out, with a + where files differ from it; empty outside of a clone."""
    asked = ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def _made(folder: Path, notebooks: list[str], pattern: str) -> list[Path]:
    """Return what notebooks made, but claims, which every run judges anew on the kept results."""
    stems = sorted(notebooks)
    made = [path for name in stems for path in sorted(folder.glob(f"{name}/rebuilt/{pattern}"))]
    return [path for path in made if path.stem != CLAIMS]


def _recorded_md5(root: Path, name: str) -> str:
    """Return the hash of the results in `dvc.lock`, which must be that of the file itself."""
    lock = root / "dvc.lock"
    stages = YAML(typ="safe").load(lock.read_text("utf-8"))["stages"] if lock.exists() else {}
    deps = (dep for stage in stages.values() for dep in stage.get("deps", []))
    recorded = {dep["md5"] for dep in deps if dep["path"] == name}
    with (root / name).open("rb") as file:
        found = hashlib.file_digest(file, "md5").hexdigest()
    if recorded != {found}:
        raise ResultsError(
            f"{name} has the hash {found}, dvc.lock records {', '.join(sorted(recorded)) or None}; run `make repro` to the end first"
        )
    return found


def main(arguments: list[str] | None = None) -> int:
    """Keep the results of the last run and say where."""
    parser = argparse.ArgumentParser(
        prog="python -m study.results.reference", description=main.__doc__
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(names())}; all by default")
    options = parser.parse_args(arguments)
    for name in options.names or names():
        try:
            path = keep(name)
        except (ResultsError, NotebookError, OSError) as error:
            print(f"study.results.reference: {error}", file=sys.stderr)
            return 1
        size = path.stat().st_size / 1e6
        print(f"kept {path.relative_to(ROOT)}, {size:.1f} MB; add its folder to Git")
    return 0


if __name__ == "__main__":
    sys.exit(main())
