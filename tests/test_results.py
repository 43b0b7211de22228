"""The schema of the results: what it accepts, what it refuses, and that files are whole or absent."""

import numpy as np
import pytest
import xarray as xr
from synthetic_results import LEVELS, empty, make_results

from lib.results import schema
from lib.results.factorial import FACTORIAL
from lib.results.schema import COMPLETED, DIVERGED, MISSING, NOT_PLANNED, ResultsError, load

FIRST, LAST = (1, *[0] * 9), (*[0] * 9, 2)


@pytest.fixture
def ds():
    """Results of all kinds: the first attempt diverged in its second epoch, the one at `FIRST` completed."""
    ds = make_results(seed=3)
    assert ds["status"].values[0].flat[0] == DIVERGED and ds["epochs_completed"].values.flat[0] == 1
    assert ds["status"].values[1].flat[0] == COMPLETED
    return ds


def test_ends_are_counted_each_by_its_meaning(ds):
    assert (empty(LEVELS, profile="smoke")["status"] == MISSING).all()
    assert schema.count_ends(ds["status"]) == {"completed": 334, "diverged": 46, "missing": 52}


def test_a_file_reads_back_identical_and_adjoints_of_zero_are_values(ds, tmp_path):
    ds["adjoint_first"].values[np.isfinite(ds["adjoint_first"].values)] = -np.inf
    assert load(FACTORIAL.save(ds, tmp_path / "r.nc")).identical(ds)
    for name in (*ds.data_vars, *ds.coords):
        assert ds[name].attrs["long_name"] and ds[name].attrs["units"]


def _set(name, place, value):
    """Return how to change one value of a variable."""
    return lambda ds: ds[name].values.__setitem__(place, value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda ds: ds.attrs.update(schema="factorial/0"), "expected .*'factorial/2', got .*0'"),
        (lambda ds: ds.attrs.pop("profile") and None, "attribute 'profile' is missing"),
        (lambda ds: ds.drop_vars("loss"), "variable 'loss' is missing"),
        (lambda ds: ds.assign(loss=ds["loss"].astype("float32")), "loss: expected float64"),
        (lambda ds: ds.assign(classes=ds["classes"].expand_dims(extra=1)), "classes: expected"),
        (lambda ds: ds["loss"].attrs.clear(), "loss: expected the attributes"),
        (lambda ds: ds.assign_coords(replicate=0 * ds["replicate"]), "replicate: expected"),
        (_set("status", 0, 9), "status: expected one of 0 .completed., 1 .diverged., 2 .missing.$"),
        (_set("status", 0, NOT_PLANNED), "status: expected one of 0"),
        (_set("loss", FIRST, np.nan), "loss: expected values for exactly the epochs completed"),
        (_set("loss", LAST, 1.0), "loss: expected values for exactly the epochs completed"),
        (_set("status", (0,) * 8, COMPLETED), "epochs_completed: expected all epochs"),
        (_set("accuracy", FIRST, 1.5), "accuracy: expected values between 0 and 1"),
    ],
)
def test_what_breaks_the_schema_is_named_and_not_written(ds, tmp_path, change, complaint):
    FACTORIAL.validate(ds)
    changed = change(ds)
    with pytest.raises(ResultsError, match=complaint):
        FACTORIAL.save(ds if changed is None else changed, tmp_path / "r.nc")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file_and_nothing_else(ds, tmp_path, monkeypatch):
    path = FACTORIAL.save(ds, tmp_path / "r.nc")
    before = path.read_bytes()

    def fill(self, target, **kwargs):
        target.write_bytes(b"half")
        raise RuntimeError("NetCDF: HDF error")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", fill)
    with pytest.raises(OSError, match=r"could not be written .NetCDF: HDF error.; make room"):
        FACTORIAL.save(ds, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_missing_cut_and_foreign_files_are_named(ds, tmp_path):
    path = FACTORIAL.save(ds, tmp_path / "cut.nc")
    path.write_bytes(path.read_bytes()[:100])
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "foreign.nc")
    for name, word in (
        ("none", "no results at .*, whose folder holds cut.nc, foreign.nc; build them"),
        ("cut", "is not a readable netCDF file"),
        ("foreign", "is no dataset of results"),
    ):
        with pytest.raises(ResultsError, match=word):
            load(tmp_path / f"{name}.nc")
