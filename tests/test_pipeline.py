"""What stages depend on: the paths in `dvc.yaml`, and the fingerprint of the code.

In a fingerprint prose costs nothing, a changed formula costs what uses it, and code that cannot be
followed is refused.
"""

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from designs import copy_to_edit, edit, sections
from study.paths import ROOT
from study.pipeline import modules, versions
from study.pipeline.code import notebooks, prune, write_code
from study.pipeline.fingerprint import fingerprint, notebook_code, reached
from study.pipeline.notebooks import read_parameters
from study.pipeline.refusals import FingerprintError
from study.report import look
from study.results.reference import RESULTS
from study.training.plans import DESIGNS


@pytest.fixture
def tree(tmp_path):
    """Return a function that writes files of a small `lib/` and returns its root."""

    def write(**sources):
        for name, source in {"lib/study/__init__": "", **sources}.items():
            if "." not in name:
                name += ".py"
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, "utf-8")
        for cached in (modules.read_module, modules.resolve):
            cached.cache_clear()
        return tmp_path

    return write


def _one(tree, source):
    return fingerprint(["study.a"], root=tree(**{"lib/study/a": source}))


def test_prose_and_layout_do_not_change_fingerprints(tree):
    before = '"""Old."""\nrate = 1\n"""What it is."""\n\ndef f(x):\n    return (x, 1)'
    after = (
        '# New\n"""New."""\nrate = 1\n"""Other words."""\n\n\ndef f(\n    x,\n):\n    """Both."""\n'
    )
    assert _one(tree, before) == _one(tree, f"{after}    return x, 1  # both\n")


@pytest.mark.parametrize(
    "source",
    ["x = 1.0", "x = 2", "y = 1", "x = -1", "x = '1'", "x = 1\nx = 1", "x += 1", "f'{x:.1f}'"],
)
def test_changed_code_changes_the_fingerprint(tree, source):
    assert _one(tree, "x = 1") != _one(tree, source)
    assert _one(tree, "f'{x:.2f}'") != _one(tree, source)


def test_package_members_count_if_something_names_them(tree):
    sources = {
        "lib/study/a": "import longrnn.cells.gru",
        "lib/longrnn/cells/__init__": (
            "from longrnn.registry import import_files\nimport_files(__path__)"
        ),
        "lib/longrnn/cells/gru": "rate = 1",
        "lib/longrnn/cells/_private": "rate = 1",
        "lib/longrnn/registry": "",
    }

    def names(**changed):
        root = tree(**{**sources, **changed})
        each = [fingerprint([name], root=root) for name in ("study.a", "longrnn.cells")]
        return each, fingerprint(["longrnn.cells"], whole=True, root=root)

    (a, cells), whole = names()
    assert names(**{"lib/longrnn/cells/gru": '"""Prose."""\nrate = 1'}) == ([a, cells], whole)
    assert names(**{"lib/longrnn/cells/_private": "rate = 2"}) == ([a, cells], whole)
    (changed, same), more = names(**{"lib/longrnn/cells/gru": "rate = 2"})
    assert same == cells and changed != a and more != whole


def test_imports_inside_functions_are_followed(tree):
    sources = {
        "lib/study/a": "import numpy\nfrom study.pack import thing",
        "lib/study/pack/__init__": "def thing():\n    import study.late\n    from . import near",
        "lib/study/pack/near": "from study.pack.deep.below import x as y",
        "lib/study/pack/deep/__init__": "",
        "lib/study/pack/deep/below": "command = ['-m', 'study.named', 'study.nowhere']",
        **dict.fromkeys(["lib/study/late", "lib/study/named"], ""),
    }
    actual = reached(["study.a"], root=tree(**sources, **{"lib/study/idle": ""}))
    assert set(actual) == {f"{name}.py" for name in [*sources, "lib/study/__init__"]}


def test_files_with_computed_names_must_be_declared(tree):
    source = "from pathlib import Path\nx = Path(__file__).parent / f'{name}.csv'\nDEPENDS = {}"
    declared = source.format(["tables"], name="{name}")
    files = {"lib/study/a": declared, "lib/study/tables/one.csv": "1"}

    def fingerprint_with(**changed):
        return fingerprint(["study.a"], root=tree(**files | changed))

    assert fingerprint_with() != fingerprint_with(**{"lib/study/tables/one.csv": "2"})
    assert fingerprint_with(**{"lib/study/a": source.format([], name="{name}")})


