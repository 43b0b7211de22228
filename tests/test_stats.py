"""Statistics on made-up results: hand-computed cases, and no attempt lost anywhere."""

import numpy as np
import pandas as pd
import pytest
from synthetic_results import LEVELS, make_results

from lib.analysis import attempts, published_counts, quartiles, ranks, regimes, selection, tables
from lib.analysis.errors import error_rates
from lib.analysis.regimes import Border
from lib.results.factorial import empty
from lib.results.published import load_published

TASK = list(attempts.TASK)


@pytest.fixture(scope="module")
def ds():
    return make_results()


@pytest.fixture(scope="module")
def training(ds):
    return attempts.epochs(ds, "train")


@pytest.fixture(scope="module")
def evaluation(ds):
    return attempts.terminal(ds)


# attempts


def test_every_attempt_of_the_design_has_one_row(ds):
    frame = attempts.attempts(ds)
    assert len(frame) == ds["status"].size
    assert not frame.duplicated([*attempts.TREATMENT, "replicate"]).any()
    counts = attempts.count_status(frame)
    assert counts["planned"] == counts["entered"] + counts["missing"]
    assert counts["entered"] == counts["completed"] + counts["diverged"]
    assert min(counts.values()) > 0, "the made-up results must hold every status"


def test_epochs_are_exactly_those_measured(ds, training):
    assert len(training) == int(ds["epochs_completed"].sum())
    assert "diverged" in set(training["status"]), "epochs before a divergence count"
    assert training[["loss", "accuracy"]].notna().all(axis=None)


