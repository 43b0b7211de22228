"""Rows of params.yaml become runs, and what varies becomes coordinates of their dataset."""

import json

import numpy as np
import pytest
import torch
from designs import fail_after, loaded, make_run, one_job, single_job, train
from study.config.network import Network
from study.results.datasets import load
from study.results.netcdf import ResultsError
from study.results.rows import REAL_PARTS, schema
from study.results.schema import COMPLETED, DIVERGED
from study.tasks import Split, Task
from study.training.datasets import to_dataset
from study.training.model import build_model
from study.training.plans import plan_jobs
from study.training.probe import _EIGENVALUE_SEQUENCES
from study.training.scores import evaluate, sequence_scores
from study.training.seeds import torch_seed

FOUR = [
    ("LEM", "lem", {"dt": 0.3}),
    ("UnICORNN", "unicornn", {"layers": 2, "dt": [0.2, 0.4], "alpha": 3.0, "dropout": 0.1}),
    ("chrono-LSTM", "chrono_lstm", {"chrono": 20}),
    ("expRNN", "exponential", {"start": "author"}),
]
"""Label, cell and settings of four networks."""
TASKS = {
    "a class at the end": {"task": "pixels", "dataset": "digits", "order": "lem", "train_size": 64},
    "a value at every step": {
        "task": "fast_slow", "time_steps": 15, "train_size": 8, "validation_size": 4, "test_size": 4
    },
    "a class at every step": {"task": "copying", "delay": 5},
    "a value at the end": {"task": "adding", "time_steps": 6},
}  # fmt: skip


def _runs(task, networks, **more):
    """Return the runs of some networks on a task; a network's settings win over `more`."""
    spec = TASKS[task]
    drawn = spec["task"] in ("adding", "copying")
    length = {"steps": 6, "test_draws": 16} if drawn else {"epochs": 2}
    shared = {"width": 6, "learning_rate": 0.01, "batch_size": 8, "records": 2} | length | more
    runs = []
    for label, cell, settings in networks:
        settings = dict(settings)
        changed = settings.pop("task_settings", {})
        runs.append(make_run(label, cell, spec | changed, **(shared | settings)))
    return runs


def _train(prepared, task, networks, **more):
    return train(_runs(task, networks, **more), prepared)


@pytest.mark.parametrize("task", TASKS)
def test_four_rows_train_four_networks_on_any_task(task, prepared, tmp_path):
    ds = _train(prepared, task, FOUR)
    assert ds["label"].values.tolist() == [label for label, *_ in FOUR]
    assert (ds["status"] == COMPLETED).all()
    for name in ("train_loss", "test_loss", "test_metric", "guess_loss", "guess_metric"):
        assert np.isfinite(ds[name]).all(), name
    assert len(set(ds["test_loss"].isel(record=0, replicate=0).values.tolist())) == 4
    assert ds["alpha"].values[1] == 3.0 and np.isnan(ds["alpha"].values[0])
    assert ds["start"].values.tolist() == ["paper"] * 3 + ["author"]
    assert json.loads(ds["dt_range"].values[1]) == [0.2, 0.4] and ds["dt"].values[0] == 0.3
    path = schema().save(ds, tmp_path / "rows.nc")
    assert load(path)["metric"].values.tolist() == ds["metric"].values.tolist()


def test_two_swept_factors_become_two_coordinates(prepared):
    rates = (0.01, 0.02, 0.03)
    networks = [
        (f"LEM, dt={dt}, rate={rate}", "lem", {"dt": dt, "learning_rate": rate})
        for dt in (0.1, 0.2, 0.3)
        for rate in rates
    ]
    ds = _train(prepared, "a value at the end", networks)
    assert ds.sizes["run"] == 9 and (ds["status"] == COMPLETED).all()
    frame = ds[["dt", "learning_rate"]].to_dataframe()
    assert frame.groupby(["dt", "learning_rate"]).size().tolist() == [1] * 9
    assert len(set(ds["test_loss"].isel(record=-1).values.ravel())) == 9, "levels reach the cell"


def test_sequence_scores_are_those_of_the_best_record(prepared):
    more = {"width": 8, "learning_rate": 0.02, "records": 3, "epochs": 3}
    network = ("GRU", "gru", {"task_settings": {"validation_size": 16}})
    ds = _train(prepared, "a class at the end", [network], **more).squeeze()
    best = int(ds["validation_metric"].argmax("record"))
    assert float(ds["sequence_score"].mean()) == pytest.approx(float(ds["test_metric"][best]))
    values = _train(prepared, "a value at the end", [("GRU", "gru", {})]).squeeze()
    last = float(values["test_loss"][-1])
    assert float(values["sequence_score"].mean()) == pytest.approx(last, rel=1e-2)


@pytest.mark.parametrize(("measure", "kind"), [("penalty", "class"), ("gains", "target")])
def test_measures_that_need_another_target_are_refused(prepared, measure, kind):
    message = f"{measure} needs one {kind} per sequence; fast_slow has one value per time step"
    with pytest.raises(ValueError, match=message):
        _train(prepared, "a value at every step", [("GRU", "gru", {"measures": [measure]})])


