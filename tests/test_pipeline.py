"""The pipeline: `dvc.yaml` names every notebook and what it depends on."""

import re
import shutil
from pathlib import Path

import pytest
from designs import fresh_reads, sections

from lib.paths import ROOT
from lib.report.look import stored as looked_at
from lib.results.reference import RESULTS
from lib.run import fingerprint
from lib.run.code import notebooks, prune, write_code
from lib.run.notebooks import read_parameters
from lib.training.profile import DESIGNS

REFERENCE = "data/reference/real"
_READ_BY = {"lib/results/published.py": "data/published"}
"""Folders that a module reads whoever imports it."""


@pytest.fixture(scope="module")
def stages():
    """Return every stage by name with its templates filled in, as DVC sees them."""
    from dvc.repo import Repo

    with Repo(ROOT) as repo:
        return {stage.addressing: stage for stage in repo.index.stages}


@pytest.fixture(scope="module")
def runs(stages):
    """Return those that run a notebook, with its name."""
    found = {
        name: re.search(r"lib.run (notebooks/\S+)", stage.cmd) for name, stage in stages.items()
    }
    return {name: (match[1], stages[name]) for name, match in found.items() if match}


def _given(stage):
    """Return the parameters that a stage passes, and the results of each set."""
    return tuple(dict(re.findall(rf"-{flag} (\S+) (\S+)", stage.cmd)) for flag in "ps")


def _deps(stage):
    return {dep.def_path for dep in stage.deps}


def _outs(stage):
    return {out.def_path for out in stage.outs}


def test_every_notebook_has_a_line_and_every_stage_says_what_it_does(stages, runs):
    run, known = (
        {notebook for notebook, _ in runs.values()},
        {f"notebooks/{p.name}" for p in notebooks()},
    )
    assert not known - run, "add a line for it to the list of its kind in dvc.yaml"
    assert not run - known, "there is no such notebook"
    assert all(stage.desc for stage in stages.values())
    rest = {stages[name].cmd.removeprefix("python -m lib.") for name in set(stages) - set(runs)}
    assert rest == {"run code", "report", "training"}
    for name, stage in stages.items():
        assert all(out.use_cache for out in stage.outs) == (name != "code"), "what is set back"


def test_every_parameter_that_a_stage_passes_exists_and_all_of_its_paths_are_named(runs):
    for name, (notebook, stage) in runs.items():
        given, sets = _given(stage)
        given |= {"results": "", "result_set": ""} if sets else {}
        assert set(given) <= set(read_parameters(ROOT / notebook)), name
        read = {given.get("prepared"), *sets.values()} - {None}
        assert {notebook, f"data/code/{notebook[10:-6]}", *read} <= _deps(stage), name
        executed = re.match(r"python -m lib.run \S+ (\S+)", stage.cmd)[1]
        if str(given["out"]) != "data":
            assert {given["out"], executed} <= _outs(stage), name
        else:
            made = f"data/made/{Path(executed).stem}"
            assert made in _outs(stage), name
            assert executed.startswith(f"{made}/{'{set}' if sets else given['result_set']}/"), name
        for module in fingerprint.notebook_reached(ROOT / notebook):
            folder = _READ_BY.get(module)
            assert folder is None or folder in _deps(stage), f"{name} reads {folder}"
        if "profile" in read_parameters(ROOT / notebook):
            assert any(path.startswith("data/code/settings") for path in _deps(stage)), name


def test_every_path_exists_or_is_produced(stages, tmp_path):
    written = {f"data/code/{name}" for name in write_code(tmp_path / "code")}
    groups = [set(sections(name)["trainings"]) for name in ("smoke", "quick", "real", "paper")]
    results = {f"data/results/{group}.nc" for group in {*DESIGNS, *set.intersection(*groups)}}
    outs = {out for stage in stages.values() for out in _outs(stage)}
    made = outs - {"data/results", "data/code"} | results | written | {"data/code/settings"}
    for name, stage in stages.items():
        for path in _deps(stage):
            if path not in made and not any(out.startswith(f"{path}/") for out in made):
                assert (ROOT / path).exists(), f"{name} needs {path}, which nothing makes"
                stored = path.startswith(("data/published", "data/reference"))
                assert stored or not path.startswith("data/"), f"{name}: {path}"


