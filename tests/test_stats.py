"""Statistics on made-up results: hand-computed cases, and no attempt lost anywhere."""

import numpy as np
import pandas as pd
import pytest
from synthetic_results import LEVELS, make_results

from lib.analysis import attempts, quartiles, regimes, selection
from lib.analysis.errors import error_rates
from lib.results.factorial import empty

TASK = list(attempts.TASK)
NONE = {"order": "sequential", "noise": "none"}


@pytest.fixture(scope="module")
def ds():
    return make_results()


@pytest.fixture(scope="module")
def training(ds):
    return attempts.epochs(ds, "train")


# attempts


def test_every_attempt_and_every_epoch_has_one_row(ds, training):
    frame, evaluation = attempts.attempts(ds), attempts.terminal(ds)
    assert len(frame) == ds["status"].size
    assert not frame.duplicated([*attempts.TREATMENT, "replicate"]).any()
    counts = attempts.count_status(frame)
    assert counts["planned"] == counts["entered"] + counts["missing"]
    assert counts["entered"] == counts["completed"] + counts["diverged"]
    assert min(counts.values()) > 0, "the made-up results must hold every status"
    assert len(training) == int(ds["epochs_completed"].sum())
    assert "diverged" in set(training["status"]), "epochs before a divergence count"
    assert training[["loss", "accuracy"]].notna().all(axis=None)
    assert len(evaluation) == int((ds["status"] == 0).sum())
    assert (evaluation["epoch"] == evaluation["training_length"]).all()
    assert set(evaluation["epoch"]) == {2, 3}


def test_a_row_carries_the_values_of_its_own_attempt(ds, training):
    row = training.iloc[len(training) // 2]
    point = {factor: row[factor] for factor in (*attempts.TREATMENT, "replicate", "epoch")}
    point = ds.sel(point).sel(split="train")
    assert row["accuracy"] == point["accuracy"].item()
    assert row["loss"] == point["loss"].item()
    expected = point["adjoint_first"].item() - point["adjoint_last"].item()
    assert row["metric"] == expected or (np.isnan(row["metric"]) and np.isnan(expected))


# errors


def test_error_rates_of_a_hand_made_case():
    status = ["diverged"] * 3 + ["completed"] * 7 + ["missing"] * 2
    status += ["completed"] * 2 + ["missing"]
    frame = pd.DataFrame({"architecture": ["rnn"] * 12 + ["gru"] * 2 + ["new"], "status": status})
    table = error_rates(frame, by=["architecture"]).set_index("architecture")
    assert table.index.tolist() == ["rnn", "gru", "new"]
    assert table.loc["rnn", ["entered", "diverged", "missing"]].tolist() == [10, 3, 2]
    assert table.loc["rnn", "error_rate"] == pytest.approx(0.3)
    # Wilson's interval by its formula, for 3 of 10 and z = 1.959964.
    z, p, n = 1.959963985, 0.3, 10
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    assert table.loc["rnn", "low"] == pytest.approx(centre - half)
    assert table.loc["rnn", "high"] == pytest.approx(centre + half)
    assert table.loc["gru", "error_rate"] == table.loc["gru", "low"] == 0 < table.loc["gru", "high"]
    assert table.loc["new", ["error_rate", "low", "high"]].isna().all()


def test_an_architecture_that_always_diverges_on_a_task_is_seen(ds):
    table = error_rates(attempts.attempts(ds), by=[*TASK, "architecture"])
    worst = table[table["error_rate"] == 1]
    assert ["digits", "permuted", "post", "lstm"] in worst[[*TASK, "architecture"]].values.tolist()


# regimes


def test_the_metric_of_zero_norms():
    first = np.array([-3.0, -np.inf, -1.0, -np.inf])
    last = np.array([-1.0, 0.0, -np.inf, -np.inf])
    found = regimes.adjoint_metric(first, last)
    np.testing.assert_array_equal(found, [-2.0, -np.inf, np.inf, np.nan])


def test_single_precision_keeps_a_lost_norm_at_its_smallest_number():
    first, last = [-3.0, -100.0, -np.inf, 60.0, -3.0], [-1.0, -1.0, -1.0, -1.0, -60.0]
    found = regimes.float32_metric(first, last, np.full(5, 100), batch_size=10)
    # 100 examples under the mean loss of 10: every norm is three orders smaller than their sum.
    assert found.tolist() == pytest.approx([-2, *[np.log10(1.4013e-45) + 4] * 2, np.inf, np.inf])
    assert np.isnan(regimes.float32_metric(60.0, 60.0, 1)), "infinity by infinity"


def test_regimes_include_their_borders_as_in_3_7():
    metric = np.array([-np.inf, -5.1, -5.0, -4.9, 0.0, 4.9, 5.0, np.inf, np.nan])
    expected = ["vanished"] * 3 + ["stable"] * 3 + ["exploded"] * 2 + ["undefined"]
    assert regimes.regimes(metric, 5.0).tolist() == expected


# quartiles


def rows_of_one_task(accuracies):
    return pd.DataFrame({"dataset": "digits", **NONE, "accuracy": accuracies})


def test_quartiles_of_a_hand_made_case():
    frame = rows_of_one_task([0.1, 0.2, 0.3, 0.4, 0.5])
    found = quartiles.thresholds(frame)["accuracy"].tolist()
    assert found == pytest.approx([0.2, 0.3, 0.4, 0.5])
    expected = ["Q0.25", "Q0.50", "Q0.75", "Q1.00", "Q1.00"]
    assert quartiles.quartiles(frame).tolist() == expected
    # Ties go up, and constant accuracy is all top.
    assert set(quartiles.quartiles(rows_of_one_task([0.5] * 7))) == {"Q1.00"}


def test_quartiles_are_relative_to_the_task():
    easy, hard = rows_of_one_task([0.8, 0.9]), rows_of_one_task([0.1, 0.2])
    frame = pd.concat([easy.assign(dataset="mnist"), hard]).sample(frac=1, random_state=0)
    named = quartiles.quartiles(frame)
    assert set(named[frame["accuracy"].isin([0.9, 0.2]).to_numpy()]) == {"Q1.00"}
    assert set(named[frame["accuracy"].isin([0.8, 0.1]).to_numpy()]) == {"Q0.25"}


# bad input


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (lambda ds: attempts.epochs(ds, "validation"), "validation"),
        (lambda _: regimes.regimes(np.array([1.0]), 0.0), "border"),
        (lambda _: regimes.regimes(np.array([1.0]), -1.0), "border"),
        (lambda _: regimes.regimes(np.array([1.0]), float("nan")), "border"),
        (
            lambda _: quartiles.thresholds(attempts.terminal(empty(LEVELS, profile="smoke"))),
            "measured",
        ),
    ],
)
def test_bad_input_is_refused(wrong, word, ds):
    with pytest.raises(ValueError, match=word):
        wrong(ds)


