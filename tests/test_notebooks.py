"""Every notebook but the benchmarks runs with smoke parameters, in the order of the pipeline."""

import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest
import xarray as xr
from designs import loaded
from notebook_runner import ALL, BENCHMARKS, notebook_runner
from study.paths import NOTEBOOKS, ROOT
from study.report.answers import answer
from study.report.contents import SUFFIXES
from study.report.coverage import COLUMNS
from study.report.inputs import load_artifacts
from study.results import schema
from study.results.published import artifacts
from study.tasks import load_prepared


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    with notebook_runner(tmp_path_factory.mktemp("notebooks")) as opened:
        yield opened


@pytest.mark.parametrize("name", ALL)
def test_notebooks_are_stripped_and_have_one_structure(name):
    path = NOTEBOOKS / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    title, parameters, *_ = cells = notebook.cells
    ran = [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
    assert not ran, f"run `nbstripout --keep-id {path}`"
    assert re.fullmatch(r"[\w-]+", name), "a shell may read other characters"
    asks = title.cell_type == "markdown" and re.match(r"# .+\?\s*(\n|$)", title.source)
    assert asks, "the first cell is not a title that asks a question, '# ...?'"
    assert "parameters" in parameters.metadata.get("tags", []), "the second cell's tag"
    ends = [cell.id for cell in cells if cell.cell_type == "code"][-2:]
    assert ends == ["checks", "versions"], "the ids of the last two code cells"
    assert notebook.metadata.kernelspec.name == "python3"
    for line in parameters.source.splitlines():
        assert "#" in line, f"{name}: what is {line!r}?"


@pytest.mark.notebook
@pytest.mark.parametrize("name", [name for name in ALL if name not in BENCHMARKS])
def test_notebook_runs_and_its_outputs_validate(runner, name):
    runner.validate(name)
    executed = SimpleNamespace(path=runner.run(name))
    assert answer(executed), f"{name}: the lists of questions find no answer below its heading"
    if "2" <= name < "8":
        _validate_artifacts(runner, name)
    else:
        _VALIDATE[name[0]](Path(runner.values(name)["out"]))


def _validate_prepared(out):
    expected = set(loaded("smoke").datasets)
    assert {path.stem for path in out.glob("*.nc")} == expected
    for dataset in expected:
        assert load_prepared(out / f"{dataset}.nc").name == dataset


def _validate_results(out):
    # Its own schema was checked when it was written; here, that nothing of the design is missing.
    paths = [out]
    if out.is_dir():
        paths = sorted(out.glob("*.nc"))
    assert out.suffix or {path.stem for path in paths} == set(loaded("smoke").designs)
    for path in paths:
        with xr.open_dataset(path) as ds:
            assert ds.attrs["profile"] in ("smoke", "simulated")
            # The simulated design keeps the attempts that the published tables say never ran.
            missing = bool((ds["status"] == schema.MISSING).any())
            assert missing == (ds.attrs["profile"] == "simulated")


def _validate_artifacts(runner, name):
    made = [item for item in load_artifacts(runner.data) if item.notebook == name]
    assert made, f"{name} made neither a figure nor a table"
    for item in made:
        assert item.caption and (ROOT / item.file).exists()
        assert all(item.path(suffix).stat().st_size for suffix in SUFFIXES[item.kind])


def _validate_coverage(out):
    table = pd.read_csv(out)
    assert tuple(table) == COLUMNS
    assert set(table["id"]) == set(artifacts()["id"])


_VALIDATE = {"0": _validate_prepared, "1": _validate_results, "9": _validate_coverage}
