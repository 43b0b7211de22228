"""The pipeline: `dvc.yaml` follows the notebooks, hangs together, and gives the same hashes twice."""

import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from ruamel.yaml import YAML

from lib.paths import NOTEBOOKS, ROOT
from lib.run.notebooks import NotebookError, read_parameters
from lib.run.params import PROFILES, load_params
from lib.run.pipeline import __main__ as pipeline
from lib.run.pipeline import stages as stages_module
from lib.run.pipeline.datasets import result_sets, written
from lib.run.pipeline.imports import modules
from lib.run.pipeline.stages import prune, render


def _load(text):
    return YAML(typ="safe").load(text)


def _stages():
    """Return every stage by name with its templates filled in, as DVC sees them."""
    from dvc.repo import Repo

    with Repo(ROOT) as repo:
        return {stage.addressing: stage for stage in repo.index.stages}


@pytest.fixture(scope="module")
def stages():
    return _stages()


@pytest.fixture
def small(tmp_path):
    """A tree with the real notebooks and modules, to change."""
    for name in ("lib", "notebooks"):
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    return tmp_path


def test_dvc_yaml_is_in_step_with_the_notebooks():
    text = (ROOT / "dvc.yaml").read_text("utf-8")
    assert render(text) == text, "run `python -m lib.run.pipeline`"


def test_every_parameter_that_a_stage_passes_exists_and_all_of_its_paths_are_named(stages):
    for name, stage in stages.items():
        found = re.match(r"python -m lib.run (\S+) (\S+)", stage.cmd)
        if found is None:
            assert stage.cmd == "python -m lib.report", name
            continue
        notebook, executed = found.groups()
        given = dict(re.findall(r"-p (\S+) (\S+)", stage.cmd))
        assert set(given) <= set(read_parameters(ROOT / notebook)), name
        outs = {out.def_path for out in stage.outs}
        deps = {dep.def_path for dep in stage.deps}
        assert notebook in deps
        assert executed in outs
        for parameter in ("results", "prepared"):
            if parameter in given:
                assert given[parameter] in deps, name


def test_every_path_exists_or_is_produced(stages):
    outs = {out.def_path for stage in stages.values() for out in stage.outs}
    for name, stage in stages.items():
        for dep in stage.deps:
            path = dep.def_path
            produced = any(out == path or out.startswith(f"{path}/") for out in outs)
            assert produced or (ROOT / path).exists(), f"{name} needs {path}, which nothing makes"
            if not produced and path.startswith("data/"):
                assert path.startswith(("data/published", "data/reference")), f"{name}: {path}"


def test_every_notebook_is_a_stage_and_every_stage_says_what_it_does(stages):
    run = {name for stage in stages.values() for name in re.findall(r"notebooks/\S+", stage.cmd)}
    # The benchmarks are none: times never repeat.
    expected = {f"notebooks/{path.name}" for path in NOTEBOOKS.glob("[!8]*.ipynb")}
    assert run == expected
    assert all(stage.desc for stage in stages.values())


def test_outputs_are_cached_so_that_a_reverted_parameter_costs_nothing(stages):
    assert all(out.use_cache for stage in stages.values() for out in stage.outs)


@pytest.mark.parametrize("profile", PROFILES)
def test_only_the_section_of_the_chosen_profile_counts(stages, profile):
    chosen = _load((ROOT / "params.yaml").read_text("utf-8"))["profile"]
    sections = {"prepare": {"data"}, "train": {"data", "study"}}
    for name, expected in sections.items():
        keys = {key for dep in stages[name].params for key in getattr(dep, "params", [])}
        mine = {key.split(".")[2] for key in keys if key.startswith(f"profiles.{profile}.")}
        assert mine == (expected if profile == chosen else set()), (name, keys)


def test_no_stage_depends_on_where_jobs_run(stages):
    keys = {key for stage in stages.values() for dep in stage.params for key in dep.params}
    assert any(key.endswith(".study") for key in keys)
    assert not any(key.endswith(".jobs") for key in keys)


def test_a_plot_does_not_train_again_and_a_cell_does(stages):
    deps = {name: {dep.def_path for dep in stage.deps} for name, stage in stages.items()}
    assert {
        "lib/cells",
        "lib/kernels",
        "lib/experiments/factorial/training.py",
        "lib/probes/adjoint.py",
    } <= deps["train"]
    assert (
        not {
            "lib/plotting",
            "lib/plotting/__init__.py",
            "lib/results/artefacts.py",
            "lib/run/notebook.py",
        }
        & deps["train"]
    )
    for name, files in deps.items():
        assert "lib" not in files, f"{name} depends on the whole of lib"
        assert "lib/__init__.py" not in files


