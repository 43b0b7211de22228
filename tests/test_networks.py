"""What became of the networks of a published table."""

import numpy as np
import pandas as pd
import pytest
from lib.experiments.supervised import SCHEMA

from lib.analysis import networks
from lib.results.learned import networks_learned, stands_in
from lib.results.schema import COMPLETED, DIVERGED

TASK = '{"task": "made up"}'


@pytest.fixture
def ds():
    """Three networks, of which one differs in its learning rate alone, trained twice; one training diverged."""
    runs = ["LEM, lem, d=4, 0.1", "LEM, lem, d=4, 0.01", "LSTM, lstm, d=4, 0.01"]
    levels = {
        "run": runs,
        "replicate": [0, 1],
        "record": [0, 1, 2],
        "stage": ["untrained", "trained"],
    }
    ds = SCHEMA.empty(levels | {"scale": [0], "decade": [0.0]}, profile="quick", settings={})
    ds["label"][:] = ["LEM", "LEM", "LSTM"]
    ds["architecture"][:] = ["lem", "lem", "lstm"]
    ds["learning_rate"][:] = [0.1, 0.01, 0.01]
    ds["task_label"][:], ds["task"][:], ds["metric"][:] = "made up", TASK, "accuracy"
    ds["hyper_parameters"][:], ds["substitute"][:] = '{"dt": 0.5}', "a stand-in"
    ds["parameters"][:], ds["width"][:], ds["test_sequences"][:] = 90, 4, 400
    ds["guess_metric"][:], ds["guess_loss"][:] = 0.25, 1.4
    ds["status"][:], ds["records"][:], ds["steps"][:] = COMPLETED, 3, 30
    ds["step"][:] = [10, 20, 30]
    ds["test_metric"][:] = [0.3, 0.6, 0.5]
    ds["validation_metric"][:] = [0.3, 0.5, 0.4]
    ds["validation_metric"][1] += 0.1
    ds["test_metric"][1, 1] += 0.2
    ds["test_loss"][:] = ds["train_loss"][:] = [1.2, 0.8, 0.9]
    ds["status"][2, 1], ds["records"][2, 1] = DIVERGED, 1
    for name in ("step", "test_loss", "train_loss", "test_metric", "validation_metric"):
        ds[name][2, 1, 1:] = 0 if name == "step" else np.nan
    return SCHEMA.validate(ds)


def test_the_best_validated_record_counts(ds):
    rows = networks.trainings(ds)
    first = rows[rows["run"] == "LEM, lem, d=4, 0.1"].iloc[0]
    assert (first["test"], first["last"], first["step"]) == (0.6, 0.5, 20)
    lstm = rows[rows["label"] == "LSTM"]
    assert lstm["test"].tolist() == [0.6, 0.3] and lstm["completed"].tolist() == [True, False]


def test_an_error_is_better_where_it_is_smaller(ds):
    ds["metric"][:] = "rmse"
    assert networks.trainings(ds)["step"].tolist()[:2] == [10, 10]


def test_outcomes_are_means_with_their_spread(ds):
    table = networks.outcomes(ds)
    assert table["ours"].tolist() == pytest.approx([0.6, 0.7, 0.45])
    assert table["spread"].tolist() == pytest.approx(
        [0, np.std([0.6, 0.8], ddof=1), np.std([0.6, 0.3], ddof=1)]
    )
    assert table["n"].tolist() == [2, 2, 2] and table["diverged"].tolist() == [0, 0, 1]


def test_the_rate_that_validates_best_is_chosen(ds):
    assert networks.chosen_rates(ds)["learning_rate"].values.tolist() == [0.01, 0.01]


def test_every_row_of_ours_and_of_theirs_is_kept(ds):
    published = pd.DataFrame(
        {"network": ["quoted", "LEM"], "task": "made up", "published": [50.0, 92.3], "spread": 1.0}
    ).assign(parameters=[100, 91], note=["quoted", np.nan])
    ours = networks.outcomes(networks.chosen_rates(ds))
    table = networks.beside_published(ours, published)
    assert table["network"].tolist() == ["quoted", "LEM", "LSTM"]
    assert table["ours"].tolist()[1:] == pytest.approx([70, 45]) and np.isnan(table["ours"][0])
    assert table["note"].tolist() == ["quoted", "", ""]
    assert table["guess"][1] == 25


def test_the_first_record_below_a_threshold_counts(ds):
    found = networks.steps_to(ds, 0.85)
    assert found["steps"].tolist() == [20, 20, 20, 20, 20, np.inf]
    assert found["before"].tolist() == [10, 10, 10, 10, 10, 10]
    assert found["trained"].tolist() == [30, 30, 30, 30, 30, 10]


def test_hyper_parameters_are_read(ds):
    assert set(networks.hyper_parameter(ds, "dt")) == {0.5}
    assert set(networks.hyper_parameter(ds, "alpha")) == {None}


def test_the_scale_is_said(ds):
    said = networks.scale_sentence(ds)
    assert said == "profile quick, 6 trainings, drawn sequences, 30 steps; a stand-in"


@pytest.mark.parametrize(("best", "learned"), [(0.28, False), (0.4, True)])
def test_a_group_has_learned_where_its_best_network_is_above_guessing(ds, best, learned):
    ds["test_metric"][:] = ds["test_metric"].clip(max=best)
    assert networks_learned(ds) is learned


@pytest.mark.parametrize(("error", "learned"), [(0.24, False), (0.2, True)])
def test_values_must_be_a_tenth_below_the_error_of_guessing(ds, error, learned):
    ds["metric"][:] = "rmse"
    ds["test_metric"][:] = error
    assert networks_learned(ds) is learned


@pytest.mark.parametrize(
    ("substitute", "task", "expected"),
    [
        ("made up", TASK, True),
        ("", '{"task": "pixels", "dataset": "digits"}', True),
        ("", '{"task": "pixels", "dataset": "mnist"}', False),
    ],
)
def test_stand_ins_are_seen(ds, substitute, task, expected):
    ds["substitute"][:], ds["task"][:] = substitute, task
    assert stands_in(ds) is expected
