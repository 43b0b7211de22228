"""The Dockerfile against the repository: what it copies exists, and `make` needs no more."""

import re
import shutil
import subprocess

from ruamel.yaml import YAML
from study.paths import ROOT

LINES = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
IGNORED = [
    line
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
COPIED = [line.split()[1:-1] for line in LINES if line.startswith("COPY ") and " . " not in line]


def test_copied_files_exist():
    assert COPIED, "the environment is built before the rest is copied"
    for name in COPIED[0]:
        assert (ROOT / name).is_file(), name


def test_environment_needs_only_the_files_copied_first(tmp_path):
    for name in COPIED[0]:
        shutil.copy(ROOT / name, tmp_path)
    make = ["make", "--dry-run", "--directory", tmp_path, ".venv/requirements"]
    done = subprocess.run(make, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    installed = re.findall(r"-r (\S+) -c (\S+)", "\n".join([done.stdout, *LINES]))
    assert installed
    assert {name for pair in installed for name in pair} <= set(COPIED[0])


def _is_in_image(path):
    """Whether `COPY . .` copies a path: the last pattern that matches it or a parent decides."""
    copied = True
    for line in IGNORED:
        escaped = re.escape(line.removeprefix("!"))
        pattern = escaped.replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
        if re.fullmatch(f"{pattern}(/.*)?", path):
            copied = line.startswith("!")
    return copied


def test_image_has_what_make_reads():
    names = ["Makefile", "dvc.lock", "dvc.yaml", "params.yaml", "pyproject.toml", ".dvc/config"]
    kinds = ["lib/**/*.py", "notebooks/*.ipynb", "tests/**/*.py"]
    kinds += ["data/published/**/*.yaml", "data/reference/**/*.nc", "data/readme/*.png"]
    for kind in kinds:
        names += [path.relative_to(ROOT).as_posix() for path in ROOT.glob(kind)]
    assert {"data/published/claims/lem.yaml", "data/reference/real/factorial.nc"} <= set(names)
    assert [name for name in names if not _is_in_image(name)] == []


def test_image_has_no_results_and_nothing_of_one_checkout():
    names = ["data/raw/a.zip", "data/cache/a.npz", "lib/longrnn/cells/__pycache__/lem.pyc"]
    names += [".git/config", ".dvc/tmp/a", ".dvc/cache/a", ".dvc/config.local", "shared/a"]
    names += ["data/look/report/index.html", "data/interactive/a.ipynb", "slurm-1.out"]
    git_ignores = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    names += [line.strip("/").replace("*", "1") for line in git_ignores if line[0] != "#"]
    stages = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"].values()
    for stage in stages:
        for out in stage.get("do", stage).get("outs", []):
            names.append(out if isinstance(out, str) else next(iter(out)))
    assert {"data/code", "data/results", "data/simulated/factorial.nc", ".venv"} <= set(names)
    assert [name for name in names if _is_in_image(name)] == []
