"""The schema of the results, and files that are whole or absent, with their provenance."""

import errno
import hashlib
import importlib
import json
import os
import pkgutil
import re
import shutil

import numpy as np
import pytest
import study.results
import xarray as xr
from longrnn.cells import cell_class, cell_names
from ruamel.yaml import YAML
from study.notebook import open_results
from study.paths import NOTEBOOKS, REFERENCE
from study.results import factors, netcdf, reference, rows, schema
from study.results.datasets import load, schema_of
from study.results.factorial import FACTORIAL, MEASUREMENTS
from study.results.interventions import INTERVENTIONS
from study.results.joined import join_results
from study.results.latching import LATCHING
from study.results.linear_gaps import LINEAR_GAPS
from study.results.names import LABELS
from study.results.netcdf import ResultsError
from study.results.schema import (
    COMPLETED,
    DIVERGED,
    MISSING,
    NOT_PLANNED,
    Dimension,
    Schema,
    Variable,
)
from synthetic_results import LEVELS, empty, make_results

FIRST = (1, *[0] * 9)
LAST = (*[0] * 9, 2)


@pytest.fixture
def ds():
    """Results of all kinds: the first attempt diverged in epoch 2, the one at `FIRST` completed."""
    ds = make_results(seed=3)
    assert ds["status"].values[0].flat[0] == DIVERGED and ds["epochs_completed"].values.flat[0] == 1
    assert ds["status"].values[1].flat[0] == COMPLETED
    return ds


def test_statuses_are_counted(ds):
    assert (empty(LEVELS, profile="smoke")["status"] == MISSING).all()
    assert schema.count_ends(ds["status"]) == {"completed": 334, "diverged": 46, "missing": 52}


def test_file_roundtrip_keeps_zero_adjoints(ds, tmp_path):
    ds["adjoint_first"].values[np.isfinite(ds["adjoint_first"].values)] = -np.inf
    again = load(FACTORIAL.save(ds, tmp_path / "r.nc"))
    assert again.identical(ds) and again["accuracy"].encoding["zlib"]
    for name in (*ds.data_vars, *ds.coords):
        assert ds[name].attrs["long_name"] and ds[name].attrs["units"]


def test_units_are_those_of_the_project_and_times_are_in_steps():
    kinds = (FACTORIAL, INTERVENTIONS, LATCHING, LINEAR_GAPS, rows.schema(rows.MEASURED))
    described = [item for kind in kinds for item in {**kind.coordinates, **kind.variables}.items()]
    for name, about in described:
        assert about.units in {"1", "step", "epoch", "nat", "nat / step"}, name
        if name in ("time", "place", "horizon", "time_steps"):
            assert about.units == "step", name
    for name in ("place", "tau", "delay", "length"):
        assert factors.factor_attributes(name)["units"] == "step", name


@pytest.mark.parametrize("cell", cell_names())
def test_a_meaning_that_names_cells_names_all_that_have_the_setting(cell):
    for setting in cell_class(cell).hyper_parameters:
        named, colon, _ = factors.factor_attributes(setting)["long_name"].partition(": ")
        assert not colon or LABELS[cell].removesuffix(" RNN").lower() in named.lower(), setting


@pytest.mark.parametrize(
    "path", sorted((REFERENCE / "real").glob("*.nc")), ids=lambda path: path.stem
)
def test_stored_results_explain_themselves(path):
    ds = load(path)
    assert ds.attrs["title"] and ds.attrs["references"]
    for name, variable in ds.variables.items():
        assert variable.attrs.get("units"), name
        meaning = variable.attrs.get("long_name", "")
        assert meaning and not meaning.startswith("setting "), f"{name}: give it a meaning"


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
def test_schema_violations_are_named_and_not_written(ds, tmp_path, change, complaint):
    FACTORIAL.validate(ds)
    changed = change(ds)
    with pytest.raises(ResultsError, match=complaint):
        FACTORIAL.save(ds if changed is None else changed, tmp_path / "r.nc")
    assert list(tmp_path.iterdir()) == []


def test_full_disk_keeps_the_old_file(ds, tmp_path, monkeypatch):
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


