"""A reference is kept whole, with its provenance, or the one before stays."""

import hashlib
import json

import pytest
from ruamel.yaml import YAML
from synthetic_results import make_results

from lib import reference, results
from lib.results import ResultsError


@pytest.fixture
def root(tmp_path):
    """A repository in which the pipeline has just run."""
    ds = make_results()
    status = ds["status"].values
    status[status == results.MISSING] = results.DIVERGED
    path = results.save(ds, tmp_path / reference.RESULTS)
    for folder, name in (
        (reference.TABLES, "diss-tab-1.7.csv"),
        (reference.FIGURES, "diss-fig-3.3.png"),
    ):
        (tmp_path / folder / "22_numerical_errors").mkdir(parents=True)
        (tmp_path / folder / "22_numerical_errors" / name).write_bytes(b"content")
    _write_lock(tmp_path, hashlib.md5(path.read_bytes()).hexdigest())
    return tmp_path


def _write_lock(root, md5):
    outs = [{"path": reference.RESULTS, "md5": md5}]
    with (root / "dvc.lock").open("w") as file:
        YAML().dump({"schema": "2.0", "stages": {"train": {"outs": outs}}}, file)


def test_results_tables_pictures_and_provenance_are_kept(root):
    folder = reference.keep(root)
    ds = results.load(folder / "factorial.nc")
    assert folder.name == ds.attrs["profile"]
    assert (folder / "tables" / "diss-tab-1.7.csv").read_bytes() == b"content"
    assert (folder / "figures" / "diss-fig-3.3.png").read_bytes() == b"content"
    record = json.loads((folder / "provenance.json").read_text("utf-8"))
    assert record["attempts"]["all"] == ds["status"].size
    assert record["attempts"]["completed"] + record["attempts"]["diverged"] == ds["status"].size
    assert record["settings"] == json.loads(ds.attrs["settings"])
    assert "torch" in record["software"]


def test_keeping_again_replaces_the_reference(root):
    folder = reference.keep(root)
    (folder / "stale.csv").touch()
    assert not (reference.keep(root) / "stale.csv").exists()


def test_results_of_another_run_are_refused_and_the_old_reference_stays(root):
    folder = reference.keep(root)
    before = (folder / "provenance.json").read_bytes()
    _write_lock(root, "0" * 32)
    with pytest.raises(ResultsError, match=r"dvc.lock records 0000.*; run `make repro` to the end"):
        reference.keep(root)
    assert (folder / "provenance.json").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_study_with_missing_attempts_is_refused(root):
    ds = results.load(root / reference.RESULTS)
    ds["status"].values.flat[0], ds["epochs_completed"].values.flat[0] = results.MISSING, 0
    first = dict.fromkeys(results.ATTEMPT, 0)
    for name in results.MEASUREMENTS:
        ds[name][first] = float("nan")
    results.save(ds, root / reference.RESULTS)
    with pytest.raises(ResultsError, match="1 attempts of data/results/factorial.nc are missing"):
        reference.keep(root)


def test_without_tables_nothing_is_kept(root):
    for path in (root / reference.TABLES).rglob("*.csv"):
        path.unlink()
    with pytest.raises(ResultsError, match="no tables in data/tables/rebuilt"):
        reference.keep(root)
    assert not (root / "data" / "reference").exists()