def test_every_stored_reference_is_analysed(runs):
    """A dataset that is kept for the first time needs its line among those with a reference."""
    stored = {path.relative_to(ROOT).as_posix() for path in (ROOT / REFERENCE).glob("*.nc")}
    for name, (_, stage) in runs.items():
        sets = _given(stage)[1]
        if "rebuilt" in sets:
            reference = sets["rebuilt"].replace(RESULTS, REFERENCE)
            assert (reference in stored) == ("reference" in sets), f"{name} and {reference}"
    elsewhere = {f"{REFERENCE}/short_factorial.nc"}  # a second run of one experiment
    assert {run.parameters["results"] for run in looked_at()} == stored - elsewhere


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A tree with the real notebooks, modules and parameters, to change."""
    fresh_reads(monkeypatch)
    for name in ("lib", "notebooks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__py*", ".*"))
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def _edit(path, before, after):
    text = path.read_text("utf-8")
    assert before in text, f"{path.name} no longer holds {before!r}"
    path.write_text(text.replace(before, after, 1), "utf-8")
    if path.suffix != ".py":
        fingerprint._read.cache_clear()


def test_files_are_written_only_when_what_they_tell_of_changes(stages, small):
    code = small / "data" / "code"
    assert set(write_code(code, small)) >= {"10_train", "report", "settings/data"}
    assert write_code(code, small) == []
    assert not (code / "settings" / "jobs").exists(), "where jobs run changes no result"
    gru = small / "lib" / "cells" / "gru.py"
    _edit(gru, '"""', '"""Said anew. ')
    assert write_code(code, small) == []
    _edit(gru, "return ", "return 0.999 * ")
    changed = write_code(code, small)
    assert "10_train" in changed and "22_numerical_errors" not in changed
    _edit(small / "lib" / "report" / "templates" / "index.md.jinja", "#", "# ")
    assert write_code(code, small) == ["report"]
    assert {"lib/report/conf.py", "lib/report/static"} <= _deps(stages["report"])
    _edit(small / "params.yaml", "profile: quick", "profile: smoke")
    changed = write_code(code, small)
    assert "settings/factorial" in changed and "10_train" not in changed, "only the chosen profile"
    (small / "notebooks" / "22_numerical_errors.ipynb").unlink()
    write_code(code, small)
    assert not (code / "22_numerical_errors").exists()


def test_a_plot_does_not_train_again_and_a_cell_does():
    read = {path.stem: set(fingerprint.notebook_reached(path)) for path in notebooks()}
    assert {"lib/cells/gru.py", "lib/probes/adjoint.py"} <= read["10_train"]
    assert "lib/plotting/__init__.py" not in read["10_train"]
    assert "lib/plotting/__init__.py" in read["22_numerical_errors"]


def test_the_settings_are_checked_before_anything_trains(stages):
    names = list(stages)
    assert names.index("check") < names.index("train")
    assert _deps(stages["check"]) == {"data/code/training", "data/code/settings"}


def test_outputs_of_what_is_gone_are_removed_and_nothing_else(tmp_path):
    (tmp_path / "notebooks").mkdir()
    for name in ("22_numerical_errors", "30_tenet"):
        (tmp_path / "notebooks" / f"{name}.ipynb").touch()
    gone = {"data/made/29_gone"}
    kept = {"data/made/22_numerical_errors/rebuilt", "data/made/30_tenet/rebuilt"}
    for folder in gone | kept:
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "data/made/.gitignore").touch()
    assert {path.as_posix() for path in prune(tmp_path)} == gone
    assert all((tmp_path / folder).exists() for folder in kept)
