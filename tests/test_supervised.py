"""Rows of params.yaml are all that a further network takes."""

import json
from dataclasses import replace

import numpy as np
import pytest
from designs import train

from lib.experiments import load_profile
from lib.experiments.__main__ import main
from lib.experiments._hours import hours
from lib.experiments.supervised import SCHEMA, Supervised
from lib.results.schema import COMPLETED, load
from lib.run.params import designs
from lib.tasks.sources import prepare

FOUR = [
    {"label": "LEM", "cell": "lem", "hyper_parameters": {"dt": 0.3}, "head": "kaiming"},
    {
        "label": "UnICORNN",
        "cell": "unicornn",
        "hyper_parameters": {"layers": 2, "dt": [0.2, 0.4], "alpha": 3.0, "dropout": 0.1},
    },
    {"label": "chrono-LSTM", "cell": "chrono_lstm", "hyper_parameters": {"chrono": 20}},
    {"label": "expRNN", "cell": "exponential", "start": "author"},
]
TASKS = {
    "a class at the end": {"task": "pixels", "dataset": "digits", "order": "lem", "train_size": 64},
    "a value at every step": {
        "task": "fast_slow", "time_steps": 15, "train_size": 8, "validation_size": 4, "test_size": 4
    },
    "a class at every step": {"task": "copying", "delay": 5},
    "a value at the end": {"task": "adding", "time_steps": 6},
}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    prepare("digits", folder)
    return folder


def _section(task, **more):
    drawn = task["task"] in ("adding", "copying")
    length = {"steps": 6, "test_size": 16} if drawn else {"epochs": 2}
    shared = {"task": task, "width": 6, "learning_rate": 0.01, "batch_size": 8, "records": 2}
    return shared | length | {"grids": FOUR} | more


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_four_rows_train_four_networks_on_any_task(task, prepared, monkeypatch, tmp_path):
    rows = designs(Supervised, _section(task), "rows")
    ds = train("supervised", rows, monkeypatch, prepared)
    assert ds["label"].values.tolist() == [row["label"] for row in FOUR]
    assert (ds["status"] == COMPLETED).all()
    for name in ("train_loss", "test_loss", "test_metric", "guess_loss", "guess_metric"):
        assert np.isfinite(ds[name]).all(), name
    assert len(set(ds["test_loss"].isel(record=0, replicate=0).values.tolist())) == 4
    assert json.loads(ds["hyper_parameters"].values[1])["alpha"] == 3.0
    stored = load(SCHEMA.save(ds, tmp_path / "rows.nc"))
    assert SCHEMA.validate(stored)["metric"].values.tolist() == ds["metric"].values.tolist()


def test_hyper_parameters_reach_the_cell(prepared, monkeypatch):
    def losses(**hyper_parameters):
        grid = [{"label": "LEM", "cell": "lem", "hyper_parameters": hyper_parameters}]
        section = _section(TASKS["a class at the end"], grids=grid)
        ds = train("supervised", designs(Supervised, section, "rows"), monkeypatch, prepared)
        return ds["test_loss"].values

    assert not np.array_equal(losses(dt=0.3), losses(dt=1.0))


def test_networks_of_one_task_see_the_same(prepared, monkeypatch):
    grids = [{"label": name, "cell": "gru"} for name in ("one", "other")]
    section = _section(TASKS["a class at the end"], grids=grids)
    ds = train("supervised", designs(Supervised, section, "rows"), monkeypatch, prepared)
    np.testing.assert_array_equal(ds["test_loss"][0], ds["test_loss"][1])
    more = designs(Supervised, section | {"replicates": 2}, "rows")
    again = train("supervised", more, monkeypatch, prepared)
    np.testing.assert_array_equal(again["test_loss"][:, 0], ds["test_loss"][:, 0])
    assert not np.array_equal(again["test_loss"][:, 0], again["test_loss"][:, 1])


@pytest.mark.parametrize("measures", [["time_steps"], ["gains"]])
def test_measuring_does_not_move_the_draws_of_training(measures, prepared, monkeypatch):
    """Dropout draws from the same generator."""
    lem = FOUR[0] | {"dropout": {"input": 0.3}}
    losses = [
        train(
            "supervised",
            designs(Supervised, _section(TASKS["a class at the end"], grids=[row]), "rows"),
            monkeypatch,
            prepared,
        )["test_loss"]
        for row in (lem, lem | {"measures": measures})
    ]
    assert np.array_equal(*losses)


def test_a_network_learns_a_task_it_can_learn(prepared, monkeypatch):
    grid = [{"label": "GRU", "cell": "gru", "width": 16, "learning_rate": 0.02}]
    task = {"task": "adding", "time_steps": 3}
    section = _section(task, grids=grid) | {"steps": 600, "batch_size": 64, "test_size": 200}
    ds = train("supervised", designs(Supervised, section, "rows"), monkeypatch, prepared)
    assert ds["test_loss"].values.ravel()[-1] < ds["guess_loss"].item() / 5


def test_drawn_sequences_need_a_size_to_be_tested_on(prepared, monkeypatch):
    section = _section(TASKS["a value at the end"]) | {"test_size": 0}
    with pytest.raises(ValueError, match="adding draws its sequences; give test_size"):
        train("supervised", designs(Supervised, section, "rows"), monkeypatch, prepared)


@pytest.mark.parametrize("name", ["quick", "real", "paper"])
def test_the_texts_cells_are_rows_of_every_profile(name):
    groups = load_profile(name).designs
    for group in ("fast_slow", "pixels"):
        cells = {row.cell[0] for row in groups[group]}
        assert {"lem", "exponential"} <= cells
    assert "unicornn" in {row.cell[0] for row in groups["pixels"]}


def test_hours_are_counted_and_nothing_is_trained(prepared):
    rows = [
        row
        for row in load_profile("smoke").designs["fast_slow"]
        if row.task_label[0] == "author's solver"
    ]
    jobs = [job for row in rows[:2] for job in row.jobs()]
    (line,) = hours(jobs, prepared).itertuples(index=False)
    job = jobs[0]
    assert (line.task, line.jobs) == ("author's solver", len(jobs))
    assert (
        line.sequence_steps
        == len(jobs) * job.epochs * job.task["train_size"] * job.task["time_steps"]
    )
    assert line.hours > 0


def test_a_missing_data_set_hides_no_other_groups_hours(monkeypatch, capsys, tmp_path):
    profile = load_profile("smoke")
    few = {
        "vitals": profile.designs["vitals"][:1],
        "long_memory": profile.designs["long_memory"][:1],
    }
    monkeypatch.setattr(
        "lib.experiments.__main__.load_profile", lambda name: replace(profile, designs=few)
    )
    assert main(["smoke", "--hours", "--prepared", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert "run notebook 00 or `make repro`" in told.err
    assert " 1 jobs" in told.out and "sequence steps" in told.out