def test_a_new_analysis_is_one_new_file(small):
    text = (ROOT / "dvc.yaml").read_text("utf-8")
    source = NOTEBOOKS / "22_numerical_errors.ipynb"
    shutil.copy(source, small / "notebooks" / "29_anew.ipynb")
    content = _load(render(text, small))["stages"]
    later = [name for name in content if "29_anew" < name < "8"]
    assert list(content).index("29_anew") == list(content).index("coverage") - 1 - len(later)
    assert "data/tables/${key}/29_anew" in content["29_anew"]["do"]["outs"]
    # And one that is gone takes its stage and its outputs along.
    old = small / "data" / "tables" / "rebuilt" / "29_anew"
    kept = old.with_name("22_numerical_errors")
    for folder in (old, kept):
        folder.mkdir(parents=True)
    (small / "notebooks" / "29_anew.ipynb").unlink()
    again = render(render(text, small), small)
    assert "29_anew" not in _load(again)["stages"]
    # What a run in flight is writing is no leftover.
    flying = small / "data" / "executed" / "rebuilt" / ".22_numerical_errors.partial.ipynb"
    flying.parent.mkdir(parents=True)
    flying.touch()
    assert [path.as_posix() for path in prune(small)] == ["data/tables/rebuilt/29_anew"]
    assert kept.exists()
    assert flying.exists()


def test_refreshing_alone_removes_nothing(monkeypatch):
    def fail():
        pytest.fail("outputs are removed only with --prune")

    monkeypatch.setattr(pipeline, "prune", fail)
    monkeypatch.setattr(pipeline, "render", lambda text: text)
    assert pipeline.main([]) == 0
    monkeypatch.setattr(pipeline, "prune", list)
    assert pipeline.main(["--prune"]) == 0


def test_stored_results_are_analysed_as_soon_as_there_are_some(small):
    text = (ROOT / "dvc.yaml").read_text("utf-8")
    notebook = small / "notebooks" / "22_numerical_errors.ipynb"
    assert list(result_sets(notebook, small)) == ["rebuilt"]
    without = _load(render(text, small))["stages"]
    assert list(without["22_numerical_errors"]["foreach"]) == ["rebuilt"]
    assert not any("reference" in dep for dep in without["report"]["deps"])
    (small / "data/reference/real").mkdir(parents=True)
    (small / "data/reference/real/factorial.nc").touch()
    with_reference = _load(render(text, small))["stages"]
    assert list(with_reference["22_numerical_errors"]["foreach"]) == ["rebuilt", "reference"]
    assert {"data/reference", "data/tables/reference"} <= set(with_reference["report"]["deps"])
    assert "data/figures/reference" in with_reference["coverage"]["deps"]
    # A notebook that reads no results has nothing to show twice.
    assert "foreach" not in with_reference["21_parameter_counts"]


