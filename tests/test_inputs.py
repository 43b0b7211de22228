"""Inputs of a stage that change while it runs, and the versions that a stage depends on."""

import os
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML
from small_notebooks import plain_notebook
from study.paths import ROOT
from study.pipeline import dvc_records, execute, inputs, versions
from study.pipeline.inputs import (
    InputsChanged,
    dependencies,
    digests,
    outputs,
    unchanged_inputs,
)
from study.pipeline.notebooks import read_parameters

PIPELINE = """
stages:
  plain: {cmd: "true", deps: [notebook, folder]}
  each:
    foreach: {a: {file: notebook}, b: {file: missing}}
    do: {cmd: "true", deps: ["${item.file}", "${key}.nc"]}
"""


def test_dependencies_and_outputs_equal_those_of_dvc():
    with Repo(ROOT) as repo:
        stages = {stage.addressing: stage for stage in repo.index.stages}
    assert len(stages) > 40
    for name, stage in stages.items():
        seen = {ROOT / dependency.def_path for dependency in stage.deps}
        assert set(dependencies(name)) == seen, name
        made = {ROOT / output.def_path for output in stage.outs}
        assert set(outputs(name)) == made, name


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder with two stages and their inputs, in which DVC seems to run the stage ``plain``."""
    (tmp_path / "dvc.yaml").write_text(PIPELINE)
    (tmp_path / "notebook").write_text("1")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "table").write_text("1")
    monkeypatch.setenv(inputs.STAGE, "plain")
    return tmp_path


def test_items_of_foreach_are_filled_in(root):
    assert dependencies("each@a", root) == [root / "notebook", root / "a.nc"]
    assert dependencies("nowhere", root) == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("notebook", lambda root: (root / "notebook").write_text("2")),
        ("folder/table", lambda root: (root / "folder" / "table").write_text("2")),
        ("folder/new", lambda root: (root / "folder" / "new").write_text("")),
        ("folder/table", lambda root: (root / "folder" / "table").unlink()),
    ],
)
def test_changed_inputs_are_refused(root, name, change):
    with (
        pytest.raises(InputsChanged, match=f"^{name} changed while the stage plain ran"),
        unchanged_inputs(root),
    ):
        change(root)


def test_inputs_saved_without_a_change_are_accepted(root):
    with unchanged_inputs(root):
        (root / "notebook").write_text("1")
    assert len(digests(dependencies("plain", root), root)) == 2


LATE = """
stages:
  code:
    cmd: python -m study.pipeline code
    always_changed: true
    outs: [{data/code: {cache: false, persist: true}}]
  show:
    cmd: >-
      python -m study.pipeline notebooks/21_late.ipynb data/made/late.ipynb
      && (test ! -e late || mv late notebooks/21_late.ipynb)
    deps: [notebooks/21_late.ipynb, data/code/21_late, folder]
    outs: [data/made/late.ipynb]
"""


@pytest.mark.filterwarnings("ignore:_NoneStep.value")  # DVC's own
def test_a_save_after_the_last_check_runs_again(tmp_path, monkeypatch, capfd):
    shutil.copytree(ROOT / "lib", tmp_path / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "dvc.yaml").write_text(LATE)
    (tmp_path / "notebooks").mkdir()
    notebook = tmp_path / "notebooks" / "21_late.ipynb"
    folder = tmp_path / "folder"
    (folder / "a below").mkdir(parents=True)
    for name in ("a below/é", "B.partial", ".x.partial1"):  # DVC ignores the last one
        (folder / name).write_text(name)
    shutil.copy(ROOT / ".dvcignore", tmp_path)
    first, second = (plain_notebook("a = 1", f"print('made by {name}')") for name in ("A", "B"))
    nbformat.write(first, notebook)
    nbformat.write(second, tmp_path / "late")  # the stage saves it when its command has ended
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)

    def reproduce():
        """Do what `dvc repro` does; return what its stages print."""
        with Repo() as repo:
            repo.reproduce()
        printed = capfd.readouterr()
        return printed.out + printed.err

    made = tmp_path / "data" / "made" / "late.ipynb"
    Repo.init(no_scm=True).close()
    reproduce()
    assert "made by A" in made.read_text()  # DVC has recorded the notebook of B
    assert "an input of the stage show was saved as it ended" in reproduce()
    assert "made by B" in made.read_text()
    assert "runs again" not in reproduce()
    (_, last) = dvc_records.read_notes("show", tmp_path)
    locked = YAML(typ="safe").load(tmp_path / "dvc.lock")["stages"]["show"]
    assert last.inputs == {entry["path"]: entry["md5"] for entry in locked["deps"]}
    nbformat.write(first, notebook)  # what is restored from DVC's run cache is not suspicious
    reproduce()
    assert "made by A" in made.read_text()
    nbformat.write(second, notebook)
    assert "runs again" not in reproduce()
    assert "made by B" in made.read_text()


def test_outside_of_dvc_inputs_may_change(root, monkeypatch):
    monkeypatch.delenv(inputs.STAGE)
    with unchanged_inputs(root):
        (root / "notebook").write_text("2")


def test_a_failing_stage_keeps_its_own_error(root):
    def fail():
        with unchanged_inputs(root):
            (root / "notebook").write_text("2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_a_notebook_saved_during_its_stage_fails(tmp_path, monkeypatch, capsys):
    notebook = "notebooks/21_parameter_counts.ipynb"
    assert read_parameters(ROOT / notebook)
    saved = tmp_path / "input"
    saved.write_text("before")
    monkeypatch.setenv(inputs.STAGE, "show@21_parameter_counts")
    monkeypatch.setattr(inputs, "dependencies", lambda stage, root: [saved])

    def save_during_the_run(*_, **__):
        saved.write_text("after")
        return 0

    monkeypatch.setattr(execute, "execute_all", save_during_the_run)
    assert execute.main([notebook, str(tmp_path / "out.ipynb")]) == 1
    _announcement, message = capsys.readouterr().err.splitlines()
    assert "changed while the stage show@21_parameter_counts ran" in message


def test_versions_follow_what_packages_compute_with(monkeypatch):
    installed = {"statsmodels": "0.15.0", "numpy": "2.4.6", "torch": "2.13.0+cpu"}
    monkeypatch.setattr(versions, "version", lambda name: installed.get(name, "1"))
    versions._version.cache_clear()
    actual = versions.result_versions(["statsmodels", "torch", "papermill", "json"])
    assert actual["statsmodels"] == "0.15.0"
    assert actual["torch"] == "2.13.0"
    assert set(actual) == {"numpy", "pandas", "patsy", "scipy", "statsmodels", "torch"}
    versions._version.cache_clear()
