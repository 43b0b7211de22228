"""A reference is kept whole, with its provenance, or the one before stays."""

import hashlib
import json
import re
import shutil

import pytest
from ruamel.yaml import YAML
from synthetic_results import make_results

from lib.paths import NOTEBOOKS
from lib.results import reference
from lib.results.factorial import FACTORIAL
from lib.results.schema import COMPLETED, DIVERGED, MISSING, ResultsError, Schema, load

RESULTS, OTHER = (f"data/results/{name}.nc" for name in ("factorial", "adding"))


@pytest.fixture
def root(tmp_path):
    """A repository in which the pipeline has just run."""
    (tmp_path / "notebooks").mkdir()
    for name in ("22_numerical_errors", "23_adjoint_regimes", "30_tenet"):
        shutil.copy(NOTEBOOKS / f"{name}.ipynb", tmp_path / "notebooks")
    ds = make_results()
    status = ds["status"].values
    status[status == MISSING] = DIVERGED
    path = FACTORIAL.save(ds, tmp_path / RESULTS)
    for name in (
        "22_numerical_errors/rebuilt/tables/diss-tab-1.7.csv",
        "22_numerical_errors/rebuilt/figures/diss-fig-3.3.png",
        "30_tenet/rebuilt/tables/diss-tab-3.5.csv",
    ):
        made = tmp_path / reference.MADE / name
        made.parent.mkdir(parents=True)
        made.write_bytes(b"content")
    _write_lock(tmp_path, hashlib.md5(path.read_bytes()).hexdigest())
    return tmp_path


def _write_lock(root, md5):
    outs = [{"path": RESULTS, "md5": md5}]
    with (root / "dvc.lock").open("w") as file:
        YAML().dump({"schema": "2.0", "stages": {"analyse": {"deps": outs}}}, file)


def test_results_tables_and_pictures_of_every_notebook_and_provenance_are_kept(root):
    path = reference.keep("factorial", root)
    ds, folder = load(path), path.parent
    assert (path.name, folder.name) == ("factorial.nc", ds.attrs["profile"])
    tables = folder / "tables" / "factorial"
    assert {"diss-tab-3.5.csv", "diss-tab-1.7.csv"} <= {path.name for path in tables.iterdir()}
    assert (tables / "diss-tab-1.7.csv").read_bytes() == b"content"
    assert (folder / "figures" / "factorial" / "diss-fig-3.3.png").read_bytes() == b"content"
    record = json.loads((folder / "factorial.json").read_text("utf-8"))
    attempts = record["attempts"]
    assert attempts["all"] == ds["status"].size == attempts["completed"] + attempts["diverged"]
    assert record["settings"] == json.loads(ds.attrs["settings"])
    assert "torch" in record["software"]
    assert re.fullmatch(r"([0-9a-f]{40}\+?)?", record["commit"])
    # Keeping again replaces this reference and no other.
    stale, other = (folder / "tables" / name / "x.csv" for name in ("factorial", "adding"))
    other.parent.mkdir()
    stale.touch()
    other.touch()
    reference.keep("factorial", root)
    assert not stale.exists() and other.exists()


def test_what_no_grid_plans_is_counted_apart():
    levels = {"width": [8, 9], "replicate": [0, 1]}
    variables = {"status": (tuple(levels), "int8", "end", "1")}
    schema = Schema("two/1", {name: (name, "1") for name in levels}, variables, union=True)
    ds = schema.empty(levels, profile="real")
    ds["status"].loc[{"width": 8}] = [COMPLETED, DIVERGED]
    record = reference.provenance(ds, "0", {"jobs": 1, "core_seconds": 2})
    assert record["attempts"] == {"all": 2, "completed": 1, "diverged": 1, "not_planned": 2}


def lose_an_attempt(root):
    ds = load(root / RESULTS)
    ds["status"].values.flat[0] = MISSING
    ds.to_netcdf(root / RESULTS)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda root: _write_lock(root, "0" * 32), "dvc.lock records 0000.*; run `make repro` to"),
        (lose_an_attempt, "1 attempts of data/results/factorial.nc are missing"),
        (
            lambda root: (root / RESULTS).rename(root / OTHER),
            "no results at .* holds adding.nc; bui",
        ),
        (lambda root: shutil.rmtree(root / reference.MADE), "no tables or figures of factorial"),
    ],
)
def test_what_is_no_whole_run_is_refused_and_the_old_reference_stays(root, change, complaint):
    folder = reference.keep("factorial", root).parent
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    change(root)
    with pytest.raises(ResultsError, match=complaint):
        reference.keep("factorial", root)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