def test_a_row_carries_the_values_of_its_own_attempt(ds, training):
    row = training.iloc[len(training) // 2]
    point = ds.sel(
        {factor: row[factor] for factor in (*attempts.TREATMENT, "replicate", "epoch")}
    ).sel(split="train")
    assert row["accuracy"] == point["accuracy"].item()
    assert row["loss"] == point["loss"].item()
    expected = point["adjoint_first"].item() - point["adjoint_last"].item()
    assert row["metric"] == expected or (np.isnan(row["metric"]) and np.isnan(expected))


def test_an_unknown_split_is_refused(ds):
    with pytest.raises(ValueError, match="split is 'validation'; expected one of train, test"):
        attempts.epochs(ds, "validation")


def test_terminal_iterates_are_completed_attempts_at_their_own_last_epoch(ds, evaluation):
    assert len(evaluation) == int((ds["status"] == 0).sum())
    assert (evaluation["epoch"] == evaluation["training_length"]).all()
    assert set(evaluation["epoch"]) == {2, 3}


def test_planned_rows_count_every_attempt_of_the_design_with_all_its_epochs(ds):
    planned = attempts.planned_rows(ds)
    frame = attempts.attempts(ds)
    assert (frame["status"] != "completed").any()
    assert planned["attempts"].sum() == len(frame)
    assert planned["epochs"].sum() == frame["training_length"].sum()


# errors


def test_error_rates_of_a_hand_made_case():
    frame = pd.DataFrame(
        {
            "architecture": ["rnn"] * 12 + ["gru"] * 2 + ["new"],
            "status": ["diverged"] * 3
            + ["completed"] * 7
            + ["missing"] * 2
            + ["completed"] * 2
            + ["missing"],
        }
    )
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
    np.testing.assert_array_equal(
        regimes.adjoint_metric(first, last), [-2.0, -np.inf, np.inf, np.nan]
    )


def test_single_precision_keeps_a_lost_norm_at_its_smallest_number():
    first, last = [-3.0, -100.0, -np.inf, 60.0, -3.0], [-1.0, -1.0, -1.0, -1.0, -60.0]
    found = regimes.float32_metric(first, last, np.full(5, 100), batch_size=10)
    # 100 examples under the mean loss of 10: every norm is three orders smaller than their sum.
    assert found.tolist() == pytest.approx([-2, *[np.log10(1.4013e-45) + 4] * 2, np.inf, np.inf])
    assert np.isnan(regimes.float32_metric(60.0, 60.0, 1)), "infinity by infinity"


def test_borders_are_drawn_on_both_sides_of_zero():
    metric = np.linspace(-9, 9, 19)
    frame = pd.DataFrame({"metric": metric, "metric_float32": metric})
    figure, _ = regimes.plot_regimes(frame, {"text": Border(3.0)})
    for ax in figure.axes:
        assert {-3.0, 3.0} <= {float(line.get_xdata()[0]) for line in ax.lines}


def test_regimes_include_their_borders_as_in_3_7():
    metric = np.array([-np.inf, -5.1, -5.0, -4.9, 0.0, 4.9, 5.0, np.inf, np.nan])
    expected = ["vanished"] * 3 + ["stable"] * 3 + ["exploded"] * 2 + ["undefined"]
    assert regimes.regimes(metric, 5.0).tolist() == expected


@pytest.mark.parametrize("border", [0.0, -1.0, float("nan")])
def test_a_border_must_be_above_zero(border):
    with pytest.raises(ValueError, match="border is"):
        regimes.regimes(np.array([1.0]), border)


def test_the_own_border_is_the_largest_finite_metric_of_completed_attempts():
    frame = pd.DataFrame(
        {
            "status": ["completed", "completed", "completed", "diverged"],
            "metric": [-50.0, 7.5, np.inf, 90.0],
        }
    )
    assert regimes.own_border(frame) == 7.5
    found = regimes.borders(frame)
    assert found["text"] == (regimes.published_border(), "metric") and found["own"].value == 7.5
    assert found["float32"] == (regimes.published_border(), "metric_float32")


def test_results_without_a_growing_gradient_have_no_own_border():
    frame = pd.DataFrame({"status": ["completed"], "metric": [-np.inf]})
    assert np.isnan(regimes.own_border(frame))
    assert list(regimes.borders(frame)) == ["text", "float32"]


# quartiles


def rows_of_one_task(accuracies):
    return pd.DataFrame(
        {
            "dataset": "digits",
            "order": "sequential",
            "noise": "none",
            "accuracy": accuracies,
        }
    )


def test_quartiles_of_a_hand_made_case():
    frame = rows_of_one_task([0.1, 0.2, 0.3, 0.4, 0.5])
    found = quartiles.thresholds(frame)["accuracy"].tolist()
    assert found == pytest.approx([0.2, 0.3, 0.4, 0.5])
    assert quartiles.quartiles(frame).tolist() == [
        "Q0.25",
        "Q0.50",
        "Q0.75",
        "Q1.00",
        "Q1.00",
    ]


def test_ties_go_up_and_constant_accuracy_is_all_top():
    assert set(quartiles.quartiles(rows_of_one_task([0.5] * 7))) == {"Q1.00"}


def test_quartiles_are_relative_to_the_task():
    easy, hard = rows_of_one_task([0.8, 0.9]), rows_of_one_task([0.1, 0.2])
    frame = pd.concat([easy.assign(dataset="mnist"), hard]).sample(frac=1, random_state=0)
    named = quartiles.quartiles(frame)
    assert set(named[frame["accuracy"].isin([0.9, 0.2]).to_numpy()]) == {"Q1.00"}
    assert set(named[frame["accuracy"].isin([0.8, 0.1]).to_numpy()]) == {"Q0.25"}


def test_nothing_measured_is_one_clear_sentence():
    none = attempts.terminal(empty(LEVELS, profile="smoke"))
    with pytest.raises(ValueError, match="no attempt was measured"):
        quartiles.thresholds(none)


def test_count_keeps_empty_combinations_and_can_count_attempts():
    frame = pd.DataFrame({"kind": ["a", "a", "a"], "attempt": [1, 1, 2]})
    levels = {"kind": ["b", "a"]}
    assert quartiles.count(frame, levels)["count"].tolist() == [0, 3]
    assert quartiles.count(frame, levels, distinct="attempt")["count"].tolist() == [
        0,
        2,
    ]


# tables


@pytest.mark.parametrize("which", ["training", "evaluation"])
def test_tables_count_every_observation_once(which, ds, request):
    frame = request.getfixturevalue(which)
    borders = {"text": Border(40.35), "own": Border(10.0)}
    levels = tables.task_levels(ds)
    cells = ds.sizes["dataset"] * ds.sizes["order"] * ds.sizes["noise"] * ds.sizes["architecture"]
    vanished = tables.vanished_by_quartile(frame, levels, borders)
    top = tables.top_quartile_by_regime(frame, levels, borders)
    assert len(vanished) == cells * 4 and len(top) == cells * 4
    for name, border in borders.items():
        expected = (frame["metric"] <= -border.value).sum()
        assert vanished[f"rows_{name}"].sum() == expected > 0
        assert top[f"rows_{name}"].sum() == (quartiles.quartiles(frame) == quartiles.TOP).sum()
    fewer = vanished["attempts_text"] <= vanished["rows_text"]
    assert fewer.all()
    if which == "evaluation":
        assert (vanished["attempts_text"] == vanished["rows_text"]).all()
    # The text's own agreement of A4 with A6 and of A5 with A7 must hold for ours.
    pairs = vanished[vanished["quartile"] == "Q1.00"].merge(
        top[top["regime"] == "vanished"], on=[*TASK, "architecture"]
    )
    assert (pairs["rows_text_x"] == pairs["rows_text_y"]).all()


def test_the_design_of_the_text_has_1400_attempts_a_task():
    design = tables.text_design()
    assert design["attempts"] * 7 == 1400
    assert design["epochs"] * 7 == 1400 / 2 * (25 + 50)


def test_compare_gives_shares_of_each_design(ds, evaluation):
    levels = tables.task_levels(ds)
    counted = tables.vanished_by_quartile(evaluation, levels, {"text": Border(40.35)})
    table = tables.compare(
        counted, load_published("diss-tab-A5"), attempts.planned_rows(ds), "attempts"
    )
    assert len(table) == len(counted)
    assert table.loc[table["dataset"] == "digits", "published"].isna().all()
    assert table.loc[table["architecture"] == "brandnew", "published"].isna().all()
    row = table.query("dataset == 'imdb' and architecture == 'rnn' and noise == 'post'").iloc[0]
    assert row["published_share"] == row["published"] / 200
    assert table["ours_share"].dropna().between(0, 1).all()


def test_table_3_4_sums_table_a5_and_is_published_for_the_five_data_sets_alone(ds, evaluation):
    planned = attempts.planned_rows(ds)
    counted = tables.vanished_by_quartile(
        evaluation, tables.task_levels(ds), {"text": Border(40.35), "own": Border(5.0)}
    )
    compared = tables.compare(counted, load_published("diss-tab-A5"), planned, "attempts")
    table = tables.by_task_type(compared, planned, evaluation)
    assert table["quartile"].tolist() == [
        name for name in quartiles.QUARTILES[::-1] for _ in range(6)
    ]
    assert table["ours"].sum() == counted["rows_text"].sum()
    assert table["rows_own"].sum() == counted["rows_own"].sum()
    assert table["planned"].sum() == planned["attempts"].sum() * 4
    assert table["evaluated"].sum() == len(evaluation) * 4
    assert table["published"].isna().all()
    imdb = load_published("diss-tab-A5").query(
        "dataset == 'imdb' and architecture in ('rnn', 'lstm')"
    )
    assert table["published_A5"].sum() == imdb["count"].sum()


def test_table_3_4_of_the_text_s_data_sets_has_the_published_counts():
    five = load_published("diss-tab-A5")["dataset"].unique().tolist()
    ds = make_results(dataset=five, replicate=[0])
    planned = attempts.planned_rows(ds)
    evaluation = attempts.terminal(ds)
    counted = tables.vanished_by_quartile(
        evaluation, tables.task_levels(ds), {"text": Border(40.35)}
    )
    compared = tables.compare(counted, load_published("diss-tab-A5"), planned, "attempts")
    table = tables.by_task_type(compared, planned, evaluation)
    assert table["published_evaluated"].drop_duplicates().sum() == 29632
    assert table["published"].sum() == load_published("diss-tab-3.4")["count"].sum()
    first = table.iloc[0]
    assert first["published_share"] == pytest.approx(first["published"] / 7000)


def test_the_published_tables_agree_where_the_text_has_one_count_twice():
    assert published_counts.shared_cells("A4", "A6")["equal"] == 210
    shared = published_counts.shared_cells("A5", "A7")
    assert shared["equal"] == shared["cells"] == 210 and shared["apart"] == 29
    agreement = published_counts.sums_of_a5()
    assert agreement["quartile"].iloc[0] == quartiles.TOP
    assert agreement["ours"].iloc[0] == 114 and agreement["published"].iloc[0] == 113
    # More than the 1,400 attempts of a task: the rows of Table A4 are epochs.
    assert published_counts.busiest_task("A4") > 1400 > published_counts.busiest_task("A5")


def test_sentences_about_tables():
    frame = pd.DataFrame(
        {
            "order": ["sequential", "permuted", "permuted"],
            "noise": ["none", "none", "none"],
            "quartile": ["Q1.00", "Q1.00", "Q0.25"],
            "count": [3, 0, 9],
        }
    )
    assert tables.task_types_above_zero(frame, "count", ["Q1.00"]) == "1 of 2"
    regime = pd.DataFrame({"regime": ["stable", "vanished"], "count": [750, 250]})
    assert tables.vanished_share(regime, "count") == "25.0% of 1,000"
    assert tables.vanished_share(regime.assign(count=0), "count") == "none of 0"


def test_regime_shares_add_up_for_every_architecture(training):
    table = regimes.regime_shares(training, {"text": Border(40.35), "own": Border(5.0)})
    sums = table.groupby(["border", "architecture"])[["epochs", "share"]].sum()
    assert len(sums) == 2 * training["architecture"].nunique()
    assert sums["share"].to_numpy() == pytest.approx(1)
    assert sums.loc["own", "epochs"].sum() == len(training)
    vanished = table.query("border == 'text' and regime == 'vanished'")["epochs"].sum()
    assert vanished == (training["metric"] <= -40.35).sum()


def test_both_views_of_the_metric_have_every_row(training):
    table = regimes.compare_views(training).set_index("view")
    assert (table["rows"] == len(training)).all()
    assert table.loc["float32", "zero"] == 0 == table.loc["true", "clamped"]
    # A zero whose last norm is no zero is clamped.
    assert 0 < table.loc["true", "zero"] <= table.loc["float32", "clamped"]
    assert table.loc["float32", "smallest"] > table.loc["true", "smallest"]


# selection


def test_the_task_of_the_text_is_taken_where_it_is(evaluation):
    task, reason = selection.choose_task(evaluation, ("imdb", "permuted", "uniform"))
    assert tuple(task.values()) == ("imdb", "permuted", "uniform")
    assert reason == "the task of the text"


def test_without_the_data_set_the_variation_is_kept(evaluation):
    task, reason = selection.choose_task(evaluation, ("mnist", "permuted", "uniform"))
    counts = evaluation.query("order == 'permuted' and noise == 'uniform'")[
        "dataset"
    ].value_counts()
    assert task["dataset"] == counts.idxmax()
    assert (task["order"], task["noise"]) == ("permuted", "uniform")
    assert "mnist is not among the completed attempts" in reason


def test_no_completed_attempt_is_one_clear_sentence(evaluation):
    with pytest.raises(ValueError, match="no attempt was completed"):
        selection.choose_task(evaluation.iloc[:0], ("mnist", "permuted", "uniform"))


def test_one_row_per_architecture_by_the_stated_rule():
    frame = pd.DataFrame(
        {
            "architecture": ["lstm", "rnn", "rnn", "rnn", "lstm", "new"],
            "metric": [-np.inf, -3.0, 2.0, np.nan, -9.0, np.nan],
            "accuracy": [0.9, 0.5, 0.7, 0.8, 0.9, 0.2],
        }
    )
    near = selection.nearest_zero(frame)
    assert near[["architecture", "metric"]].values.tolist() == [
        ["lstm", -9.0],
        ["rnn", 2.0],
    ]
    best = selection.most_accurate(frame)
    assert best["architecture"].tolist() == ["lstm", "rnn", "new"]
    assert best["accuracy"].tolist() == [0.9, 0.8, 0.2]
    assert best["metric"].iloc[0] == -9.0, "among equals the one nearest to zero"


def replicates(architecture, metrics, **factors):
    base = {
        "width": 4,
        "learning_rate": 0.1,
        "training_length": 2,
        "dataset": "imdb",
        "order": "sequential",
        "noise": "none",
    }
    return pd.DataFrame(
        {
            "architecture": architecture,
            "replicate": range(len(metrics)),
            "metric": metrics,
            "accuracy": np.linspace(0, 1, len(metrics)),
            **(base | factors),
        }
    )


TEXT_EXAMPLE = ("rnn", ("imdb", "sequential", "none"))


def test_a_treatment_in_both_regimes_goes_before_a_wider_one():
    wide = replicates("rnn", [-1.0, -39.0], width=8)
    mixed = replicates("rnn", [-39.0, -41.0, -np.inf])
    rows, reason = selection.choose_treatment(pd.concat([wide, mixed]), *TEXT_EXAMPLE, 40.35)
    assert set(rows["width"]) == {4}
    assert len(rows) == 3, "the replicate of infinite metric is shown too"
    assert "replicates in both regimes" in reason


def test_the_largest_spread_wins_among_equals():
    frame = pd.concat([replicates("rnn", [-1.0, -2.0]), replicates("rnn", [-1.0, -9.0], width=8)])
    rows, reason = selection.choose_treatment(frame, *TEXT_EXAMPLE, 40.35)
    assert set(rows["width"]) == {8}
    assert "all replicates in one regime" in reason


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"dataset": "digits"}, "the same architecture, order and noise elsewhere"),
        ({"dataset": "digits", "noise": "post"}, "the same architecture on any task"),
        ({"architecture": "new"}, "any treatment"),
    ],
)
def test_fallbacks_of_the_treatment_are_named(other, words):
    frame = replicates(other.pop("architecture", "rnn"), [-1.0, -2.0], **other)
    rows, reason = selection.choose_treatment(frame, *TEXT_EXAMPLE, 40.35)
    assert len(rows) == 2
    assert words in reason


