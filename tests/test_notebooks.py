"""Every notebook runs with smoke parameters through `python -m lib.run`, in the order of the pipeline."""

import json
from pathlib import Path

import nbformat
import pytest
import xarray as xr
from house import ALL

from lib.paths import NOTEBOOKS, ROOT
from lib.results import schema
from lib.run.notebooks import check_notebook
from lib.tasks import load_prepared
from lib.training.profile import load_profile


@pytest.mark.parametrize("name", ALL)
def test_it_is_stripped_and_built_as_the_others_are(name):
    path = NOTEBOOKS / f"{name}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    ran = [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
    assert not ran, f"run `nbstripout --keep-id {path}`"
    assert check_notebook(path) == []


@pytest.mark.parametrize("name", ALL)
def test_each_parameter_has_a_comment(name):
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    cell = next(cell for cell in cells if "parameters" in cell.metadata.get("tags", []))
    for line in cell.source.splitlines():
        assert "#" in line, f"{name}: what is {line!r}?"


@pytest.mark.notebook
@pytest.mark.parametrize("name", ALL)
def test_it_runs_and_its_outputs_validate(house, name):
    executed = nbformat.read(house.run(name), as_version=4)
    nbformat.validate(executed)
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code if cell.source.strip())
    kind = "1" if house.written(name) else name[0]
    _VALIDATE.get(kind, _validate_artefacts)(house, name)


def _validate_prepared(house, name):
    expected = set(load_profile("smoke").datasets)
    assert {path.stem for path in house.prepared.glob("*.nc")} == expected
    for dataset in expected:
        assert load_prepared(house.prepared / f"{dataset}.nc").name == dataset


def _validate_results(house, name):
    # Its own schema was checked when it was written; here, that nothing of the design is missing.
    written = house.written(name)
    paths = sorted(written.glob("*.nc")) if written.is_dir() else [written]
    assert written.suffix or {path.stem for path in paths} == set(load_profile("smoke").designs)
    for path in paths:
        with xr.open_dataset(path) as ds:
            assert ds.attrs["profile"] in ("smoke", "simulated")
            # The simulated design keeps the attempts that the published tables say never ran.
            missing = bool((ds["status"] == schema.MISSING).any())
            assert missing == (ds.attrs["profile"] == "simulated")


def _validate_artefacts(house, name):
    manifests = list((house.data / "made").glob(f"{name}*/rebuilt/*/*.json"))
    assert manifests, f"{name} made neither a figure nor a table"
    for path in manifests:
        content = json.loads(path.read_text("utf-8"))
        suffixes = [".csv", ".png", ".svg"] if content["kind"] == "figure" else [".csv"]
        for suffix in suffixes:
            assert (path.parent / f"{path.stem}{suffix}").stat().st_size > 0
        assert Path(ROOT / content["file"]).exists()
        assert content["caption"]


def _validate_bench(house, name):
    lines = (house.data / "tables" / f"{name}.csv").read_text("utf-8").splitlines()
    assert {"what", "size", "baseline", "ratio", "machine"} <= set(lines[0].split(","))
    assert len(lines) > 1


def _validate_coverage(house, name):
    lines = (house.data / "coverage.csv").read_text("utf-8").splitlines()
    assert lines[0].split(",")[:4] == ["id", "profile", "file", "runs"]
    published = (ROOT / "data" / "published" / "artefacts.csv").read_text("utf-8").splitlines()
    listed = {line.split(",")[0] for line in published[1:]}
    assert {line.split(",")[0] for line in lines[1:]} == listed


_VALIDATE = {
    "0": _validate_prepared,
    "1": _validate_results,
    "8": _validate_bench,
    "9": _validate_coverage,
}
