"""Statistics on made-up results: hand-computed cases, and no attempt lost anywhere."""

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from statsmodels.stats.proportion import proportion_confint
from synthetic_results import LEVELS, empty, make_results

from lib.analysis import attempts, claims_factorial, regimes
from lib.results import quartiles

TASK = list(attempts.TASK)
NONE = {"order": "sequential", "noise": "none"}


@pytest.fixture(scope="module")
def ds():
    return make_results()


def test_attempts_are_counted_by_how_they_ended(ds):
    counts = attempts.count_status(attempts.attempts(ds))
    assert counts["planned"] == ds["status"].size == counts["entered"] + counts["missing"]
    assert counts["entered"] == counts["completed"] + counts["diverged"]
    assert min(counts.values()) > 0, "the made-up results must hold every status"


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


def test_the_metric_in_double_and_in_single_precision_and_its_regimes():
    first, last = np.array([-3, -np.inf, -1, -np.inf]), np.array([-1, 0, -np.inf, -np.inf])
    found = regimes.adjoint_metric(first, last)
    np.testing.assert_array_equal(found, [-2.0, -np.inf, np.inf, np.nan])
    first, last = [-3.0, -100.0, -np.inf, 60.0, -3.0], [-1.0, -1.0, -1.0, -1.0, -60.0]
    found = regimes.float32_metric(first, last, np.full(5, 1000 / 32))
    # As many examples under the mean loss of 32: every norm is three orders smaller than their sum.
    assert found.tolist() == pytest.approx([-2, *[np.log10(1.4013e-45) + 4] * 2, np.inf, np.inf])
    assert np.isnan(regimes.float32_metric(60.0, 60.0, 1)), "infinity by infinity"
    metric = np.array([-np.inf, -5.1, -5.0, -4.9, 0.0, 4.9, 5.0, np.inf, np.nan])
    expected = ["vanished"] * 3 + ["stable"] * 3 + ["exploded"] * 2 + ["undefined"]
    assert regimes.regimes(metric, 5.0).tolist() == expected


def test_quartiles_are_relative_to_the_task_and_ties_go_up():
    def of(accuracies, dataset):
        return pd.DataFrame({"dataset": dataset, **NONE, "accuracy": accuracies})

    one = of([0.1, 0.2, 0.3, 0.4, 0.5], "digits")
    bounds = quartiles.thresholds(one)["accuracy"].tolist()
    assert bounds == pytest.approx([0.2, 0.3, 0.4, 0.5])
    frame = pd.concat([one, of([0.5] * 7, "imdb"), of([0.8, 0.9], "mnist")])
    frame = frame.sample(frac=1, random_state=0)
    named = frame.assign(q=quartiles.quartiles(frame).to_numpy()).sort_values("accuracy")
    found = {dataset: rows["q"].tolist() for dataset, rows in named.groupby("dataset")}
    assert found == {
        "digits": ["Q0.25", "Q0.50", "Q0.75", "Q1.00", "Q1.00"],
        "imdb": ["Q1.00"] * 7,
        "mnist": ["Q0.25", "Q1.00"],
    }


NOT_MEASURED = empty(LEVELS, profile="x")
test_bad_input_is_refused = refused(
    ValueError,
    ("validation", lambda ds: attempts.epochs(ds, "validation")),
    ("border is 0.0; expected", lambda: regimes.regimes(np.ones(1), 0.0)),
    ("border is nan; expected", lambda: regimes.regimes(np.ones(1), np.nan)),
    ("measured", lambda: quartiles.thresholds(attempts.terminal(NOT_MEASURED))),
)


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


def replicates(metrics, **factors):
    base = {"width": 4, "learning_rate": 0.1, "training_length": 2, "dataset": "imdb", **NONE}
    base |= {"architecture": "rnn", "accuracy": np.linspace(0, 1, len(metrics))}
    return pd.DataFrame({"replicate": range(len(metrics)), "metric": metrics} | base | factors)


WIDE = replicates([-1.0, -39.0], width=8)


@pytest.mark.parametrize(
    ("metrics", "factors", "beside", "width", "count", "words"),
    [
        # A treatment in both regimes goes before a wider one, and its replicate of infinite metric is shown too.
        ([-39.0, -41.0, -np.inf], {}, WIDE, 4, 3, "replicates in both regimes"),
        ([-39.0], {}, WIDE, 8, 2, "all replicates in one regime"),
        ([-1.0, -90.0], {"accuracy": 0.1}, WIDE, 8, 2, "of the text"),
        ([-1.0, -2.0], {"dataset": "digits"}, None, 4, 2, "same architecture, order and noise"),
        ([-1, -2], {"dataset": "digits", "noise": "post"}, None, 4, 2, "same architecture on any"),
        ([-1.0, -2.0], {"architecture": "new"}, None, 4, 2, "any treatment"),
        ([-np.inf, -np.inf], {}, None, None, 0, "no treatment has two"),
        ([np.nan, -1.0], {}, None, None, 0, "no treatment has two"),
    ],
)
def test_the_treatment_of_figure_3_5_and_the_reason_for_it(
    metrics, factors, beside, width, count, words
):
    frame = pd.concat([beside, replicates(metrics, **factors)])
    task = ("imdb", "sequential", "none")
    rows, reason = claims_factorial.choose_treatment(frame, "rnn", task, 40.35)
    assert set(rows["width"]) == ({width} if width else set()) and len(rows) == count
    assert words in reason