def test_data_files_named_in_a_module_count(tree):
    source = "from pathlib import Path\nHERE = Path(__file__).parent\nPAGE = HERE / 'pages/a.html'"
    files = {"lib/study/a": source, "lib/study/pages/a.html": "one", "lib/study/b.txt": "one"}

    def fingerprint_with(**changed):
        return fingerprint(["study.a"], root=tree(**files | changed))

    assert fingerprint_with() == fingerprint_with(**{"lib/study/b.txt": "two"})
    assert fingerprint_with() != fingerprint_with(**{"lib/study/pages/a.html": "two"})


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import importlib\nimportlib.import_module(name)", r"a\.py, line 2, imports by a comp"),
        ("from importlib import import_module as load", r"a\.py, line 1, imports by a computed"),
        ("x = __import__", "name the module in an import statement"),
        ("import study.gone", r"a\.py imports study\.gone, which is not in lib/"),
        ("from study.gone import x", r"which is not in lib/; correct the name"),
        ("from importlib.util import spec_from_file_location", "imports by a computed path"),
        ("import importlib.util as u\nu.spec_from_file_location('x', p)", "by a computed path"),
        ("import runpy\nrunpy.run_path(p)", r"line 1, runs code by a computed name \(runpy\)"),
        ("exec(text)", r"executes text \(exec\), so the code it uses cannot be determined"),
        ("from pathlib import Path\nx = Path(__file__).parent / name", r"list .* in DEPENDS"),
        ("DEPENDS = ['gone.csv']", r"declares 'gone\.csv' in DEPENDS; expected the name of a file"),
        ("def", r"a\.py is not valid Python \(line 1"),
    ],
)
def test_dynamic_code_has_no_fingerprint(tree, source, complaint):
    with pytest.raises(FingerprintError, match=complaint) as caught:
        _one(tree, source)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["longrnn.cells.lstn", "numpy", ""])
def test_only_modules_of_lib_have_a_fingerprint(name):
    with pytest.raises(FingerprintError, match=f"no module '{name}' in .*; expected a dotted name"):
        fingerprint([name])


def test_a_notebook_depends_on_what_its_cells_reach(tree, tmp_path):
    path = tree(**{"lib/study/a": "x = 1", "lib/study/b": ""}) / "20_why.ipynb"

    def of(*sources):
        made = [nbformat.v4.new_code_cell(source) for source in sources]
        nbformat.write(nbformat.v4.new_notebook(cells=made), path)
        return notebook_code(path, root=tmp_path).digests

    cells = "%matplotlib inline\nfrom study.a import x", "x + 1"
    assert of(*cells) == of(*cells, "print(x)") != of(*cells, "import study.b")
    with pytest.raises(
        FingerprintError, match=r"20_why.ipynb imports study\.c, which is not in lib/"
    ):
        of("from study.c import d")


REFERENCE = "data/reference/real"
_READ_BY = {"lib/study/results/published.py": "data/published"}
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
    actual = {
        name: re.search(r"study.pipeline (notebooks/\S+)", one.cmd) for name, one in stages.items()
    }
    return {name: (match[1], stages[name]) for name, match in actual.items() if match}


def _given(stage):
    """Return the parameters that a stage passes, and the results of each set."""
    return tuple(dict(re.findall(rf"-{flag} (\S+) (\S+)", stage.cmd)) for flag in "ps")


def _deps(stage):
    return {dep.def_path for dep in stage.deps}


def _outs(stage):
    return {out.def_path for out in stage.outs}


def test_every_notebook_is_a_stage_with_a_description(stages, runs):
    run = {notebook for notebook, _ in runs.values()}
    known = {f"notebooks/{path.name}" for path in notebooks()}
    assert not known - run, "add a line for it to the list of its kind in dvc.yaml"
    assert not run - known, "there is no such notebook"
    assert all(stage.desc for stage in stages.values())
    rest = {stages[name].cmd.removeprefix("python -m study.") for name in set(stages) - set(runs)}
    assert rest == {"pipeline code", "report", "training"}
    for name, stage in stages.items():
        assert all(out.use_cache for out in stage.outs) == (name != "code"), "what is set back"


def test_stages_pass_known_parameters_and_list_paths(runs):
    for name, (notebook, stage) in runs.items():
        given, sets = _given(stage)
        given |= {"results": "", "result_set": ""} if sets else {}
        assert set(given) <= set(read_parameters(ROOT / notebook)), name
        read = {given.get("prepared"), *sets.values()} - {None}
        assert {notebook, f"data/code/{notebook[10:-6]}", *read} <= _deps(stage), name
        executed = re.match(r"python -m study.pipeline \S+ (\S+)", stage.cmd)[1]
        if str(given["out"]) != "data":
            assert {given["out"], executed} <= _outs(stage), name
        else:
            made = f"data/made/{Path(executed).stem}"
            assert made in _outs(stage), name
            assert executed.startswith(f"{made}/{'{set}' if sets else given['result_set']}/"), name
        for read_file in notebook_code(ROOT / notebook).digests:
            folder = _READ_BY.get(read_file)
            assert folder is None or folder in _deps(stage), f"{name} reads {folder}"
        if "profile" in read_parameters(ROOT / notebook):
            assert any(path.startswith("data/code/settings") for path in _deps(stage)), name


def test_every_path_exists_or_is_produced(stages, tmp_path):
    written = {f"data/code/{name}" for name in write_code(tmp_path / "code")}
    groups = [set(sections(name)["groups"]) for name in ("smoke", "quick", "real", "paper")]
    results = {f"data/results/{group}.nc" for group in {*DESIGNS, *set.intersection(*groups)}}
    outs = {out for stage in stages.values() for out in _outs(stage)}
    made = outs - {"data/results", "data/code"} | results | written | {"data/code/settings"}
    for name, stage in stages.items():
        for path in _deps(stage):
            if path not in made and not any(out.startswith(f"{path}/") for out in made):
                assert (ROOT / path).exists(), f"{name} needs {path}, which nothing makes"
                stored = path.startswith(("data/published", "data/reference"))
                assert stored or not path.startswith("data/"), f"{name}: {path}"