def test_networks_of_one_task_see_the_same(prepared):
    # Without its start's step factors, as its cell is frozen.
    frozen = ("LEM", "lem", {"start": "author", "frozen": ["cell.*"]})
    assert (_train(prepared, "a class at the end", [frozen])["status"] == COMPLETED).all()
    networks = [("GRU", "gru", {}), ("GRU, fewer probes", "gru", {"probe_size": 63})]
    ds = _train(prepared, "a class at the end", networks)
    np.testing.assert_array_equal(ds["test_loss"][0], ds["test_loss"][1])
    again = _train(prepared, "a class at the end", [("GRU", "gru", {})], replicates=2)
    np.testing.assert_array_equal(again["test_loss"][:, 0], ds["test_loss"][:1, 0])
    assert not np.array_equal(again["test_loss"][:, 0], again["test_loss"][:, 1])


@pytest.mark.parametrize("measures", [["time_steps"], ["gains"]])
def test_measuring_does_not_move_the_draws_of_training(measures, prepared):
    lem = {"dt": 0.3, "input_dropout": 0.3}  # dropout draws from the same generator
    networks = [("LEM", "lem", lem), ("measured", "lem", lem | {"measures": measures})]
    assert np.array_equal(*_train(prepared, "a class at the end", networks)["test_loss"])


def test_gains_of_linear_networks_are_exact(prepared):
    network = ("linear", "linear_rnn", {"width": 1, "measures": ["gains"]})
    ds = _train(prepared, "a value at the end", [network]).squeeze()
    assert (ds["gain_last"].values != 0).all()
    np.testing.assert_allclose(ds["gain_first"], 5 * ds["gain_last"])  # of six


@pytest.mark.gpu
@pytest.mark.parametrize("group", ["activity", "adding", "coadjoint_gaps", "padding"])
def test_gpu_results_equal_those_of_the_cpu(group, prepared):
    for run in {run.label: run for run in loaded("smoke").designs[group]}.values():
        cpu, gpu = (single_job(run, device=name).train(prepared) for name in ("cpu", "cuda"))
        assert gpu.keys() == cpu.keys()
        np.testing.assert_allclose(gpu["test_loss"], cpu["test_loss"], rtol=1e-5)


def test_learned_task_ends_the_run_early(prepared):
    settings = {"width": 16, "learning_rate": 0.02, "stop_below": 0.03}
    network = ("GRU", "gru", settings | {"task_settings": {"time_steps": 3}})
    more = {"steps": 600, "records": 12, "batch_size": 64, "test_draws": 200}
    more["validation_draws"] = 200
    ds = _train(prepared, "a value at the end", [network], **more).squeeze()
    last = int(ds["records"]) - 1
    assert int(ds["status"]) == COMPLETED and int(ds["steps"]) < 600 and last < 11
    assert float(ds["validation_loss"][last]) < 0.03 < float(ds["validation_loss"][last - 1])
    assert float(ds["test_loss"][last]) < float(ds["guess_loss"]) / 5


@pytest.mark.parametrize("outputs", [1, 2])
def test_sequence_score_is_whether_the_class_is_right(outputs):
    rng = np.random.default_rng(0)
    part = Split(rng.random((30, 5, 1), np.float32), rng.integers(0, 2, 30))
    task = Task(name="a", kind="series", target="class", outputs=outputs, train=part, test=part)
    with torch_seed(np.random.SeedSequence(1)):
        model = build_model(task, Network(cell="gru", width=8))
    with torch.no_grad():
        logits = model(torch.from_numpy(part.inputs))
        model.output.bias -= logits.mean(0)  # both classes are answered
        one = (logits - logits.mean(0)).numpy()
    answers = one[:, 0] > 0 if outputs == 1 else one[:, 1] > one[:, 0]
    assert 0 < answers.sum() < 30
    actual = sequence_scores(model, task, part, batch_size=7)
    np.testing.assert_array_equal(actual, answers == part.targets)
    assert actual.mean() == pytest.approx(evaluate(model, task, part)[1], abs=1e-3)


@pytest.fixture(scope="module")
def padded(prepared):
    return train(loaded("smoke").designs["padding"], prepared)