# selection


def test_one_row_per_architecture_by_the_stated_rule():
    frame = pd.DataFrame(
        {
            "architecture": ["lstm", "rnn", "rnn", "rnn", "lstm", "new"],
            "metric": [-np.inf, -3.0, 2.0, np.nan, -9.0, np.nan],
            "accuracy": [0.9, 0.5, 0.7, 0.8, 0.9, 0.2],
        }
    )
    near = selection.nearest_zero(frame)
    assert near[["architecture", "metric"]].values.tolist() == [["lstm", -9.0], ["rnn", 2.0]]
    ranked = frame.assign(worse=-frame["accuracy"], distance=frame["metric"].abs())
    best = selection.first_of_each(ranked, ["worse", "distance"])
    assert best["architecture"].tolist() == ["lstm", "rnn", "new"]
    assert best["accuracy"].tolist() == [0.9, 0.8, 0.2]
    assert best["metric"].iloc[0] == -9.0, "among equals the one nearest to zero"


def replicates(architecture, metrics, **factors):
    base = {"width": 4, "learning_rate": 0.1, "training_length": 2, "dataset": "imdb", **NONE}
    return pd.DataFrame(
        {
            "architecture": architecture,
            "replicate": range(len(metrics)),
            "metric": metrics,
            "accuracy": np.linspace(0, 1, len(metrics)),
            **(base | factors),
        }
    )


def choose(*frames):
    task = ("imdb", "sequential", "none")
    return selection.choose_treatment(pd.concat(frames), "rnn", task, 40.35)


def test_a_treatment_in_both_regimes_goes_before_a_wider_one():
    wide = replicates("rnn", [-1.0, -39.0], width=8)
    mixed = replicates("rnn", [-39.0, -41.0, -np.inf])
    rows, reason = choose(wide, mixed)
    assert set(rows["width"]) == {4}
    assert len(rows) == 3, "the replicate of infinite metric is shown too"
    assert "replicates in both regimes" in reason


def test_the_largest_spread_wins_among_equals():
    rows, reason = choose(replicates("rnn", [-1.0, -2.0]), replicates("rnn", [-1.0, -9.0], width=8))
    assert set(rows["width"]) == {8}
    assert "all replicates in one regime" in reason
    same = replicates("rnn", [-1.0, -90.0]).assign(accuracy=0.1)
    assert set(choose(same, replicates("rnn", [-1.0, -2.0], width=8))[0]["width"]) == {8}


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"dataset": "digits"}, "the same architecture, order and noise elsewhere"),
        ({"dataset": "digits", "noise": "post"}, "the same architecture on any task"),
        ({"architecture": "new"}, "any treatment"),
    ],
)
def test_fallbacks_of_the_treatment_are_named(other, words):
    rows, reason = choose(replicates(other.pop("architecture", "rnn"), [-1.0, -2.0], **other))
    assert len(rows) == 2
    assert words in reason


@pytest.mark.parametrize("metrics", [[-1.0], [-np.inf, -np.inf], [np.nan, -1.0]])
def test_a_single_usable_replicate_makes_no_treatment(metrics):
    rows, reason = choose(replicates("rnn", metrics))
    assert rows.empty
    assert reason.startswith("no treatment has two")
