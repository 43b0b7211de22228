"""Experiment 2.3: its parameters, its plan, and the dataset that its jobs join to."""

import numpy as np
import pytest
from designs import train
from pydantic import ValidationError

from lib.experiments import load_profile
from lib.experiments.padding import ATTEMPT, CELLS, EXPERIMENT, MEASURED, SCHEMA, Padding, run
from lib.results.schema import COMPLETED, NOT_PLANNED, ResultsError
from lib.run.params import ParameterError, designs
from lib.tasks.prepared import prepared_dataset, save_prepared


@pytest.fixture
def small():
    """Two methods of the table's grid, and the sweep, an epoch each."""
    table, *_, sweep = load_profile("smoke").designs["padding"]
    table = table.at(method=("adjoint", "coadjoint"), replicates=1, epochs=1)
    return (table, sweep.at(epochs=1))


@pytest.fixture
def prepared(tmp_path):
    rng = np.random.default_rng(0)

    def part(n):
        return rng.integers(0, 17, (n, 64, 1)), rng.permutation(np.arange(n) % 10)

    ds = prepared_dataset(
        "digits", part(64), part(64), kind="pixels", source="made up", outputs=10, valid_max=16
    )
    save_prepared(ds, tmp_path)
    return tmp_path


def _attempts(chosen):
    jobs = EXPERIMENT.plan(chosen)
    return [job for job in jobs if not job.sweep], [job for job in jobs if job.sweep]


def test_jobs_join_to_one_valid_dataset(small, prepared, monkeypatch):
    ds = train("padding", small, monkeypatch, prepared)
    table, sweep = _attempts(small)
    assert int((ds["status"] == COMPLETED).sum()) == len(table) == 4
    assert ds["sweep_status"].size == len(sweep)
    job = next(job for job in table if job.method == "coadjoint" and job.padding == 1)
    found = run(job, prepared, None)
    at = {name: getattr(job, name) for name in ATTEMPT}
    for name in MEASURED:
        np.testing.assert_array_equal(ds[name].sel(at), found[name])
    assert ds["time_steps"].sel(dataset="digits").values.tolist() == [8, 16]
    assert ds["largest_class"].item() == ds["first_class"].item() > 0
    path = SCHEMA.save(ds, prepared / "out.nc")
    again = SCHEMA.save(train("padding", small, monkeypatch, prepared), prepared / "again.nc")
    assert path.read_bytes() == again.read_bytes()


def test_a_design_with_holes_says_which_attempts_it_has(small, prepared, monkeypatch):
    union = (small[0], small[0].at(padding=(2,), width=(3,)), small[1])
    ds = train("padding", union, monkeypatch, prepared)
    table, _ = _attempts(union)
    assert int((ds["status"] == COMPLETED).sum()) == len(table) == 6 < ds["status"].size
    for job in table:
        assert ds["status"].sel({name: getattr(job, name) for name in ATTEMPT}) == COMPLETED
    assert int((ds["status"] == NOT_PLANNED).sum()) == ds["status"].size - 6
    ds["epochs_completed"].values[ds["status"].values == NOT_PLANNED] = 1
    with pytest.raises(ResultsError, match="epochs_completed: expected 0 where nothing ran"):
        SCHEMA.validate(ds)


def test_every_attempt_of_the_sweep_is_planned(small, prepared, monkeypatch):
    ds = train("padding", small, monkeypatch, prepared)
    ds["sweep_status"][0, 0, 0, 0] = NOT_PLANNED
    with pytest.raises(ResultsError, match="sweep_status: expected one of 0 .completed., 1 "):
        SCHEMA.validate(ds)


def test_kappa_of_zero_is_backpropagation_and_shared_with_the_table(small):
    table, sweep = _attempts(small)
    plain = [job for job in sweep if job.kappa == 0]
    assert plain and all(job.method == "adjoint" for job in plain)
    known = [EXPERIMENT.identity(job) for job in table]
    shared = [job for job in plain if EXPERIMENT.identity(job) in known]
    assert {job.initialisation for job in shared} == {"orthogonal"}
    assert all(job.method == "coadjoint" for job in sweep if job.kappa > 0)


def test_a_job_depends_on_no_weight_that_it_does_not_use(small):
    table = small[0].at(method=tuple(CELLS))
    before, after = (
        {job.method: EXPERIMENT.identity(job) for job in design.jobs()}
        for design in (table, table.at(kappa=(5.0,), orthogonality=5.0))
    )
    changed = {method for method in before if before[method] != after[method]}
    assert changed == {"coadjoint", "constrained"}


def test_a_data_set_that_is_not_prepared_is_named(small, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="data set 'digits' is not prepared.*notebook 00"):
        train("padding", small, monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kappa": -1.0}, "greater than or equal to 0"),
        (
            {"learning_rates": {"adjoint": 0.1}},
            "expected a learning rate for the method 'coadjoint'",
        ),
        ({"grids": []}, "expected a list of designs"),
        ({"orthogonal": 1.0}, "unknown parameter padding.orthogonal"),
    ],
)
def test_bad_parameters_are_refused(small, change, sentence):
    section = {name: value for name, value in small[0].values().items() if name != "replicate"}
    with pytest.raises((ParameterError, ValidationError), match=sentence):
        designs(Padding, section | change, "padding")


def test_real_has_what_the_conclusions_need_and_paper_the_text_s_design():
    real, paper = (load_profile(name).designs["padding"] for name in ("real", "paper"))
    five = set(CELLS) - {"linear"}
    wanted = {
        (d, p, m) for d in ("mnist", "fashion_mnist") for p in (0, 12) for m in five - {"lstm"}
    }
    had = {
        (d, p, m)
        for grid in real
        if 100 in grid.width and grid.replicates >= 3
        for d in grid.dataset
        for p in grid.padding
        for m in grid.method
    }
    assert wanted <= had
    first, sweep = paper[0], paper[-1]
    assert (first.padding, first.width, first.replicates) == (
        (0, 4, 8),
        (20, 40, 60, 80, 100),
        10,
    )
    assert (first.train_size, first.test_size, max(sweep.kappa)) == (0, 0, 1)
