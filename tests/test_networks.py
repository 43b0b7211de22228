"""Tables of networks: outcomes, networks that learned, and results that lack something."""

import math

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from evidence_for_judges import factorial, linear
from random_groups import RECORD, group_sampler
from study import notebook
from study.notebook import close_results, open_results
from study.results import networks
from study.results.data_used import data_and_length, has_stand_ins, longest_sequence
from study.results.learned import SIGNIFICANCE, above_chance, chance_bound, networks_learned
from study.results.netcdf import ResultsError
from study.results.runs import in_measure, run_table
from study.results.schema import DIVERGED

NOTEBOOK = {"notebook": "57_lem_adding", "result_set": "interactive"}


@pytest.fixture
def ds():
    """Three networks with two runs each; two differ in the learning rate, one run diverged."""
    scores = dict.fromkeys([("LEM", "first"), ("LEM", "made up"), ("LSTM", "made up")], 50.0)
    rng = np.random.default_rng(0)
    ds = group_sampler(scores, spread=1, guess=25.0, test_sequences=400, dt=[0.5, 0.5, 0.5])(rng, 2)
    ds = ds.assign_coords(run=["fast", "slow", "lstm"]).drop_dims("record")
    ds = ds.assign(
        learning_rate=("run", [0.1, 0.01, 0.01]),
        task=("run", ["made up"] * 3),
        records=2 * ds["records"] + 1,
        steps=30 * ds["steps"],
    )
    ds["status"][2, 1] = DIVERGED
    ds["records"][2, 1] = 1
    made = ds["records"] > xr.DataArray(range(3), dims="record")
    for name, curve in {
        "step": [10, 20, 30],
        "test_metric": [0.3, 0.6, 0.5],
        "validation_metric": [0.3, 0.5, 0.4],
        "test_loss": [1.2, 0.8, 0.9],
    }.items():
        every = xr.DataArray(curve, dims="record").where(made, 0 if name == "step" else np.nan)
        ds[name] = every.transpose(*RECORD)
    ds["validation_metric"][1] += 0.1
    ds["test_metric"][1, 1] += 0.2
    return ds.assign_attrs(schema="rows/1", profile="real")


def test_the_best_validated_record_counts(ds):
    rows = run_table(ds)
    first = rows[rows["run"] == "fast"].iloc[0]
    assert (first["test"], first["step"]) == (0.6, 20)
    lstm = rows[rows["label"] == "LSTM"]
    assert lstm["test"].tolist() == [0.6, 0.3] and lstm["completed"].tolist() == [True, False]
    # An error is better where it is smaller.
    ds["metric"] = ("run", ["rmse"] * 3)
    assert run_table(ds)[["step", "test_at_two_thirds"]].values.tolist()[:2] == [[10, 0.3]] * 2


@pytest.mark.parametrize(("records", "expected"), [(1, 0.1), (2, 0.2), (3, 0.2), (4, 0.3)])
def test_two_thirds_of_the_records_are_rounded_up(ds, records, expected):
    rising = xr.DataArray([0.1, 0.2, 0.3, 0.4], dims="record")
    made = records * (ds["records"] > 0)
    kept = rising.where(rising["record"] < made).transpose(*RECORD)
    ds = ds.drop_dims("record").assign(records=made, test_metric=kept, validation_metric=kept)
    rows = run_table(ds.assign(step=10 + 0 * kept))
    assert rows["test_at_two_thirds"].tolist() == [expected] * 6


def test_a_run_with_a_single_record_does_not_improve(ds):
    rows = run_table(ds)
    assert rows["improving"].tolist() == [False] * 6  # the best record is the second of three
    rising = ds.assign(validation_metric=ds["validation_metric"] + ds["step"])
    # The last run of the LSTM diverged after its first record.
    assert run_table(rising)["improving"].tolist() == [True] * 5 + [False]


def test_measures_of_a_loss_are_those_of_its_unit(ds):
    ds = ds.assign(test_loss=0 * ds["test_loss"] + 3 * math.log(2))  # 3 bits, 1 of 8 outcomes
    expected = {"bits": 3.0, "perplexity": 8.0, "cross entropy": 3 * math.log(2)}
    for measure, value in expected.items():
        measured = in_measure(ds, measure)
        assert measured["test_metric"].isel(record=0).values == pytest.approx(value)
        assert set(measured["metric"].values) == {measure}


def test_curves_have_one_row_for_each_record(ds):
    table = networks.curves(ds)
    counts = table.groupby(["label", "replicate"]).size()
    assert counts["LSTM"].tolist() == [3, 1]
    lstm = table[(table["label"] == "LSTM") & (table["replicate"] == 0)]
    assert lstm[["step", "value"]].to_numpy().tolist() == [[10, 0.3], [20, 0.6], [30, 0.5]]
    assert table["value"].notna().all()