def test_every_stored_reference_is_analyzed(runs):
    """A dataset that is kept for the first time needs its line among those with a reference."""
    stored = {path.relative_to(ROOT).as_posix() for path in (ROOT / REFERENCE).glob("*.nc")}
    for name, (_, stage) in runs.items():
        sets = _given(stage)[1]
        if "rebuilt" in sets:
            reference = sets["rebuilt"].replace(RESULTS, REFERENCE)
            assert (reference in stored) == ("reference" in sets), f"{name} and {reference}"
    elsewhere = {f"{REFERENCE}/short_factorial.nc"}  # a second run of one experiment, not looked at
    looked_at = look.stored(look.read_commands())
    assert {run.parameters["results"] for run in looked_at} == stored - elsewhere


def test_a_look_shows_all_notebooks_that_need_no_training(runs):
    shown = {run.notebook.as_posix() for run in look.without_results(look.read_commands())}
    without_sets = {path for path, stage in runs.values() if not _given(stage)[1]}
    other = ("00_prepare_data", "10_train", "15_simulate_factorial", "90_coverage")
    assert shown == without_sets - {f"notebooks/{name}.ipynb" for name in other}


FEW_NOTEBOOKS = ("00_prepare_data", "10_train", "22_numerical_errors", "30_tenet")


def test_code_files_change_only_with_their_content(stages, tmp_path, monkeypatch):
    copy_to_edit(tmp_path, monkeypatch, "lib")
    (tmp_path / "notebooks").mkdir()
    few = [f"notebooks/{name}.ipynb" for name in FEW_NOTEBOOKS]
    for name in ("params.yaml", "dvc.yaml", *few):
        shutil.copy(ROOT / name, tmp_path / name)
    small = tmp_path
    code = tmp_path / "data" / "code"
    assert set(write_code(code, small)) >= {"10_train", "report", "settings/data"}
    assert write_code(code, small) == []
    assert not (code / "settings" / "jobs").exists(), "where jobs run changes no result"
    monkeypatch.setattr(versions, "_version", lambda name: "0" if name == "statsmodels" else "1")
    write_code(code, small)
    monkeypatch.setattr(versions, "_version", lambda name: "2" if name == "statsmodels" else "1")
    changed = set(write_code(code, small))
    assert "30_tenet" in changed, "another statsmodels may give other numbers"
    assert not {"10_train", "00_prepare_data"} & changed, "training does not use statsmodels"
    gru = small / "lib" / "longrnn" / "cells" / "gru.py"
    edit(gru, '"""', '"""Another wording. ')
    assert write_code(code, small) == []
    edit(gru, "return ", "return 0.999 * ")
    changed = write_code(code, small)
    assert "10_train" in changed and "22_numerical_errors" not in changed
    edit(small / "lib" / "study" / "report" / "templates" / "index.md.jinja", "#", "# ")
    assert write_code(code, small) == ["report"]
    assert {"lib/study/report/conf.py", "lib/study/report/static"} <= _deps(stages["report"])
    edit(small / "params.yaml", "profile: quick", "profile: smoke")
    changed = write_code(code, small)
    assert "settings/factorial" in changed and "10_train" not in changed, "only the chosen profile"
    edit(small / "params.yaml", "tasks: [digit rows]", "tasks: [digit rows, HAR-2]")
    assert "settings/data" in write_code(code, small), "another data set is read"
    (small / "notebooks" / "22_numerical_errors.ipynb").unlink()
    write_code(code, small)
    assert not (code / "22_numerical_errors").exists()


def test_training_depends_on_cells_and_not_plots():
    read = {path.stem: set(notebook_code(path).digests) for path in notebooks()}
    assert {"lib/longrnn/cells/gru.py", "lib/longrnn/probes/adjoint.py"} <= read["10_train"]
    assert "lib/study/figures/__init__.py" not in read["10_train"]
    assert "lib/study/figures/__init__.py" in read["22_numerical_errors"]


def test_settings_are_checked_before_training(stages):
    names = list(stages)
    assert names.index("check") < names.index("train")
    assert _deps(stages["check"]) == {"data/code/training", "data/code/settings"}


def test_only_outputs_of_removed_notebooks_are_removed(tmp_path):
    gone = {"data/made/29_gone/rebuilt/a.csv", "data/executed/29_gone.failed.ipynb"}
    kept = {"notebooks/22_errors.ipynb", "data/made/22_errors/rebuilt/a.csv"}
    kept |= {"notebooks/30_tenet.ipynb", "data/executed/30_tenet.ipynb", "data/made/.gitignore"}
    for path in map(tmp_path.joinpath, gone | kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert {path.name for path in prune(tmp_path)} == {"29_gone", "29_gone.failed.ipynb"}
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")} == kept
