"""`make repro` as it is typed: analyses in parallel, one call at a time, short messages."""

import ast
import os
import subprocess
import sys
from functools import partial
from unittest.mock import MagicMock

import pytest
from dvc.repo import Repo
from processes import python
from study.paths import ROOT
from study.pipeline import repro


def _run_main(before, *flags):
    """Run ``python -m study.pipeline`` after some other lines of code."""
    lines = [
        "import runpy, sys",
        "sys.path.insert(0, 'lib')",
        before,
        "runpy.run_module('study.pipeline', run_name='__main__')",
    ]
    return python(*flags, "-c", "\n".join(lines))


@pytest.mark.parametrize(
    "words", [["code"], ["notebooks/21_parameter_counts.ipynb", "x.ipynb"], ["repro"]]
)
def test_without_the_environment_one_sentence_names_it(words):
    # -S leaves out what is installed, as in a system's Python.
    done = _run_main(f"sys.argv = ['', *{words}]", "-S", "-E")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "No module named" in done.stderr
    assert "`. .venv/bin/activate`, or type `make repro`" in done.stderr


def test_arguments_are_passed_to_dvc():
    before = "import study.pipeline.repro as r; r.main = print; sys.argv = ['', 'repro', 'report']"
    assert _run_main(before).stdout == "['report']\n"


INTERRUPTED = """
class Arguments(list):
    def __getitem__(self, index):
        raise KeyboardInterrupt

sys.argv = Arguments(['x'])
"""
"""An interrupt comes when the program first looks at its arguments."""


def test_early_interrupts_print_one_line():
    done = _run_main(INTERRUPTED)
    assert (done.returncode, done.stderr) == (130, "study.pipeline: interrupted\n")


@pytest.fixture
def without_dvc(monkeypatch, tmp_path):
    """Let `repro` start a process that a test controls instead of DVC."""
    monkeypatch.setattr(repro, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(repro, "ROOT", tmp_path)
    monkeypatch.setattr(repro.code, "main", lambda: 0)
    monkeypatch.setattr(repro.fork_server, "serving", MagicMock())
    popen = MagicMock()
    monkeypatch.setattr(repro.subprocess, "Popen", popen)
    return popen


def test_interrupted_pipelines_print_one_line(without_dvc, capsys):
    wait = without_dvc.return_value.__enter__.return_value.wait
    wait.side_effect = [KeyboardInterrupt, 0]
    assert repro.main(["report"]) == 130
    assert without_dvc.call_args.args[0][-1] == "report"
    assert capsys.readouterr().err == "interrupted; every finished stage and run is kept\n"


def test_wrong_records_run_again_at_once(without_dvc, monkeypatch):
    wrong = iter([{"analyze@one": None}, {}])
    monkeypatch.setattr(repro, "wrong_records", lambda root: next(wrong))
    discards = MagicMock(return_value=0)
    monkeypatch.setattr(repro.code, "main", discards)
    rebuilds = MagicMock(return_value=0)
    monkeypatch.setattr(repro, "_bring_up_to_date", rebuilds)
    assert repro.main([]) == 0
    assert (discards.call_count, rebuilds.call_count) == (2, 2)


@pytest.mark.parametrize(("owner", "message"), [(1, True), (999_999_999, False)])
def test_other_running_dvc_is_reported(without_dvc, tmp_path, capsys, owner, message):
    without_dvc.return_value.__enter__.return_value.wait.return_value = 255
    (tmp_path / ".dvc" / "tmp").mkdir(parents=True)
    locks = f'{{"write": {{}}, "read": {{"a": [{{"pid": {owner}, "cmd": "dvc repro"}}]}}}}'
    (tmp_path / ".dvc" / "tmp" / "rwlock").write_text(locks)
    assert repro.main(["report"]) == 255
    printed = capsys.readouterr().err
    assert ("another dvc command is running in this folder" in printed) == message


def test_read_only_folder_is_reported_in_one_sentence(without_dvc, monkeypatch, capsys):
    lock = MagicMock()
    lock.open.side_effect = OSError(30, "Read-only file system", "data/cache/repro.lock")
    monkeypatch.setattr(repro, "LOCK", lock)
    assert repro.main([]) == 2
    printed = capsys.readouterr().err
    assert "Read-only file system: 'data/cache/repro.lock'; the pipeline needs a folder" in printed
    assert len(printed.splitlines()) == 1


PIPELINE = """
stages:
  train:
    cmd: >-
      echo shown by a stage >&2;
      echo ran >> ../runs;
      for i in $(seq 600); do [ -e ../simulated ] && break; sleep 0.1; done;
      cat ../simulated > a
    outs: [a]
  simulate:
    cmd: sleep 1; echo ran > ../simulated; echo c > c
    outs: [c]
  analyze:
    foreach: [one, two, three]
    do:
      cmd: >-
        touch ${item}.began;
        for i in $(seq 600); do set -- *.began; [ $# -gt 1 ] && break; sleep 0.1; done;
        echo $# > ${item}
      deps: [a]
      outs: ["${item}"]
  report:
    cmd: cat one two three > b
    deps: [one, two, three]
    outs: [b]
"""
"""Training ends only if `simulate` runs beside it; each analysis counts those that have begun.

It waits for a file that is not an output, because DVC moves outputs to its cache and back.
"""
FAILING = PIPELINE.replace("echo $# > ${item}", "echo ${item} >> ../runs; test ${item} != two")
DRIVER = """
import sys
from pathlib import Path
from study.pipeline import repro
repro.ROOT = Path.cwd()
repro.LOCK = Path("lock")
repro.code.main = lambda: 0
repro.os.sched_getaffinity = lambda _: {0, 1}
sys.exit(repro.main([]))
"""


@pytest.fixture
def start(tmp_path):
    """Return a function that starts `make repro` in a small clone."""
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "dvc.yaml").write_text(PIPELINE)
    Repo.init(str(clone), no_scm=True).close()
    return partial(
        subprocess.Popen,
        [sys.executable, "-c", DRIVER],
        cwd=clone,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "lib")},
    )


def test_two_calls_run_once_with_analyses_in_parallel(start, tmp_path):
    both = [start(), start()]
    printed, errors = zip(*(process.communicate() for process in both), strict=True)
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(printed) == ["", "nothing to do: 6 stages are up to date\n"]
    ran, waited = sorted(errors, key=len)
    assert ran == "shown by a stage\n"
    assert waited.startswith("another `make repro` is running in this folder")
    assert len(waited.splitlines()) == 1
    assert (tmp_path / "runs").read_text() == "ran\n"
    # Each waited for a minute, or until another one had begun.
    for name in ("one", "two", "three"):
        assert int((tmp_path / "clone" / name).read_text()) > 1


def test_a_failure_ends_a_run(start, tmp_path):
    (tmp_path / "clone" / "dvc.yaml").write_text(FAILING)
    process = start()
    _, errors = process.communicate()
    assert process.returncode != 0
    assert "failed to reproduce 'analyze@two'" in errors
    assert (tmp_path / "runs").read_text().count("two") == 1


@pytest.mark.parametrize("name", ["__init__.py", "pipeline/__init__.py", "pipeline/__main__.py"])
def test_old_python_can_parse_the_entry_point(name):
    text = (ROOT / "lib" / "study" / name).read_text("utf-8")
    ast.parse(text, feature_version=(3, 6))
