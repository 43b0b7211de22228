"""The Dockerfile against the repository: what it copies exists, and `make` needs no more."""

import re
import shutil
import subprocess

from study.paths import ROOT

LINES = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
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


def test_image_holds_no_results():
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    kept_by_git = {"data/published", "data/readme", "data/reference"}
    assert {".git", ".venv", "data/cache", "data/raw", "data/results"} <= set(ignored)
    assert kept_by_git.isdisjoint(ignored)
