"""`make repro` and `dvc repro` as they are typed: a line a stage, and one sentence where the environment is missing."""

import ast
import os
import subprocess
import sys
from functools import partial
from unittest.mock import MagicMock

import pytest
from processes import python
from study.paths import ROOT
from study.pipeline import repro


def _entered(before, *flags):
    code = f"import runpy, sys; sys.path.insert(0, 'lib'); {before}; runpy.run_module('study.pipeline', run_name='__main__')"
    return python(*flags, "-c", code)


def test_without_the_environment_one_sentence_names_it():
    # -S leaves out what is installed, as in a system's Python.
    notebook = ["notebooks/21_parameter_counts.ipynb", "x.ipynb"]
    calls = [f"sys.argv = ['', *{words}]" for words in (["code"], notebook, ["repro"])]
    for before in calls:
        done = _entered(before, "-S", "-E")
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
        assert "No module named" in done.stderr
        assert "`. .venv/bin/activate`, or type `make repro`" in done.stderr


def test_words_are_passed_on_and_an_early_interrupt_is_one_line():
    told = "import study.pipeline.repro as r; r.main = print; sys.argv = ['', 'repro', 'report']"
    assert _entered(told).stdout == "['report']\n"
    argv = "type('A', (list,), {'__getitem__': lambda *_: exec('raise KeyboardInterrupt')})(['x'])"
    done = _entered(f"sys.argv = {argv}")
    assert (done.returncode, done.stderr) == (130, "study.pipeline: interrupted\n")


def test_an_interrupted_pipeline_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(repro, "LOCK", tmp_path / "lock")
    dvc = MagicMock()
    dvc.return_value.__enter__.return_value.wait.side_effect = [KeyboardInterrupt, 0]
    monkeypatch.setattr(repro.subprocess, "Popen", dvc)
    monkeypatch.setattr(repro.warm, "serving", MagicMock())
    assert repro.main(["report"]) == 130 and dvc.call_args.args[0][-1] == "report"
    assert "every finished stage and training is kept" in capsys.readouterr().err


_PIPELINE = """
stages:
  train: {cmd: "echo told by a stage; echo ran >> ../runs; for i in $(seq 600); do [ -e c ] && break; sleep 0.1; done; cat c > a", outs: [a]}
  simulate: {cmd: sleep 1; echo c > c, outs: [c]}
  analyse:
    foreach: [one, two, three]
    do: {cmd: "touch ${item}.began; for i in $(seq 600); do set -- *.began; [ $# -gt 1 ] && break; sleep 0.1; done; echo $# > ${item}", deps: [a], outs: ["${item}"]}
  report: {cmd: cat one two three > b, deps: [one, two, three], outs: [b]}
"""
_REPRO = """
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
def pipeline(tmp_path):
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "dvc.yaml").write_text(_PIPELINE)
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], cwd=clone, check=True)
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    how["env"] = os.environ | {"PYTHONPATH": str(ROOT)}
    return partial(subprocess.Popen, [sys.executable, "-c", _REPRO], cwd=clone, **how)


def test_of_two_at_once_one_runs_side_by_side_and_a_failure_ends_a_run(pipeline, tmp_path):
    both = [pipeline() for _ in range(2)]
    told, said = zip(*(process.communicate() for process in both), strict=True)
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(said)[0] == "" and sorted(said)[1].startswith("another `make repro` runs in")
    assert len("".join(said).splitlines()) == 1
    waited, ran = sorted(told)
    assert "nothing to do: 6 stages looked at" in waited and ran == "told by a stage\n"
    assert (tmp_path / "runs").read_text() == "ran\n"
    clone = tmp_path / "clone"
    # Each waited for a minute, or until another one had begun.
    assert all(int((clone / name).read_text()) > 1 for name in ("one", "two", "three"))
    fails = "echo ${item} >> ../runs; test ${item} != two"
    (clone / "dvc.yaml").write_text(_PIPELINE.replace("echo $# > ${item}", fails))
    failing = pipeline()
    _, said = failing.communicate()
    assert failing.returncode != 0 and "failed to reproduce 'analyse@two'" in said
    assert (tmp_path / "runs").read_text().count("two") == 1


def test_the_entry_can_be_read_by_an_old_python():
    for name in (
        "lib/study/__init__.py",
        "lib/study/pipeline/__init__.py",
        "lib/study/pipeline/__main__.py",
    ):
        ast.parse((ROOT / name).read_text("utf-8"), feature_version=(3, 6))
