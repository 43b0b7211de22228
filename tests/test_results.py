"""The schema of the results: what it accepts, what it refuses, and that files are whole or absent."""

import numpy as np
import pytest
import xarray as xr

from lib.results import factorial as results
from lib.results.schema import NOT_PLANNED, attempts_that_ran, count_ends

LEVELS = {
    "architecture": ["rnn", "lstm"],
    "width": [4],
    "learning_rate": [0.1, 0.01],
    "training_length": [2, 3],
    "dataset": ["digits"],
    "order": ["sequential"],
    "noise": ["none", "post"],
    "replicate": [0, 1],
    "epoch": [1, 2, 3],
}


@pytest.fixture
def ds():
    """A dataset in which everything completed, but for one diverged and one missing attempt."""
    ds = results.empty(LEVELS, profile="smoke", settings={"batch_size": 32})
    ds["status"][:] = results.COMPLETED
    ds["epochs_completed"] += ds["training_length"].astype("int32")
    first = dict.fromkeys(results.ATTEMPT, 0)
    second = first | {"replicate": 1}
    ds["status"][first], ds["epochs_completed"][first] = results.DIVERGED, 1
    ds["status"][second], ds["epochs_completed"][second] = results.MISSING, 0
    reached = ds["epoch"] <= ds["epochs_completed"]
    for name in results.MEASUREMENTS:
        values = xr.where(reached, 0.5, np.nan).broadcast_like(ds[name])
        ds[name] = ds[name].copy(data=values.transpose(*results.MEASURED).values.copy())
    return ds


def test_a_design_starts_with_every_attempt_missing():
    ds = results.validate(results.empty(LEVELS, profile="smoke"))
    assert (ds["status"] == results.MISSING).all()
    assert ds["status"].size == 32


def test_ends_are_counted_each_by_its_meaning(ds):
    assert count_ends(ds["status"]) == {"completed": 30, "diverged": 1, "missing": 1}
    assert attempts_that_ran(ds) == 31


def test_a_file_reads_back_identical(ds, tmp_path):
    assert results.load(results.save(ds, tmp_path / "r.nc")).identical(ds)


def test_every_variable_says_what_it_is(ds):
    for name in (*ds.data_vars, *ds.coords):
        assert ds[name].attrs["long_name"] and ds[name].attrs["units"]


def test_adjoints_of_zero_are_values_not_gaps(ds):
    ds["adjoint_first"].values[np.isfinite(ds["adjoint_first"].values)] = -np.inf
    results.validate(ds)


def test_a_full_disk_is_named_as_the_library_tells_of_it(ds, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise RuntimeError("NetCDF: HDF error")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", full)
    with pytest.raises(OSError, match="r.nc could not be written .NetCDF: HDF error.; make room"):
        results.save(ds, tmp_path / "r.nc")
    assert list(tmp_path.iterdir()) == []


def _break(name):
    def alter(ds):
        match name:
            case "schema":
                ds.attrs["schema"] = "factorial/0"
            case "profile":
                del ds.attrs["profile"]
            case "variable":
                return ds.drop_vars("loss")
            case "type":
                return ds.assign(loss=ds["loss"].astype("float32"))
            case "dimensions":
                return ds.assign(classes=ds["classes"].expand_dims(extra=1))
            case "units":
                del ds["loss"].attrs["units"]
            case "levels":
                return ds.assign_coords(replicate=("replicate", [0, 0], ds["replicate"].attrs))
            case "status":
                ds["status"][0] = 9
            case "crossed":
                ds["status"][0] = NOT_PLANNED
            case "gap":
                ds["loss"].values[1, 0, 0, 0, 0, 0, 0, 0, 0, 0] = np.nan
            case "beyond":
                ds["loss"].values[0, 0, 0, 0, 0, 0, 0, 0, 0, 2] = 1.0
            case "unfinished":
                ds["status"].values[0, 0, 0, 0, 0, 0, 0, 0] = results.COMPLETED
            case "accuracy":
                ds["accuracy"].values[1, 0, 0, 0, 0, 0, 0, 0, 0, 0] = 1.5
        return ds

    return alter


@pytest.mark.parametrize(
    "what, complaint",
    [
        ("schema", "expected results of schema 'factorial/2', got 'factorial/0'; rebuild"),
        ("profile", "attribute 'profile' is missing"),
        ("variable", "variable 'loss' is missing"),
        ("type", "loss: expected float64 over .*, got float32"),
        ("dimensions", "classes: expected int64 over"),
        ("units", "loss: expected the attributes"),
        ("levels", "replicate: expected distinct levels"),
        ("status", "status: expected one of 0 .completed., 1 .diverged., 2 .missing.$"),
        ("crossed", "status: expected one of 0"),
        ("gap", "loss: expected values for exactly the epochs completed"),
        ("beyond", "loss: expected values for exactly the epochs completed"),
        ("unfinished", "epochs_completed: expected all epochs where the status is completed"),
        ("accuracy", "accuracy: expected values between 0 and 1"),
    ],
)
def test_what_breaks_the_schema_is_named(ds, what, complaint):
    results.validate(ds)
    with pytest.raises(results.ResultsError, match=complaint):
        results.validate(_break(what)(ds))


def test_an_invalid_dataset_is_not_written(ds, tmp_path):
    with pytest.raises(results.ResultsError):
        results.save(_break("accuracy")(ds), tmp_path / "r.nc")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file_and_nothing_else(ds, tmp_path, monkeypatch):
    path = results.save(ds, tmp_path / "r.nc")
    before = path.read_bytes()

    def fill(self, target, **kwargs):
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", fill)
    with pytest.raises(OSError, match="No space left"):
        results.save(ds, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_missing_cut_and_foreign_files_are_named(ds, tmp_path):
    with pytest.raises(
        results.ResultsError, match="no results at .*; build them with `make repro`"
    ):
        results.load(tmp_path / "none.nc")
    path = results.save(ds, tmp_path / "r.nc")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(results.ResultsError, match="is not a readable netCDF file"):
        results.load(path)
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "foreign.nc")
    with pytest.raises(results.ResultsError, match="is no dataset of results"):
        results.load(tmp_path / "foreign.nc")
