"""Inputs of a stage that change while it runs, and the versions that a stage depends on."""

import pytest
from study.paths import ROOT
from study.pipeline import execute, inputs, versions
from study.pipeline.inputs import InputsChanged, dependencies, digests, unchanged_inputs
from study.pipeline.notebooks import read_parameters

PIPELINE = """
stages:
  plain: {cmd: "true", deps: [notebook, folder]}
  each:
    foreach: {a: {file: notebook}, b: {file: missing}}
    do: {cmd: "true", deps: ["${item.file}", "${key}.nc"]}
"""


def test_dependencies_equal_those_of_dvc():
    from dvc.repo import Repo

    with Repo(ROOT) as repo:
        stages = {stage.addressing: stage for stage in repo.index.stages}
    assert len(stages) > 40
    for name, stage in stages.items():
        seen = {ROOT / dependency.def_path for dependency in stage.deps}
        assert set(dependencies(name)) == seen, name


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
    assert len(digests(dependencies("plain", root))) == 2


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
    found = versions.result_versions(["statsmodels", "torch", "papermill", "json"])
    assert found["statsmodels"] == "0.15.0"
    assert found["torch"] == "2.13.0"
    assert set(found) == {"numpy", "pandas", "patsy", "scipy", "statsmodels", "torch"}
    versions._version.cache_clear()
