"""A notebook saved at any moment of a run: the next `dvc repro` shows what was saved."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from small_notebooks import plain_notebook
from study.paths import ROOT

pytestmark = pytest.mark.trials

MOMENTS = 10
"""Moments of a run at which the notebook is saved."""
PIPELINE = """
stages:
  code:
    cmd: python -m study.pipeline code
    always_changed: true
    outs: [{data/code: {cache: false, persist: true}}]
  show:
    cmd: python -m study.pipeline notebooks/a.ipynb data/executed/a.ipynb
    deps: [notebooks/a.ipynb, data/code/a]
    outs: [data/executed/a.ipynb]
"""


@pytest.fixture
def clone(tmp_path):
    """A folder with the code and a pipeline of one notebook."""
    shutil.copytree(ROOT / "lib", tmp_path / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "notebooks").mkdir()
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "dvc.yaml").write_text(PIPELINE)
    _dvc(tmp_path, "init", "-q", "--no-scm").wait()
    return tmp_path


def _dvc(clone, *arguments):
    environment = os.environ | {"PYTHONPATH": str(clone / "lib")}
    programs = Path(sys.executable).parent
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    command = [sys.executable, "-m", "dvc", *arguments]
    silent = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=clone, env=environment, stdout=silent, stderr=silent)


def _save(clone, version):
    code = f"import time; time.sleep(0.5); print('version', {version})"
    nbformat.write(plain_notebook("rate = 1", code), clone / "notebooks" / "a.ipynb")


def test_saving_during_a_run_leaves_no_stale_copy(trials, clone):
    executed = clone / "data" / "executed" / "a.ipynb"
    _save(clone, "'first'")
    begin = time.monotonic()
    assert _dvc(clone, "repro").wait() == 0
    duration = time.monotonic() - begin
    for moment in trials.some(MOMENTS):
        _save(clone, f"'before {moment}'")
        run = _dvc(clone, "repro")
        time.sleep(duration * (moment + 0.5) / MOMENTS)
        _save(clone, f"'during {moment}'")
        run.wait()

        def run_again(version=f"version during {moment}"):
            status = _dvc(clone, "repro").wait()
            return status, version in executed.read_text()

        trials.accept(f"saved at moment {moment}", run_again, (0, True).__eq__)
