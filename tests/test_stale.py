"""What is trained again after an edit: exactly what used the edited formula, and nothing after an edit of prose."""

import shutil

import pytest
from processes import python

from lib.paths import ROOT
from lib.tasks.sources import prepare

_DRIVER = f"""
import sys
sys.path.append({str(ROOT / "tests")!r})
from pathlib import Path
from designs import connect_here, study
from lib.run.params import Jobs
from lib.training.jobs import run

run.connect = connect_here
study(
    Jobs(scheduler="local", workers=1), Path("prepared"), "cache",
    architecture=("lstm", "linear_rnn"), width=(3,), start="text", learning_rate=(0.01,), order=("sequential",),
    noise=("none",), training_length=(1,),
)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of `lib` whose formulas may be edited, with a data set and a way to train on it."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "lib", folder / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "params.yaml", folder)
    prepare("digits", folder / "prepared")
    return folder


def _trained(copy):
    """Train what has no shard; return a line of progress, and the names of all shards."""
    done = python("-c", _DRIVER, cwd=copy)
    assert done.returncode == 0, done.stderr
    first = next(line for line in done.stderr.splitlines() if "jobs to run" in line)
    return first, {path.name for path in (copy / "cache").glob("*.npz")}


def _edit(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
    path.write_text(text.replace(old, new))


@pytest.mark.slow
def test_a_changed_formula_trains_exactly_what_used_it_and_prose_trains_nothing(copy):
    first, shards = _trained(copy)
    assert "2 of 2 jobs to run" in first and len(shards) == 2

    cells = copy / "lib" / "cells"
    _edit(cells / "lstm.py", '"""One step;', '"""One step of the equations above;')
    (cells / "linear_rnn.py").write_text((cells / "linear_rnn.py").read_text() + "\n# a remark\n")
    told, same = _trained(copy)
    assert "0 of 2 jobs to run" in told and same == shards

    _edit(cells / "lstm.py", "torch.tanh(g)", "0.999 * torch.tanh(g)")
    told, more = _trained(copy)
    assert "1 of 2 jobs to run" in told and len(more - shards) == 1

    # What every training reaches.
    _edit(copy / "lib" / "training" / "seeds.py", 'digest(), "big")', 'digest(), "little")')
    assert "2 of 2 jobs to run" in _trained(copy)[0]
