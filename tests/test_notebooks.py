"""Every notebook runs with smoke parameters through `python -m lib.run`, in the order of the pipeline."""

import re

import nbformat
import pandas as pd
import pytest
import xarray as xr
from designs import loaded
from house import ALL

from lib.paths import NOTEBOOKS, ROOT
from lib.report.coverage import COLUMNS
from lib.report.inputs import SUFFIXES, load_artefacts
from lib.results import schema
from lib.results.published import artefacts
from lib.tasks import load_prepared


@pytest.mark.parametrize("name", ALL)
def test_it_is_stripped_and_built_as_the_others_are(name):
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
@pytest.mark.parametrize("name", ALL)
def test_it_runs_and_its_outputs_validate(house, name):
    executed = nbformat.read(house.run(name), as_version=4)
    nbformat.validate(executed)
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code if cell.source.strip())
    kind = "1" if house.written(name) else name[0]
    _VALIDATE.get(kind, _validate_artefacts)(house, name)


def _validate_prepared(house, name):
    expected = set(loaded("smoke").datasets)
    assert {path.stem for path in house.prepared.glob("*.nc")} == expected
    for dataset in expected:
        assert load_prepared(house.prepared / f"{dataset}.nc").name == dataset


def _validate_results(house, name):
    # Its own schema was checked when it was written; here, that nothing of the design is missing.
    written = house.written(name)
    paths = sorted(written.glob("*.nc")) if written.is_dir() else [written]
    assert written.suffix or {path.stem for path in paths} == set(loaded("smoke").designs)
    for path in paths:
        with xr.open_dataset(path) as ds:
            assert ds.attrs["profile"] in ("smoke", "simulated")
            # The simulated design keeps the attempts that the published tables say never ran.
            missing = bool((ds["status"] == schema.MISSING).any())
            assert missing == (ds.attrs["profile"] == "simulated")


def _validate_artefacts(house, name):
    made = [item for item in load_artefacts(house.data) if item.notebook == name]
    assert made, f"{name} made neither a figure nor a table"
    for item in made:
        assert item.caption and (ROOT / item.file).exists()
        assert all(item.path(suffix).stat().st_size for suffix in SUFFIXES[item.kind])


def _validate_bench(house, name):
    table = pd.read_csv(house.data / "tables" / f"{name}.csv")
    assert {"what", "size", "baseline", "ratio", "machine"} <= set(table)
    assert len(table)


def _validate_coverage(house, name):
    table = pd.read_csv(house.data / "coverage.csv")
    assert tuple(table) == COLUMNS
    assert set(table["id"]) == set(artefacts()["id"])


_VALIDATE = {"0": _validate_prepared, "1": _validate_results}
_VALIDATE |= {"8": _validate_bench, "9": _validate_coverage}