def test_outcomes_are_means_with_their_spread(ds):
    table = networks.outcomes(ds)
    assert table["ours"].tolist() == pytest.approx([0.6, 0.7, 0.45])
    spreads = [0, *(np.std([0.6, other], ddof=1) for other in (0.8, 0.3))]
    assert table["spread"].tolist() == pytest.approx(spreads)
    assert table["n"].tolist() == [2, 2, 2] and table["diverged"].tolist() == [0, 0, 1]
    assert set(table["dt"]) == set(run_table(ds)["dt"]) == {0.5}, "factors stand beside"
    assert networks.chosen_rates(ds)["learning_rate"].values.tolist() == [0.01, 0.01]


def test_the_scale_has_the_steps_of_runs_that_completed(ds):
    ds["status"][2] = DIVERGED
    ds["steps"][2] = 1
    assert networks.scale_sentence(ds).endswith("sequences, 30 steps")
    ds["status"][:] = DIVERGED
    assert networks.scale_sentence(ds).endswith("sequences, 1 to 30 steps"), "none completed"


def test_the_scale_has_the_sequences_and_what_replaces_the_papers_data(ds):
    assert networks.scale_sentence(ds) == "profile real, 6 runs, 100 sequences, 30 steps"
    ds["sequences"][:] = [0, 5000, 200]
    ds["substitute"] = "run", ["", "a stand-in", "a stand-in"]
    sentence = "profile real, 6 runs, 200 to 5,000 sequences, 30 steps; a stand-in"
    assert networks.scale_sentence(ds) == sentence
    ds["sequences"][:] = 0
    assert ", drawn sequences, " in networks.scale_sentence(ds)


def test_data_and_lengths_are_named(ds):
    ds["task_settings"] = ("run", ['{"dataset": "mnist"}'] * 2 + ['{"task": "adding"}'])
    assert data_and_length(ds) == "MNIST; adding, 10 time steps"
    ds["time_steps"][:] = [250, 2000, 500]
    assert data_and_length(ds) == "MNIST; adding, 250 to 2,000 time steps"
    without = xr.Dataset(attrs={"settings": "{}"})
    assert (data_and_length(without), longest_sequence(without)) == ("", None)
    assert longest_sequence(ds) == 2000


def test_joining_published_results_keeps_every_row(ds):
    published = pd.DataFrame(
        {"network": ["quoted", "LEM"], "task": "made up", "published": [50.0, 92.3], "spread": 1.0}
    ).assign(parameters=[100, 91], note=["quoted", np.nan])
    table = networks.compare_with_published(networks.outcomes(networks.chosen_rates(ds)), published)
    assert table["network"].tolist() == ["quoted", "LEM", "LSTM"]
    assert table["ours"].tolist()[1:] == pytest.approx([70, 45]) and np.isnan(table["ours"][0])
    spreads = [np.std([60, other], ddof=1) for other in (80, 30)]
    assert table["spread"].tolist()[1:] == pytest.approx(spreads)
    assert table["note"].tolist() == ["quoted", "", ""]
    assert table["guess"][1] == 25 and table["diverged"].tolist()[1:] == [0, 1]


def test_a_run_without_a_record_counts_as_chance(ds):
    """The mean error of the first network is 1.5; with the largest error for chance, it lost."""
    rows = run_table(ds).assign(metric="error", test=np.nan, guess_metric=2.0)
    rows["validation"] = [np.nan, 1, 1.6, 1.6, 1.9, 1.9]
    assert networks.validated_best(rows, ["task"]) == {rows["run"][0]}


def test_an_error_worse_than_chance_counts_as_chance(ds):
    rows = run_table(ds).assign(metric="error", test=np.nan, guess_metric=2.0)
    rows["validation"] = [1, 1e9, 1.9, 1.9, 1.9, 1.9]
    assert networks.validated_best(rows, ["task"]) == {rows["run"][0]}


def test_of_runs_at_chance_the_one_with_the_better_median_counts(ds):
    """All count as being at chance; the first was chosen, which had the largest error.

    The metric at chance differs between runs in the last digits.
    """
    rows = run_table(ds).assign(metric="error", test=np.nan, guess_metric=2.0)
    rows["guess_metric"] += 1e-13 * np.arange(len(rows))
    rows["validation"] = [9.0, 9.0, 3.0, 1e9, 2.5, 2.6]
    assert networks.validated_best(rows, ["task"]) == {rows["run"][4]}


def test_the_first_record_below_a_threshold_counts(ds):
    actual = networks.steps_to(ds, 0.85)
    assert actual["steps"].tolist() == [20, 20, 20, 20, 20, np.inf]
    assert actual["before"].tolist() == [10, 10, 10, 10, 10, 10]
    assert actual["trained"].tolist() == [30, 30, 30, 30, 30, 10]


@pytest.mark.parametrize("tried", [1, 50])
def test_guessing_runs_are_rarely_above_chance(tried):
    best = np.random.default_rng(0).binomial(1000, 0.11, (20_000, tried)).max(axis=1) / 1000
    assert 0.02 < above_chance(best, 0.11, 1000, tried).mean() <= SIGNIFICANCE
    assert (best + 0.001 > chance_bound(0.11, 1000, tried)).mean() > 0.9 * SIGNIFICANCE
    assert (best > chance_bound(0.11, 1000, tried, level=0.5)).mean() > 0.3


