"""Every notebook runs with smoke parameters through `python -m lib.run`, in the order of the pipeline."""

import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import xarray as xr

from lib.experiments import load_profile
from lib.paths import NOTEBOOKS, ROOT
from lib.results import schema
from lib.run.notebooks import check_notebook, is_stripped, read_parameters
from lib.tasks import load_prepared

ALL = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("name", ALL)
def test_it_is_stripped_and_built_as_the_others_are(name):
    path = NOTEBOOKS / f"{name}.ipynb"
    assert is_stripped(path), f"run `nbstripout --keep-id {path}`"
    assert check_notebook(path) == []


@pytest.mark.parametrize("name", ALL)
def test_each_parameter_has_a_comment(name):
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    cell = next(cell for cell in cells if "parameters" in cell.metadata.get("tags", []))
    for line in cell.source.splitlines():
        assert "#" in line, f"{name}: what is {line!r}?"


class House:
    """A folder laid out as `data/`, in which notebooks run in the order of the pipeline, each once."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.prepared = data / "prepared"
        self._done: dict[str, Path] = {}

    def run(self, name: str) -> Path:
        """Run the notebook `name` after those that it needs; return its executed copy."""
        if name not in self._done:
            for earlier in self._needs(name):
                self.run(earlier)
            self._done[name] = self._execute(name)
        return self._done[name]

    def _needs(self, name: str) -> list[str]:
        parameters = read_parameters(NOTEBOOKS / f"{name}.ipynb")
        needed = []
        if "prepared" in parameters:
            needed.append(ALL[0])
        if "results" in parameters:
            needed += [other for other in ALL if self.written(other) == self._results(name)]
        if "data_dir" in parameters:
            needed += [other for other in ALL if "2" <= other < "8"]
        return needed

    def written(self, name: str) -> Path | None:
        """Return the dataset that an experiment's notebook writes, None for other notebooks."""
        if not re.match(r"0[1-9]|1", name):
            return None
        # By hand they write where the pipeline does, below data/interactive.
        out = str(read_parameters(NOTEBOOKS / f"{name}.ipynb")["out"]).replace("interactive/", "")
        return self.data.parent / out

    def _results(self, name: str) -> Path:
        """Return the dataset that an analysis is run for here: where it may be a stored one, this run's."""
        default = read_parameters(NOTEBOOKS / f"{name}.ipynb").get("results", "")
        return self.data.parent / str(default).replace("reference/real", "results")

    def _values(self, name: str) -> dict[str, str]:
        """Return a value for every parameter that says where something lies."""
        outs = {
            "0": self.written(name) or self.prepared,
            "1": self.written(name),
            "8": self.data / "tables" / f"{name}.csv",
            "9": self.data / "tables" / "coverage.csv",
        }
        values = {
            "profile": "smoke",
            "prepared": self.prepared,
            "results": self._results(name),
            "cache": self.data / "cache",
            "data_dir": self.data,
            "result_set": "rebuilt",
            "out": outs.get(name[0], self.data),
        }
        known = read_parameters(NOTEBOOKS / f"{name}.ipynb")
        return {key: str(value) for key, value in values.items() if key in known}

    def _execute(self, name: str) -> Path:
        folder = self.data / "executed"
        executed = folder / ("rebuilt" if "2" <= name < "8" else "") / f"{name}.ipynb"
        given = [text for pair in self._values(name).items() for text in ("-p", *pair)]
        command = [
            sys.executable,
            "-m",
            "lib.run",
            f"notebooks/{name}.ipynb",
            str(executed),
            *given,
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return executed


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    return House(tmp_path_factory.mktemp("house") / "data")


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
    with xr.open_dataset(house.written(name)) as ds:
        assert ds.attrs["profile"] in ("smoke", "simulated")
        # The simulated design keeps the attempts that the published tables say never ran.
        missing = bool((ds["status"] == schema.MISSING).any())
        assert missing == (ds.attrs["profile"] == "simulated")


def _validate_artefacts(house, name):
    manifests = [
        path
        for kind in ("tables", "figures")
        for path in (house.data / kind / "rebuilt").glob(f"{name}*/*.json")
    ]
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
    lines = (house.data / "tables" / "coverage.csv").read_text("utf-8").splitlines()
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
