"""Statistics on made-up results: hand-computed cases, and no attempt lost anywhere."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint
from synthetic_results import LEVELS, empty, make_results

from lib.analysis import attempts, claims_factorial, regimes
from lib.results import quartiles

TASK = list(attempts.TASK)
NONE = {"order": "sequential", "noise": "none"}


@pytest.fixture(scope="module")
def ds():
    return make_results()


@pytest.fixture(scope="module")
def training(ds):
    return attempts.epochs(ds, "train")


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


def test_error_rates_of_a_hand_made_case(ds):
    status = ["diverged"] * 3 + ["completed"] * 7 + ["missing"] * 2
    status += ["completed"] * 2 + ["missing"]
    frame = pd.DataFrame({"architecture": ["rnn"] * 12 + ["gru"] * 2 + ["new"], "status": status})
    table = attempts.error_rates(frame, by=["architecture"]).set_index("architecture")
    assert table.index.tolist() == ["rnn", "gru", "new"]
    assert table.loc["rnn", ["entered", "diverged", "missing"]].tolist() == [10, 3, 2]
    expected = [0.3, *proportion_confint(3, 10, method="wilson")]
    assert table.loc["rnn", ["error_rate", "low", "high"]].tolist() == pytest.approx(expected)
    assert table.loc["gru", "error_rate"] == table.loc["gru", "low"] == 0 < table.loc["gru", "high"]
    assert table.loc["new", ["error_rate", "low", "high"]].isna().all()
    by_task = attempts.error_rates(attempts.attempts(ds), by=[*TASK, "architecture"])
    worst = by_task.loc[by_task["error_rate"] == 1, [*TASK, "architecture"]]
    assert ["digits", "permuted", "post", "lstm"] in worst.values.tolist()


def test_the_metric_of_zero_norms():
    first = np.array([-3.0, -np.inf, -1.0, -np.inf])
    last = np.array([-1.0, 0.0, -np.inf, -np.inf])
    found = regimes.adjoint_metric(first, last)
    np.testing.assert_array_equal(found, [-2.0, -np.inf, np.inf, np.nan])


def test_single_precision_keeps_a_lost_norm_at_its_smallest_number():
    first, last = [-3.0, -100.0, -np.inf, 60.0, -3.0], [-1.0, -1.0, -1.0, -1.0, -60.0]
    found = regimes.float32_metric(first, last, np.full(5, 1000 / 32))
    # As many examples under the mean loss of 32: every norm is three orders smaller than their sum.
    assert found.tolist() == pytest.approx([-2, *[np.log10(1.4013e-45) + 4] * 2, np.inf, np.inf])
    assert np.isnan(regimes.float32_metric(60.0, 60.0, 1)), "infinity by infinity"


def test_regimes_include_their_borders_as_in_3_7():
    metric = np.array([-np.inf, -5.1, -5.0, -4.9, 0.0, 4.9, 5.0, np.inf, np.nan])
    expected = ["vanished"] * 3 + ["stable"] * 3 + ["exploded"] * 2 + ["undefined"]
    assert regimes.regimes(metric, 5.0).tolist() == expected


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
    # They are relative to the task.
    easy, hard = rows_of_one_task([0.8, 0.9]), rows_of_one_task([0.1, 0.2])
    frame = pd.concat([easy.assign(dataset="mnist"), hard]).sample(frac=1, random_state=0)
    named = quartiles.quartiles(frame)
    assert set(named[frame["accuracy"].isin([0.9, 0.2]).to_numpy()]) == {"Q1.00"}
    assert set(named[frame["accuracy"].isin([0.8, 0.1]).to_numpy()]) == {"Q0.25"}


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (lambda ds: attempts.epochs(ds, "validation"), "validation"),
        *[
            (lambda _, at=at: regimes.regimes(np.ones(1), at), "border")
            for at in (0.0, -1.0, np.nan)
        ],
        (lambda _: quartiles.thresholds(attempts.terminal(empty(LEVELS, profile="x"))), "measured"),
    ],
)
def test_bad_input_is_refused(wrong, word, ds):
    with pytest.raises(ValueError, match=word):
        wrong(ds)


def test_one_row_per_architecture_by_the_stated_rule():
    frame = pd.DataFrame(
        {
            "architecture": ["lstm", "rnn", "rnn", "rnn", "lstm", "new"],
            "metric": [-np.inf, -3.0, 2.0, np.nan, -9.0, np.nan],
            "accuracy": [0.9, 0.5, 0.7, 0.8, 0.9, 0.2],
        }
    )
    near = claims_factorial.nearest_zero(frame)
    assert near[["architecture", "metric"]].values.tolist() == [["lstm", -9.0], ["rnn", 2.0]]
    ranked = frame.assign(worse=-frame["accuracy"], distance=frame["metric"].abs())
    best = claims_factorial.first_of_each(ranked, ["worse", "distance"])
    assert best["architecture"].tolist() == ["lstm", "rnn", "new"]
    assert best["accuracy"].tolist() == [0.9, 0.8, 0.2]
    assert best["metric"].iloc[0] == -9.0, "among equals the one nearest to zero"


def replicates(metrics, architecture="rnn", **factors):
    base = {"width": 4, "learning_rate": 0.1, "training_length": 2, "dataset": "imdb", **NONE}
    numbers = {"replicate": range(len(metrics)), "metric": metrics}
    numbers["accuracy"] = np.linspace(0, 1, len(metrics))
    return pd.DataFrame({"architecture": architecture, **numbers, **(base | factors)})


def two(**factors):
    return replicates([-1.0, -2.0], **factors)


MIXED = replicates([-39.0, -41.0, -np.inf])
WIDE = replicates([-1.0, -39.0], width=8)


@pytest.mark.parametrize(
    ("frames", "widths", "count", "words"),
    [
        # A treatment in both regimes goes before a wider one, and its replicate of infinite metric is shown too.
        ([WIDE, MIXED], {4}, 3, "replicates in both regimes"),
        ([two(), WIDE], {8}, 2, "all replicates in one regime"),
        ([replicates([-1.0, -90.0]).assign(accuracy=0.1), WIDE], {8}, 2, "of the text"),
        ([two(dataset="digits")], {4}, 2, "same architecture, order and noise"),
        ([two(dataset="digits", noise="post")], {4}, 2, "the same architecture on any task"),
        ([two(architecture="new")], {4}, 2, "any treatment"),
        *[
            ([replicates(metrics)], set(), 0, "no treatment has two")
            for metrics in ([-1.0], [-np.inf, -np.inf], [np.nan, -1.0])
        ],
    ],
)
def test_the_treatment_of_figure_3_5_and_the_reason_for_it(frames, widths, count, words):
    task = ("imdb", "sequential", "none")
    rows, reason = claims_factorial.choose_treatment(pd.concat(frames), "rnn", task, 40.35)
    assert set(rows["width"]) == widths and len(rows) == count
    assert words in reason