@pytest.mark.parametrize(
    ("number", "words"), [(errno.EACCES, "denied"), (errno.EROFS, "Read-only file system")]
)
def test_what_this_user_may_not_write_is_not_called_full(number, words, ds, tmp_path, monkeypatch):
    def refuse(self, target, **kwargs):
        raise OSError(number, os.strerror(number), str(target))

    monkeypatch.setattr(xr.Dataset, "to_netcdf", refuse)
    with pytest.raises(OSError, match=rf"{words}; let this user write there .*/r.nc'$"):
        FACTORIAL.save(ds, tmp_path / "r.nc")
    assert list(tmp_path.iterdir()) == []


def test_unreadable_files_are_named(ds, tmp_path):
    path = FACTORIAL.save(ds, tmp_path / "cut.nc")
    path.write_bytes(path.read_bytes()[:100])
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "foreign.nc")
    for name, word in (
        ("none", "no results at .*, whose folder holds cut.nc, foreign.nc; build them"),
        ("cut", "has no seal: it was cut, not written"),
        ("foreign", "has no seal"),
    ):
        with pytest.raises(ResultsError, match=word):
            load(tmp_path / f"{name}.nc")


def test_changed_files_are_refused_before_hdf5(ds, tmp_path, monkeypatch):
    path = FACTORIAL.save(ds, tmp_path / "r.nc")
    whole = path.read_bytes()
    monkeypatch.setattr(xr, "open_dataset", lambda *_, **__: pytest.fail("HDF5 saw the file"))
    rng = np.random.default_rng(0)
    for position in [0, len(whole) - 1, *rng.integers(len(whole), size=40).tolist()]:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ResultsError, match="no seal|not as it was written"):
            load(path)
    path.write_bytes(whole + b"more")
    with pytest.raises(ResultsError, match="no seal"):
        load(path)


def test_load_reads_every_schema():
    schemas = {}
    for info in pkgutil.iter_modules(study.results.__path__):
        module = importlib.import_module(f"study.results.{info.name}")
        for value in vars(module).values():
            if isinstance(value, Schema):
                schemas[value.name] = value
    assert {FACTORIAL.name, INTERVENTIONS.name, LATCHING.name, LINEAR_GAPS.name} < set(schemas)
    for kind in schemas.values():
        levels = {name: [0] for name in kind.coordinates}
        assert schema_of(kind.empty(levels, profile="smoke")) is kind


def test_renamed_results_are_refused(ds, tmp_path):
    path = FACTORIAL.save(ds, tmp_path / "factorial.nc")
    with pytest.raises(ResultsError, match="its content or its name has changed"):
        load(path.rename(tmp_path / "adding.nc"))


def test_pipe_and_folder_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.nc")
    (tmp_path / "folder.nc").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(ResultsError, match="is not a regular file"):
            load(tmp_path / f"{name}.nc")


def test_notebooks_refuse_results_of_other_groups(tmp_path):
    stored = REFERENCE / "real"
    for notebook, name, words in (
        ("55_irnn_activity", "adding", "analyzes the results 'activity', got 'adding'"),
        ("30_tenet", "latching", "analyzes the results 'factorial', .* schema 'latching/1'"),
    ):
        with pytest.raises(ResultsError, match=words):
            open_results(stored / f"{name}.nc", tmp_path, notebook=notebook, result_set="rebuilt")
    open_results(
        stored / "short_factorial.nc", tmp_path, notebook="30_tenet", result_set="reference"
    )


def test_notebooks_name_a_folder_that_does_not_exist(tmp_path):
    path = tmp_path / "rael" / "factorial.nc"
    with pytest.raises(ResultsError, match=r"rael is not a folder; stored results are in data/"):
        open_results(path, tmp_path, notebook="30_tenet", result_set="reference")


def test_stored_results_match_their_provenance(tmp_path):
    for suffix in (".nc", ".json"):
        shutil.copy(REFERENCE / "real" / f"linear_gaps{suffix}", tmp_path)
    path = tmp_path / "linear_gaps.nc"
    assert load(path).sizes["place"]
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(ResultsError, match=r"SHA-256 .*, its provenance linear_gaps.json records"):
        load(path)
    path.with_suffix(".json").write_text("{")
    with pytest.raises(ResultsError, match="is not a provenance file"):
        load(path)


