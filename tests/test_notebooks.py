"""Every notebook runs with smoke parameters, in the order of the pipeline."""

import functools
import os
import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import xarray as xr
from designs import loaded
from processes import python
from study.paths import NOTEBOOKS, ROOT
from study.pipeline import warm
from study.pipeline.notebooks import read_parameters
from study.report.contents import SUFFIXES
from study.report.coverage import COLUMNS
from study.report.inputs import load_artefacts
from study.results import schema
from study.results.published import artefacts
from study.tasks import load_prepared

ALL = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
SMALL = {
    "23_adjoint_regimes": {"kink_epochs": 2},
    "34_recovery": {"seeds": 4, "small_seeds": 1},
    "49_train_one_network": {"steps": 50},
    "51_unicornn_memory": {"seeds": 1, "points": 3},
    "54_irnn_theory": {"draws": 20},
    "80_bench_cpu": {"rounds": 1},
    "81_bench_statistics": {"rounds": 1, "models": "1"},
    "82_time_figure_1": {"rounds": 1, "lengths": "32"},
    "83_bench_coadjoint": {"rounds": 1, "lengths": "28"},
    "84_bench_adding": {"rounds": 1},
    "85_bill_of_the_factorial": {"cells": "rnn unicornn", "widths": "128"},
    "86_conformance": {"layers": "LRU"},
}
"""Parameters of notebooks that take long, with values that show as well that they run."""
IMPORTED = ("longrnn.cells", "study.training.profile", "study.claims.models", "study.stats.opened")
"""Modules of ours that the process imports from which notebooks are forked."""


class House:
    """A folder in which notebooks run in order, each once, in forks of a warm process."""

    def __init__(self, folder: Path, socket: str) -> None:
        self.data = folder / "data"
        self.run = functools.cache(self._run)
        self._environment = {**os.environ, warm.SOCKET: socket}

    def values(self, name: str) -> dict[str, str]:
        """Return the parameters of a notebook: paths below `data`, all else small."""
        known = read_parameters(NOTEBOOKS / f"{name}.ipynb")
        values = {"profile": "smoke", "result_set": "rebuilt", **SMALL.get(name, {})}
        for key, default in known.items():
            if str(default).startswith("data"):
                # Notebooks run by hand write below data/interactive; the stored results are here
                # those of this run.
                place = default.replace("/interactive", "").replace("reference/real", "results")
                values[key] = self.data.parent / place
        return {key: str(value) for key, value in values.items() if key in known}

    def _run(self, name: str) -> Path:
        """Run a notebook after those that it needs; return its executed copy."""
        needed = []
        if name < "8":
            needed = [other for other in ALL if other < min(name, "2")]
        elif name >= "9":
            needed = [other for other in ALL if other < "8"]
        for other in needed:
            self.run(other)
        folder = self.data / "executed"
        if "2" <= name < "8":
            folder = self.data / "made" / name / "rebuilt"
        given = [text for pair in self.values(name).items() for text in ("-p", *pair)]
        command = (
            "-m",
            "study.pipeline",
            f"notebooks/{name}.ipynb",
            folder / f"{name}.ipynb",
            *given,
        )
        done = python(*command, env=self._environment, timeout=None)
        assert done.returncode == 0, done.stderr
        return folder / f"{name}.ipynb"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with warm.serving(*IMPORTED):
        socket = os.environ.pop(warm.SOCKET)  # other tests start their own
        yield House(tmp_path_factory.mktemp("house"), socket)


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
@pytest.mark.parametrize("name", ALL)
def test_notebook_runs_and_its_outputs_validate(house, name):
    executed = nbformat.read(house.run(name), as_version=4)
    nbformat.validate(executed)
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code if cell.source.strip())
    if "2" <= name < "8":
        _validate_artefacts(house, name)
    else:
        _VALIDATE[name[0]](Path(house.values(name)["out"]))


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


def _validate_artefacts(house, name):
    made = [item for item in load_artefacts(house.data) if item.notebook == name]
    assert made, f"{name} made neither a figure nor a table"
    for item in made:
        assert item.caption and (ROOT / item.file).exists()
        assert all(item.path(suffix).stat().st_size for suffix in SUFFIXES[item.kind])


def _validate_bench(out):
    table = pd.read_csv(out)
    assert {"what", "size", "baseline", "ratio", "machine"} <= set(table)
    assert len(table)


def _validate_coverage(out):
    table = pd.read_csv(out)
    assert tuple(table) == COLUMNS
    assert set(table["id"]) == set(artefacts()["id"])


_VALIDATE = {"0": _validate_prepared, "1": _validate_results}
_VALIDATE |= {"8": _validate_bench, "9": _validate_coverage}
