"""`make repro` and `dvc repro` as they are typed: a line a stage, and one sentence where the environment is missing."""

import subprocess
import sys

from lib.paths import ROOT
from lib.report.look import stored
from lib.run.repro import count_stages, tell

_DVC = """\
Running stage 'code':
> python -m lib.run code

Stage 'prepare' didn't change, skipping
Running stage 'analyse@22_numerical_errors':
> python -m lib.run notebooks/22_numerical_errors.ipynb data/executed/{set}/22_numerical_errors.ipynb
told by the notebook
WARNING: 'data/figures/rebuilt/22_numerical_errors' is empty.
Updating lock file 'dvc.lock'

Stage 'coverage' is cached - skipping run, checking out outputs
To track the changes with git, run:

	git add dvc.lock
Use `dvc push` to send your updates to remote storage.
"""


def test_each_stage_that_runs_has_one_line_and_chatter_has_none():
    first, second, third = tell(_DVC.splitlines(keepends=True), 4)
    assert first.startswith("stage 3 of 4 at 0:00, analyse@22_numerical_errors: ")
    assert first.endswith("?")
    assert second == "told by the notebook"
    assert third == "stage 4 of 4, coverage: taken from the cache"


def test_nothing_to_do_is_said():
    lines = [line for line in _DVC.splitlines() if "code" in line or "prepare" in line]
    assert list(tell(lines, 38)) == ["nothing to do: 2 of 38 stages looked at, all up to date"]


def test_an_error_is_told_and_nothing_else():
    error = "ERROR: failed to reproduce 'prepare': no room"
    assert list(tell([error], 38)) == [error]


def test_stages_are_counted_as_dvc_expands_them():
    from dvc.repo import Repo

    with Repo(ROOT) as repo:
        assert count_stages() == len(repo.index.stages)


def test_without_the_environment_one_sentence_names_it():
    # -S leaves out what is installed, as in a system's Python.
    for arguments in (["code"], ["notebooks/21_parameter_counts.ipynb", "x.ipynb"], ["repro"]):
        code = f"import runpy, sys; sys.path.insert(0, '.'); sys.argv = ['', *{arguments}]; runpy.run_module('lib.run', run_name='__main__')"
        command = [sys.executable, "-S", "-E", "-c", code]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert len(done.stderr.splitlines()) == 1
        assert "lacks papermill" in done.stderr
        assert "`. .venv/bin/activate`, or type `make repro`" in done.stderr


def test_the_entry_can_be_read_by_an_old_python():
    import ast

    for name in ("lib/__init__.py", "lib/run/__init__.py", "lib/run/__main__.py"):
        ast.parse((ROOT / name).read_text("utf-8"), feature_version=(3, 6))


def test_all_stored_datasets_are_looked_at():
    from lib.run.notebooks import read_parameters

    looked = {read_parameters(path)["results"] for path in stored()}
    assert looked == {
        f"data/reference/real/{path.name}" for path in (ROOT / "data/reference/real").glob("*.nc")
    }