def _notebook(path, **parameters):
    lines = "\n".join(f"{name} = {value!r}  # what it is" for name, value in parameters.items())
    cells = [
        nbformat.v4.new_markdown_cell("# Why?", id="title"),
        nbformat.v4.new_code_cell(lines, id="parameters", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("from lib.paths import ROOT", id="imports"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


def test_a_new_experiment_is_one_new_notebook(small, monkeypatch):
    folder = small / "notebooks"
    for path in folder.glob("1[1-9]*.ipynb"):
        path.unlink()
    where = {"out": "data/results/gaps.nc", "prepared": "data/prepared", "cache": "data/cache"}
    _notebook(folder / "19_train_gaps.ipynb", profile="smoke", **where)
    _notebook(folder / "18_simulate_factorial.ipynb", out="x.nc")
    _notebook(folder / "49_gaps.ipynb", results="data/reference/real/gaps.nc", out="data")
    _notebook(folder / "39_recovery.ipynb", results="data/results/simulated/factorial.nc", out="d")
    fields = {**stages_module.Profile.model_fields, "gaps": None}
    monkeypatch.setattr(stages_module.Profile, "model_fields", fields, raising=False)
    found = _load(render((ROOT / "dvc.yaml").read_text("utf-8"), small))["stages"]
    gaps = found["19_train_gaps"]
    assert gaps["outs"] == ["data/executed/19_train_gaps.ipynb", "data/results/gaps.nc"]
    assert gaps["params"] == ["profile", "profiles.${profile}.data", "profiles.${profile}.gaps"]
    assert "data/prepared" in gaps["deps"]
    assert "-p cache" not in gaps["cmd"], "shards are no business of the pipeline"
    assert found["49_gaps"]["foreach"] == {"rebuilt": "data/results/gaps.nc"}
    # What is simulated feeds the statistics of the same dataset, and those that read nothing else.
    simulated = "data/results/simulated/factorial.nc"
    assert found["18_simulate_factorial"]["outs"][1] == simulated
    assert found["39_recovery"]["foreach"] == {"simulated": simulated}
    assert "simulated" not in found["22_numerical_errors"]["foreach"]
    assert {"data/tables/simulated", "data/figures/simulated"} <= set(found["coverage"]["deps"])
    assert "data/executed/19_train_gaps.ipynb" in found["report"]["deps"]


def test_an_experiment_without_a_name_is_refused():
    with pytest.raises(NotebookError, match=r"19_train.ipynb: expected a name such as 12_train"):
        written(NOTEBOOKS / "19_train.ipynb")


def test_a_misspelled_parameter_is_told_before_anything_runs(monkeypatch, capsys, tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text((ROOT / "params.yaml").read_text("utf-8").replace("replicates:", "replicate:"))
    monkeypatch.setattr(pipeline, "load_params", lambda: load_params(path))
    assert pipeline.main([]) == 2
    told = capsys.readouterr().err
    assert "unknown parameter profiles.smoke.study.replicate; remove it or correct" in told


def test_what_is_written_by_hand_is_left_alone(small):
    text = (
        (ROOT / "dvc.yaml").read_text("utf-8").replace("  train:\n", "  train:\n    frozen: true\n")
    )
    assert render(text, small).splitlines()[:5] == text.splitlines()[:5]
    assert _load(render(text, small))["stages"]["train"]["frozen"] is True


def test_modules_are_followed_through_imports(tmp_path):
    files = {
        "lib/__init__.py": "",
        "lib/a.py": "from lib.b import thing",
        "lib/b.py": "def thing():\n    from lib import c",
        "lib/c.py": "import numpy",
        "lib/unused.py": "",
        "lib/reg/__init__.py": "fill(__name__, __path__)",
        "lib/reg/one.py": "import lib.d",
        "lib/d.py": "",
        "lib/part/__init__.py": "",
        "lib/part/used.py": "",
        "lib/part/idle.py": "",
        "lib/outer/__init__.py": "",
        "lib/outer/inner/__init__.py": "fill(__name__, __path__)",
        "lib/outer/inner/one.py": "",
    }
    for name, source in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(source)
    assert modules(["from lib.a import thing"], tmp_path) == ["lib/a.py", "lib/b.py", "lib/c.py"]
    assert modules(["import lib.outer.inner"], tmp_path) == ["lib/outer"]
    assert modules(["import lib.reg"], tmp_path) == ["lib/d.py", "lib/reg"]
    assert modules(["from lib.part.used import x"], tmp_path) == [
        "lib/part/__init__.py",
        "lib/part/used.py",
    ]


# ---- a small repository of its own ------------------------------------------------------------------------------

_PARAMS = "profile: quick\nprofiles:\n  quick: {data: {n: 3}, study: {m: 1}}\n  real: {data: {n: 5}, study: {m: 2}}\n"
_DVC = f"""
stages:
  double:
    cmd: {sys.executable} -m lib.run HERE/double.ipynb HERE/executed.ipynb -p n 3 -p out HERE/out.csv
    deps:
      - double.ipynb
    params:
      - profile
      - profiles.${{profile}}.data
    outs:
      - executed.ipynb
      - out.csv
"""


@pytest.fixture
def repository(tmp_path):
    """A DVC repository with one stage that runs a notebook through the real `lib.run`."""
    parameters = "n = 1  # how many\nout = 'out.csv'  # table"
    code = (
        "import numpy as np, pandas as pd, xarray as xr\n"
        "pd.DataFrame({'a': 2 * np.arange(n)}).to_csv(out)",
        "xr.Dataset({'a': ('x', np.arange(n))})",
    )
    cells = [
        nbformat.v4.new_markdown_cell("# Twice?", id="title"),
        nbformat.v4.new_code_cell(parameters, id="parameters", metadata={"tags": ["parameters"]}),
        *(nbformat.v4.new_code_cell(source, id=f"c{i}") for i, source in enumerate(code)),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "double.ipynb")
    (tmp_path / "params.yaml").write_text(_PARAMS)
    (tmp_path / "dvc.yaml").write_text(_DVC.replace("HERE", str(tmp_path)))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    _dvc(tmp_path, "init", "-q")
    return tmp_path


def _dvc(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.notebook
def test_a_second_run_gives_the_same_hashes_and_other_profiles_do_not_matter(repository):
    _dvc(repository, "repro")
    lock = (repository / "dvc.lock").read_bytes()
    assert b"profiles.quick.data" in lock
    _dvc(repository, "repro", "--force")
    assert (repository / "dvc.lock").read_bytes() == lock
    # Another profile's settings, and another section of this one, leave the stage fresh.
    for before, after in (("n: 5", "n: 6"), ("m: 1", "m: 9")):
        params = (repository / "params.yaml").read_text()
        (repository / "params.yaml").write_text(params.replace(before, after))
        assert "up to date" in _dvc(repository, "repro")
    # Its own section makes it stale.
    params = (repository / "params.yaml").read_text()
    (repository / "params.yaml").write_text(params.replace("n: 3", "n: 4"))
    assert "Running stage" in _dvc(repository, "repro")
    # A parameter that is set back is answered from the run cache.
    (repository / "params.yaml").write_text(params)
    assert "is cached" in _dvc(repository, "repro")
    assert (repository / "dvc.lock").read_bytes() == lock