RIGHT = "accuracy"
RMSE = "rmse"
LEARNED = [(RIGHT, 0.3075, False), (RIGHT, 0.4, True), (RMSE, 0.24, False), (RMSE, 0.2, True)]


@pytest.mark.parametrize(("metric", "actual", "learned"), LEARNED)
def test_a_group_learned_if_its_best_network_did(ds, metric, actual, learned):
    """An accuracy beyond chance, an error by a tenth."""
    ds["metric"] = ("run", [metric] * 3)
    ds["test_metric"][:] = ds["test_metric"].clip(max=actual) if metric == "accuracy" else actual
    assert networks_learned(ds) is learned


@pytest.mark.parametrize(
    ("learns", "expected"),
    [
        ([[1, 1, 1], [1, 0, 0]], True),
        ([[1, 1, 1], [0, 0, 0]], False),
        ([[1, 1, 0], [1, 0, 0]], False),
    ],
)  # fmt: skip
def test_a_factorial_needs_learning_on_most_tasks(learns, expected):
    """Most tasks are learned by some architecture, and each architecture learns somewhere."""
    ds = factorial(examples=500, architecture=["rnn", "gru"], dataset=list("abc"))
    there = xr.DataArray(learns, dims=("architecture", "dataset"))
    ds["accuracy"] = ds["accuracy"].fillna(0.6).where(there, 0.1)
    assert networks_learned(ds) is expected


@pytest.mark.parametrize(("above", "learned"), [(-0.01, False), (0.01, True)])
def test_linear_gaps_are_learned_above_chance(above, learned):
    ds = linear(np.random.default_rng(0)).assign_attrs(schema="linear_gaps/1")
    ds["accuracy"][:] = chance_bound(0.5, 4000, ds["accuracy"].size) + above
    assert networks_learned(xr.concat([ds] * 50, "place")) is learned


@pytest.mark.parametrize(("error", "learned"), [(0.009, True), (0.01, False)])
def test_latching_is_learned_by_one_run_below_the_tolerance(error, learned):
    about = {"schema": "latching/1", "settings": '{"tolerance": 0.01}'}
    errors = ("training", "horizon"), [[0.4, 0.5], [error, 0.5]]
    assert networks_learned(xr.Dataset({"error": errors}, attrs=about)) is learned


@pytest.mark.parametrize(("plain", "learned"), [([0.5, 0.5, 0.5], True), ([0.5, 0.5, 0.1], False)])
def test_interventions_are_learned_by_plain_backpropagation_at_all_locations(plain, learned):
    dims = ("cell", "treatment", "replicate", "location")
    accuracy = np.full((2, 2, 2, 3), 0.1)
    accuracy[:, 1] = 0.9  # with another treatment
    accuracy[1, 0, 1] = plain
    variables = {
        "test_accuracy": (dims, accuracy),
        "chance": (dims, np.full_like(accuracy, 0.1)),
        "test_sequences": (dims, np.full(accuracy.shape, 1000)),
    }
    about = {"schema": "interventions/1", "settings": "{}"}
    ds = xr.Dataset(variables, {"treatment": ["plain", "scaled"]}, about)
    assert networks_learned(ds) is learned


STAND_INS = [
    ("images, made up (stand-in for MNIST)", "mnist", True),
    ("", "digits", True),
    ("", "mnist", False),
    ("14,987 of 50,000 training images", "cifar10", False),  # a part of the paper's data
    ("windows cut anew from the recordings", "heart_rate", False),
]


@pytest.mark.parametrize(("substitute", "dataset", "expected"), STAND_INS)
def test_stand_ins_are_recognized(ds, substitute, dataset, expected):
    columns = {"substitute": substitute, "task_settings": f'{{"dataset": "{dataset}"}}'}
    assert has_stand_ins(ds.assign({k: ("run", [v] * 3) for k, v in columns.items()})) is expected


def test_results_without_a_needed_task_are_refused(ds, tmp_path, capsys, monkeypatch):
    ds["status"].attrs.update(flag_values=[0, 1, 2], flag_meanings="completed diverged missing")
    monkeypatch.setattr(notebook, "load", lambda _: ds.assign_attrs(settings="{}"))
    published_scale = {"time_steps": 10}
    path = tmp_path / "long_memory.nc"
    for asked, word in (
        ({"tasks": ("adding",)}, "57_lem_adding needs 'adding'; long_memory.nc holds"),
        ({"networks": ("LEM", "GRU")}, "needs 'GRU'; long_memory.nc holds LEM, LSTM"),
    ):
        with pytest.raises(ResultsError, match=word):
            open_results(path, tmp_path, **NOTEBOOK, **asked)
    results, made = open_results(path, tmp_path, **NOTEBOOK, published_scale=published_scale)
    close_results(results)
    assert "5 completed, 1 diverged, 0 missing" in capsys.readouterr().out
    assert made.published_scale and made.runs == 6
    with pytest.raises(ResultsError, match="1 runs of the design are missing"):
        close_results(results.assign(status=results["status"].where(results["status"] != 1, 2)))