@pytest.mark.parametrize(
    "path", sorted((REFERENCE / "real").glob("*.nc")), ids=lambda path: path.stem
)
def test_every_coordinate_that_a_stored_dataset_names_is_in_it(path):
    with xr.open_dataset(path, decode_coords=False) as ds:
        variables = ds.variables.values()
        named = {name for one in variables for name in one.attrs.get("coordinates", "").split()}
        assert named <= set(ds.variables)


def test_every_stored_dataset_has_a_checksum():
    for path in (REFERENCE / "real").glob("*.nc"):
        record = json.loads(path.with_suffix(".json").read_text("utf-8"))
        assert record["results"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_checksums_are_added_to_provenance_once(tmp_path):
    folder = tmp_path / "data/reference/real"
    folder.mkdir(parents=True)
    shutil.copy(REFERENCE / "real" / "linear_gaps.nc", folder)
    record = json.loads((REFERENCE / "real" / "linear_gaps.json").read_text("utf-8"))
    expected = record["results"].pop("sha256")
    (folder / "linear_gaps.json").write_text(json.dumps(record))
    assert reference.add_checksums(tmp_path) == [folder / "linear_gaps.json"]
    assert reference.add_checksums(tmp_path) == []
    written = json.loads((folder / "linear_gaps.json").read_text("utf-8"))
    assert written["results"]["sha256"] == expected


RESULTS, OTHER = (f"data/results/{name}.nc" for name in ("factorial", "adding"))
FAILED = f"{reference.MADE}/30_tenet/rebuilt/30_tenet.failed.ipynb"


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
        YAML().dump({"schema": "2.0", "stages": {"analyze": {"deps": outs}}}, file)


def test_reference_keeps_results_tables_and_figures(root):
    path = reference.keep("factorial", root)
    ds = load(path)
    folder = path.parent
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


def test_files_that_a_killed_process_left_are_not_results(root):
    tables = root / reference.MADE / "30_tenet/rebuilt/tables"
    for folder, suffix in ((root / RESULTS).parent, "nc"), (tables, "csv"):
        (folder / f".factorial.partial1-ab.{suffix}").touch()
    assert reference.names(root) == ["factorial"]
    folder = reference.keep("factorial", root).parent
    tables = {path.name for path in (folder / "tables" / "factorial").iterdir()}
    assert tables == {"diss-tab-3.5.csv", "diss-tab-1.7.csv"}
    with pytest.raises(ResultsError, match=r"whose folder holds factorial\.nc; "):
        load((root / RESULTS).with_name("adding.nc"))


@pytest.mark.parametrize("last", ["one", "other"])
def test_reference_records_the_cost_of_the_last_training(root, last):
    for folder in ("one", "other"):
        path = root / reference.CACHE / folder / "factorial.smoke.cost.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"jobs": len(folder)}), "utf-8")
        seconds = 2 if folder == last else 1
        os.utime(path, (seconds, seconds))
    of_another_profile = path.with_name("factorial.quick.cost.json")
    of_another_profile.write_text(json.dumps({"jobs": 99}), "utf-8")
    folder = reference.keep("factorial", root).parent
    assert json.loads((folder / "factorial.json").read_text("utf-8"))["cost"] == {"jobs": len(last)}


def test_unplanned_runs_are_counted_separately():
    levels = {"width": [8, 9], "replicate": [0, 1]}
    variables = {"status": Variable(tuple(levels), "int8", "end", "1")}
    schema = Schema("two/1", {name: Dimension(name, "1") for name in levels}, variables, union=True)
    ds = schema.empty(levels, profile="real")
    ds["status"].loc[{"width": 8}] = [COMPLETED, DIVERGED]
    record = reference.provenance(ds, "0", "1", {"jobs": 1, "core_seconds": 2})
    assert record["attempts"] == {"all": 2, "completed": 1, "diverged": 1, "not_planned": 2}


JOINED = Schema(
    "joined/1",
    {"width": Dimension("width", "1"), "epoch": Dimension("epoch", "epoch")},
    {
        "loss": Variable(("width", "epoch"), "float64", "loss", "nat"),
        "name": Variable(("width",), "str", "name", "1"),
        "status": Variable(("width",), "int8", "end", "1"),
    },
)


def test_results_of_jobs_are_joined_by_their_levels():
    results = [{"loss": [0.5], "name": "a long name", "status": COMPLETED}, {"name": "b"}]
    ds = join_results(JOINED, [{"width": 8}, {"width": 4}], results, {"epoch": [1, 2]}, profile="x")
    assert ds["width"].values.tolist() == [8, 4], "in the order of the jobs"
    np.testing.assert_array_equal(ds["loss"], [[0.5, np.nan], [np.nan, np.nan]])
    assert ds["name"].values.tolist() == ["a long name", "b"]
    assert ds["status"].values.tolist() == [COMPLETED, MISSING]


def test_two_jobs_with_the_same_levels_are_refused():
    jobs = [{"width": 8}, {"width": 8}]
    with pytest.raises(ResultsError, match="two jobs have the levels {'width': 8}; expected diff"):
        join_results(JOINED, jobs, [{}, {}], {"epoch": [1]}, profile="x")


def test_a_dimension_without_levels_is_refused():
    with pytest.raises(ResultsError, match="joined/1: no levels for the dimension 'epoch'"):
        JOINED.empty({"width": [8]}, profile="x")


def test_only_placeholders_of_factors_are_replaced_by_their_meaning():
    placeholder = {"long_name": "setting 'dt' of the run"}
    coordinates = {
        "dt": ("run", [0.1], placeholder),
        "alpha": ("run", [1.0], {"long_name": "a meaning of its own"}),
    }
    ds = factors.describe_factors(xr.Dataset(coords={"run": ["a"], **coordinates}))
    assert ds["dt"].attrs["long_name"].startswith("step size dt of the cell's")
    assert ds["alpha"].attrs["long_name"] == "a meaning of its own"
    assert ds["dt"].item() == 0.1


def lose_an_attempt(root):
    ds = load(root / RESULTS)
    ds["status"].values.flat[0] = MISSING
    ds["epochs_completed"].values.flat[0] = 0
    for name in MEASUREMENTS:
        ds[name].values.reshape(ds["status"].size, -1)[0] = np.nan
    FACTORIAL.save(ds, root / RESULTS)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda root: _write_lock(root, "0" * 32), "dvc.lock records 0000.*; run `make repro` to"),
        (
            lambda root: (root / "dvc.lock").unlink(),
            "dvc.lock does not list data/results/factorial",
        ),
        (lose_an_attempt, "data/results/factorial.nc lacks 1 of its attempts; finish"),
        (
            lambda root: (root / RESULTS).rename(root / OTHER),
            "no results at .* holds adding.nc; bui",
        ),
        (lambda root: shutil.rmtree(root / reference.MADE), "no tables or figures of factorial"),
        (
            lambda root: (root / FAILED).touch(),
            "30_tenet.failed.ipynb did not end; run `make repro`",
        ),
    ],
)
def test_incomplete_run_keeps_the_old_reference(root, change, complaint):
    folder = reference.keep("factorial", root).parent
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    change(root)
    with pytest.raises(ResultsError, match=complaint):
        reference.keep("factorial", root)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_keeping_no_results_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reference, "names", list)
    assert reference.main([]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "study.results.reference: no results in data/results; run `make repro` first\n"
    )


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("interactive/prepared/mnist.nc", "run notebooks/00_prepare_data.ipynb first"),
        ("interactive/results/adding.nc", "run notebooks/10_train.ipynb first"),
        ("simulated/factorial.nc", "run notebooks/15_simulate_factorial.ipynb first"),
        ("results/adding.nc", "build them with `make repro`"),
    ],
)
def test_missing_files_name_their_notebook(monkeypatch, tmp_path, path, advice):
    monkeypatch.setattr(netcdf, "DATA", tmp_path)
    with pytest.raises(netcdf.ResultsError, match=f"holds nothing; {advice}"):
        netcdf.read_netcdf(tmp_path / path, "results")