def test_ways_of_training_are_rows_of_one_dataset(padded):
    one = padded.isel(replicate=0)
    methods = one.isel(run=(one["task"] == "digits Pad1x") & (one["label"] == one["network"]))
    assert set(methods["network"].values) == {
        "adjoint", "coadjoint", "constrained", "reservoir", "fixed_w", "lstm", "linear"
    }  # fmt: skip
    assert (padded["status"].isin([COMPLETED, 3])).all()
    losses = methods["test_loss"].isel(record=-1).values
    assert np.isfinite(losses).all() and len(set(losses.tolist())) == len(losses)
    assert np.isfinite(methods["adjoint_norm_first"].sel(stage="trained")).all()
    at = methods["objective"].to_series().to_numpy()
    assert dict(zip(methods["network"].values, at, strict=True))["constrained"] == "orthogonal"
    assert np.isnan(methods["kappa"].values[methods["network"].values == "adjoint"]).all()

    # A sweep without weight is backpropagation.
    def loss(label):
        actual = padded.isel(run=(padded["label"] == label) & (padded["padding"] == 1))
        return actual["test_loss"].isel(replicate=0).values

    assert np.array_equal(loss("sweep, initialization=orthogonal, kappa=0"), loss("adjoint"))
    assert not np.array_equal(loss("sweep, initialization=orthogonal, kappa=1"), loss("adjoint"))


def test_coadjoint_penalty_makes_adjoints_uniform():
    changes = {
        "width": 8, "task": {"task": "long_time_gap", "place": 3, "time_steps": 6}, "steps": 300,
        "records": 6, "batch_size": 50, "learning_rate": 0.01, "measure_size": 5, "test_draws": 200,
        "validation_draws": 200,
    }  # fmt: skip
    plain, bound = (
        one_job("coadjoint_gaps", **changes, **weight).train()
        for weight in ({"kappa": 0.0}, {"kappa": 3.0, "objective": "coadjoint"})
    )
    for actual in (plain, bound):
        assert actual["status"] == COMPLETED and actual["validation_metric"].max() == 1
        assert actual["state_norm"].shape == actual["adjoint_norm"].shape == (5, 6)
    spread = [actual["adjoint_norm"].std(axis=1).mean() for actual in (plain, bound)]
    assert spread[1] < 0.8 * spread[0] and len(bound["penalty"]) == 7
    assert "rnn/adjoints" in one_job("coadjoint_gaps", kappa=0.0).cells  # the penalty is measured


def test_records_include_start_and_end_of_training():
    job = one_job("adding")
    actual = job.train()
    many = one_job("adding", measure_size=16).train()
    assert (
        job.config.network.cell == "lu_rnn" and (actual["singular_values"] != 0).all()
    )  # its counter's are 0
    assert actual["step"].tolist() == [0, 2, 4] and actual["status"] == COMPLETED
    curve = actual["adjoint_curve"]
    assert curve.shape == (2, 51) and np.isfinite(curve).all()
    assert (curve[:, 0] != curve[:, 12]).all(), "the first time is the first step's"
    np.testing.assert_allclose(many["adjoint_curve"], actual["adjoint_curve"], atol=0.6)
    assert (actual["singular_values"][:, 0] >= actual["singular_values"][:, 1]).all()
    assert str(actual["metric"]) == "squared error"
    np.testing.assert_array_equal(actual["test_metric"], actual["test_loss"])


def test_eigenvalues_follow_the_first_sequences():
    settings = {"inner_steps": 2, "rank": 2, "length": 6, "train_eta": "time"}
    settings["measures"] = ["eigenvalues"]
    actual = []
    for size in (0, _EIGENVALUE_SEQUENCES):  # of sixteen that are drawn
        network = ("iRNN", "irnn", settings)
        (run,) = _runs("a value at the end", [network], measure_size=size)
        actual.append(single_job(run).train())
    for name in ("eigenvalue_sign", "eigenvalue_share"):
        np.testing.assert_array_equal(*(one[name] for one in actual))
    ds = to_dataset("smoke", [run], plan_jobs([run]), actual[:1])
    shares = ds["eigenvalue_share"].squeeze()
    np.testing.assert_allclose(shares.sum("real_part"), 1)
    assert shares["real_part"].values.tolist() == list(REAL_PARTS[:-1])
    assert not np.array_equal(*shares)


def test_infinite_loss_keeps_what_was_recorded(monkeypatch):
    fail_after(2, monkeypatch)
    actual = one_job("adding", measures=()).train()
    assert actual["status"] == DIVERGED and actual["steps"] == actual["step"][-1] == 2
    assert actual["records"] == len(actual["test_loss"]) == 2


def test_substitute_is_named_in_full(tmp_path):
    networks = [("LEM", "lem", {}), ("longer", "lem", {"task_settings": {"time_steps": 8}})]
    runs = _runs("a value at the end", networks)
    results = [single_job(run).train() for run in runs]
    texts = ["", "words, made up, which stand in for the publisher's"]
    results = [r | {"substitute": np.array(text)} for r, text in zip(results, texts, strict=True)]
    schema().save(to_dataset("smoke", runs, plan_jobs(runs), results), tmp_path / "group.nc")
    assert load(tmp_path / "group.nc")["substitute"].values.tolist() == texts


def test_a_dataset_with_a_hole_is_refused(padded):
    ds = padded.copy(deep=True)
    ds["test_loss"][0, 0, 0] = np.nan
    with pytest.raises(ResultsError, match="test_loss: expected values for exactly what was"):
        schema().validate(ds)
