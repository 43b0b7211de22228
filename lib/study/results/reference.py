"""Keep the results of the last run in the repository, with a record of how they were made.

`python -m study.results.reference NAME...` (`make keep-reference`) copies
``data/results/<name>.nc`` to ``data/reference/<profile>/``, and the tables and pictures that
notebooks made of it to ``tables/<name>/`` and ``figures/<name>/`` next to it. It also writes
``<name>.json``, the provenance. Later analyses read these results, so that nobody has to repeat
hours of training to see their tables.

`python -m study.results.reference --checksums` adds the SHA-256 of every stored dataset to its
provenance if it is not there yet.
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
from study.pipeline.files import write_text, write_whole
from study.pipeline.machine import processor
from study.pipeline.notebooks import NotebookError, read_parameters
from study.results.artifacts import CLAIMS
from study.results.datasets import load
from study.results.netcdf import ResultsError, file_sha256, provenance_path
from study.results.schema import count_ends

RESULTS = "data/results"
CACHE = "data/cache"
MADE = "data/made"
KEPT = "data/reference"
WHOLE = "[!.]*"
"""Pattern of file names without the hidden files that a killed `write_whole` leaves behind."""
PACKAGES = (
    "torch", "numba", "numpy", "scipy", "statsmodels", "pandas", "xarray", "netCDF4", "distributed",
)  # fmt: skip


def names(root: Path = ROOT) -> list[str]:
    """Return the names of the datasets that this run's experiments have written.

    Parameters
    ----------
    root
        The repository.

    Returns
    -------
    list of str
        Names in alphabetical order.
    """
    return sorted(path.stem for path in (root / RESULTS).glob(f"{WHOLE}.nc"))


def keep(name: str, root: Path = ROOT) -> Path:
    """Copy a dataset, its tables and its pictures into the references.

    Parameters
    ----------
    name
        Name of the dataset.
    root
        The repository.

    Returns
    -------
    Path
        The copy of the dataset.

    Raises
    ------
    ResultsError
        Results are missing, lack attempts, or are not those of the last complete run. The stored
        reference is not changed then.
    """
    source = root / RESULTS / f"{name}.nc"
    results = load(source)
    missing = count_ends(results["status"])["missing"]
    if missing:
        raise ResultsError(
            f"{RESULTS}/{name}.nc lacks {missing} of its attempts; "
            "finish the experiment with `make repro`"
        )
    artifacts = _artifacts_of(name, root)
    md5 = _recorded_md5(root, f"{RESULTS}/{name}.nc")
    cost = _cost(name, results.attrs["profile"], root)
    record = provenance(results, md5, file_sha256(source), cost)
    target = root / KEPT / results.attrs["profile"]
    for kind, paths in artifacts.items():
        folder = target / kind / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in paths:
            shutil.copyfile(path, folder / path.name)
    _write_record(target / f"{name}.json", record)
    # The results come last: if they are new, so is everything else. Git has the earlier reference.
    write_whole(target / f"{name}.nc", lambda partial: shutil.copyfile(source, partial))
    return target / f"{name}.nc"


def provenance(results: xr.Dataset, md5: str, sha256: str, cost: dict) -> dict:
    """Describe how results were produced, without names, dates or paths.

    Parameters
    ----------
    results
        The dataset, without missing attempts.
    md5, sha256
        Hashes of its file: DVC's, and the one that is checked when it is read.
    cost
        What the runs cost, as `study.training.profile` recorded it.

    Returns
    -------
    dict
        Commit, settings, size, cost, software and machine.
    """
    ends = count_ends(results["status"])
    ends.pop("missing")  # there are none
    return {
        "profile": results.attrs["profile"],
        "commit": _commit(),
        "results": {"schema": results.attrs["schema"], "md5": md5, "sha256": sha256},
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


def add_checksums(root: Path = ROOT) -> list[Path]:
    """Add the SHA-256 of stored datasets to their provenance, if it is not there yet.

    Parameters
    ----------
    root
        The repository.

    Returns
    -------
    list of Path
        The provenance files that were changed.

    Raises
    ------
    ResultsError
        A dataset has another MD5 than its provenance records.
    """
    changed = []
    for path in sorted((root / KEPT).glob(f"*/{WHOLE}.nc")):
        file = provenance_path(path)
        record = json.loads(file.read_text("utf-8"))
        results = record["results"]
        if "sha256" in results:
            continue
        md5 = _md5(path)
        if md5 != results["md5"]:
            raise ResultsError(
                f"{path} has the MD5 {md5}, its provenance records {results['md5']}; "
                "restore it with `git checkout` first"
            )
        results["sha256"] = file_sha256(path)
        _write_record(file, record)
        changed.append(file)
    return changed


def _artifacts_of(name: str, root: Path) -> dict[str, list[Path]]:
    """Return the tables and figures that notebooks made of a dataset; refuse if one failed."""
    notebooks = [
        path.stem
        for path in (root / "notebooks").glob("*.ipynb")
        if Path(str(read_parameters(path).get("results", ""))).stem == name
    ]
    for stem in notebooks:
        for path in (root / MADE / stem).glob("rebuilt/*.failed.ipynb"):
            raise ResultsError(f"{path.name} did not end; run `make repro` to the end first")
    artifacts = {
        "tables": _made(root / MADE, notebooks, f"tables/{WHOLE}.csv"),
        "figures": _made(root / MADE, notebooks, f"figures/{WHOLE}.png"),
    }
    if not any(artifacts.values()):
        raise ResultsError(f"no tables or figures of {name} in {MADE}; make them with `make repro`")
    return artifacts


def _made(folder: Path, notebooks: list[str], pattern: str) -> list[Path]:
    """Return the files that notebooks made, except claims, which every run judges again."""
    paths = []
    for name in sorted(notebooks):
        paths += sorted(folder.glob(f"{name}/rebuilt/{pattern}"))
    return [path for path in paths if path.stem != CLAIMS]


def _cost(name: str, profile: str, root: Path) -> dict:
    """Return the cost that `study.training.profile` recorded last; empty if there is none.

    There are several if runs were cached in several folders. The last training wrote the results.
    """
    records = list((root / CACHE).glob(f"*/{name}.{profile}.cost.json"))
    if not records:
        return {}
    last = max(records, key=lambda path: path.stat().st_mtime_ns)
    return json.loads(last.read_text("utf-8"))


def _write_record(path: Path, record: dict) -> None:
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    write_text(path, text)


def _commit() -> str:
    """Return the current commit, with a + if files differ from it; empty outside of a clone."""
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return process.stdout.strip()


def _recorded_md5(root: Path, name: str) -> str:
    """Return the hash of the results in `dvc.lock`, which must be that of the file itself."""
    lock = root / "dvc.lock"
    stages = {}
    if lock.exists():
        stages = YAML(typ="safe").load(lock.read_text("utf-8"))["stages"]
    recorded = set()
    for stage in stages.values():
        for dependency in stage.get("deps", []):
            if dependency["path"] == name:
                recorded.add(dependency["md5"])
    if not recorded:
        raise ResultsError(f"dvc.lock does not list {name}; run `make repro` to the end first")
    actual = _md5(root / name)
    if recorded != {actual}:
        raise ResultsError(
            f"{name} has the hash {actual}, dvc.lock records {', '.join(sorted(recorded))}; "
            "run `make repro` to the end first"
        )
    return actual


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Keep the results of the last run and print their paths.

    Parameters
    ----------
    arguments
        Command line arguments; by default those of the process.

    Returns
    -------
    int
        Exit status: 0, or 1 after an error, which is printed to stderr.
    """
    parser = argparse.ArgumentParser(
        prog="python -m study.results.reference",
        description="Keep the results of the last run and print their paths.",
    )
    available = names()
    parser.add_argument(
        "names", nargs="*", help=f"some of {', '.join(available) or 'the results'}; all by default"
    )
    parser.add_argument(
        "--checksums", action="store_true", help="only add missing checksums to stored provenance"
    )
    options = parser.parse_args(arguments)
    try:
        if options.checksums:
            for path in add_checksums():
                print(f"added the SHA-256 to {path.relative_to(ROOT)}")
            return 0
        chosen = options.names or available
        if not chosen:
            raise ResultsError(f"no results in {RESULTS}; run `make repro` first")
        for name in chosen:
            path = keep(name)
            size = path.stat().st_size / 1e6
            print(f"kept {path.relative_to(ROOT)}, {size:.1f} MB; add its folder to Git")
    except (ResultsError, NotebookError, OSError) as error:
        print(f"study.results.reference: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
