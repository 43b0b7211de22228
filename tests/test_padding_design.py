"""Experiment 2.3: its parameters, its plan, and the dataset that its jobs join to."""

import numpy as np
import pytest

from lib.experiments.padding import training
from lib.experiments.padding.design import PADDING, attempts
from lib.experiments.padding.results import ATTEMPT, MEASURED, SCHEMA
from lib.results.schema import COMPLETED, NOT_PLANNED, ResultsError
from lib.run.params import load_profile
from lib.run.params.padding import METHODS, PaddingSection
from lib.tasks.prepared import prepared_dataset, save_prepared
from lib.training.jobs import run_experiment


@pytest.fixture
def section():
    return load_profile("smoke").padding


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


@pytest.fixture
def here(monkeypatch):
    """Run jobs in this process: what is tested is the joining, not Dask."""

    def run_jobs(experiment, jobs, run, *others):
        return [run(job) for job in jobs]

    monkeypatch.setattr("lib.training.jobs.run.run_jobs", run_jobs)


def _only(section, **changes):
    grid = section.grids[0].model_copy(
        update={"methods": ("adjoint", "coadjoint"), "replicates": 1} | changes
    )
    return section.model_copy(update={"grids": (grid,), "epochs": 1})


def _run(section, prepared):
    profile = load_profile("smoke").model_copy(update={"padding": section})
    return run_experiment(PADDING, "smoke", profile, cache=prepared / "cache", prepared=prepared)


def test_jobs_join_to_one_valid_dataset(section, prepared, here):
    ds = _run(_only(section), prepared)
    table, sweep = attempts(_only(section), prepared)
    assert int((ds["status"] == COMPLETED).sum()) == len(table) == 4
    assert ds["sweep_status"].size == len(sweep)
    job = table["digits", 1, "coadjoint", 4, 0]
    found = training.run_job(job, prepared)
    at = dict(zip(ATTEMPT, ("digits", 1, "coadjoint", 4, 0), strict=True))
    for name in MEASURED:
        np.testing.assert_array_equal(ds[name].sel(at), found[name])
    assert ds["time_steps"].sel(dataset="digits").values.tolist() == [8, 16]
    assert ds["largest_class"].item() == ds["first_class"].item() > 0
    path = SCHEMA.save(ds, prepared / "out.nc")
    again = SCHEMA.save(_run(_only(section), prepared), prepared / "again.nc")
    assert path.read_bytes() == again.read_bytes()


def test_a_design_with_holes_says_which_attempts_it_has(section, prepared, here):
    whole = _only(section)
    more = whole.grids[0].model_copy(update={"paddings": (2,), "widths": (3,)})
    union = whole.model_copy(update={"grids": (*whole.grids, more)})
    ds = _run(union, prepared)
    table, _ = attempts(union, prepared)
    assert int((ds["status"] == COMPLETED).sum()) == len(table) == 6 < ds["status"].size
    for levels in table:
        assert ds["status"].sel(dict(zip(ATTEMPT, levels, strict=True))) == COMPLETED
    assert int((ds["status"] == NOT_PLANNED).sum()) == ds["status"].size - 6
    ds["epochs_completed"].values[ds["status"].values == NOT_PLANNED] = 1
    with pytest.raises(ResultsError, match="epochs_completed: expected 0 where nothing ran"):
        SCHEMA.validate(ds)


def test_every_attempt_of_the_sweep_is_planned(section, prepared, here):
    ds = _run(_only(section), prepared)
    ds["sweep_status"][0, 0, 0, 0] = NOT_PLANNED
    with pytest.raises(ResultsError, match="sweep_status: expected one of 0 .completed., 1 "):
        SCHEMA.validate(ds)


def test_kappa_of_zero_is_backpropagation_and_shared_with_the_table(section, prepared):
    table, sweep = attempts(section, prepared)
    assert sweep[0, "orthogonal", 0.0, 0] == table["digits", 0, "adjoint", 4, 0]
    assert sweep[0, "glorot", 0.0, 0] not in table.values()
    assert sweep[1, "glorot", 1.0, 0].method == "coadjoint"


def test_a_job_depends_on_no_weight_that_it_does_not_use(section, prepared):
    before, _ = attempts(section, prepared)
    after, _ = attempts(section.model_copy(update={"kappa": 5.0, "orthogonality": 5.0}), prepared)
    changed = {key[2] for key in before if before[key] != after[key]}
    assert changed == {"coadjoint", "constrained"}


def test_a_data_set_that_is_not_prepared_is_named(section, tmp_path):
    with pytest.raises(ValueError, match="data set 'digits' is not prepared.*notebook 00"):
        attempts(section, tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kappa": -1.0}, "greater than or equal to 0"),
        (
            {"learning_rates": {"adjoint": 0.1}},
            "expected a learning rate for the method 'coadjoint'",
        ),
        ({"grids": []}, "at least 1 item"),
        ({"orthogonal": 1.0}, "Extra inputs are not permitted"),
    ],
)
def test_bad_parameters_are_refused(section, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        PaddingSection(**section.model_dump() | change)


def test_real_has_what_the_conclusions_need_and_paper_the_text_s_design():
    real, paper = (load_profile(name).padding for name in ("real", "paper"))
    five = set(METHODS) - {"linear"}
    wanted = {(d, p, m) for d in ("mnist", "fashion_mnist") for p in (0, 4) for m in five}
    had = {
        (d, p, m)
        for grid in real.grids
        if 100 in grid.widths and grid.replicates >= 3
        for d in grid.datasets
        for p in grid.paddings
        for m in grid.methods
    }
    assert wanted <= had
    first = paper.grids[0]
    assert (first.paddings, first.widths, first.replicates) == (
        (0, 4, 8),
        (20, 40, 60, 80, 100),
        10,
    )
    assert (paper.train_size, paper.test_size, max(paper.sweep.kappas)) == (0, 0, 1000)