@pytest.mark.parametrize("metrics", [[-1.0], [-np.inf, -np.inf], [np.nan, -1.0]])
def test_a_single_usable_replicate_makes_no_treatment(metrics):
    rows, reason = selection.choose_treatment(replicates("rnn", metrics), *TEXT_EXAMPLE, 40.35)
    assert rows.empty
    assert reason.startswith("no treatment has two")


def test_replicates_of_equal_accuracy_are_not_shown():
    frame = pd.concat(
        [
            replicates("rnn", [-1.0, -90.0]).assign(accuracy=0.1),
            replicates("rnn", [-1.0, -2.0], width=8),
        ]
    )
    rows, _ = selection.choose_treatment(frame, *TEXT_EXAMPLE, 40.35)
    assert set(rows["width"]) == {8}


# ranks


def test_rank_correlation_of_hand_made_cases():
    frame = pd.DataFrame({"metric": [-np.inf, -9.0, 1.0, np.nan], "accuracy": [0.9, 0.5, 0.2, 0.0]})
    assert ranks.rank_correlation(frame) == (pytest.approx(-1.0), 3)
    rho, n = ranks.rank_correlation(frame.iloc[:2])
    assert np.isnan(rho) and n == 2
    rho, n = ranks.rank_correlation(frame.assign(accuracy=0.5))
    assert np.isnan(rho) and n == 3
