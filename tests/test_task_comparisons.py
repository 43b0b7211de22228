"""Tests between tasks: pairs, variances, times and error rates."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.analysis import comparisons, equality, task_models
from lib.analysis.attempts import TASK
from lib.results.published import load_published


def coefficients(estimates, errors, df=10, term="architecture", architecture="rnn"):
    tasks = [("d", "sequential", noise) for noise in ("none", "post", "uniform")] + [
        ("e", "sequential", "none")
    ]
    table = pd.DataFrame(tasks[: len(estimates)], columns=list(TASK))
    return table.assign(
        term=term,
        architecture=architecture,
        estimate=estimates,
        se=errors,
        robust_se=errors,
        weighted=estimates,
        weighted_se=errors,
        df=float(df),
    )


# Pairs


def test_a_pair_by_hand():
    pair = comparisons.compare_tasks(coefficients([1.0, 0.2], [0.1, 0.3], df=10)).iloc[0]
    assert pair["difference"] == pytest.approx(0.8)
    assert pair["se"] == pytest.approx(np.sqrt(0.01 + 0.09))
    df = 0.1**2 / (0.01**2 / 10 + 0.09**2 / 10)
    assert pair["df"] == pytest.approx(df)
    assert pair["p_value"] == pytest.approx(2 * stats.t.sf(0.8 / np.sqrt(0.1), df))
    assert pair["p_bonferroni"] == pair["p_value"], "one pair is a family of one"


def test_rejection_and_the_simultaneous_interval_agree():
    rng = np.random.default_rng(1)
    table = coefficients(rng.normal(0, 1, 4), rng.uniform(0.1, 0.5, 4))
    pairs = comparisons.compare_tasks(table)
    assert len(pairs) == 6
    assert (pairs["rejected"] == ((pairs["low"] > 0) | (pairs["high"] < 0))).all()
    assert 0 < pairs["rejected"].sum() < 6, "the case must show both"


def test_a_task_without_an_error_enters_no_pair_and_is_counted():
    table = coefficients([1.0, 0.0, 2.0, np.nan], [0.1, 0.1, np.nan, np.nan])
    pairs = comparisons.compare_tasks(table)
    counts = comparisons.count_rejections(table, pairs).iloc[0]
    assert len(pairs) == 1
    assert counts[["tasks", "tests", "untested", "rejected"]].tolist() == [2, 1, 5, 1]
    assert counts["share"] == 1


def test_nothing_to_compare_is_counted_and_has_no_share():
    table = coefficients([1.0, 0.0], [np.nan, np.nan])
    counts = comparisons.count_rejections(table, comparisons.compare_tasks(table)).iloc[0]
    assert counts[["tests", "untested", "rejected"]].tolist() == [0, 1, 0]
    assert np.isnan(counts["share"])


def test_families_have_their_own_pairs_and_corrections():
    table = coefficients([1.0, 0.0, 2.0, 1.5], [0.1] * 4)
    found = comparisons.rejections_by_family(table).set_index("family")
    assert found["tests"].to_dict() == {"T_f": 6, "T_o": 1, "T_d": 3}


# Variances


GROUPS = [
    np.array([1.0, 2.0, 4.0, 9.0]),
    np.array([3.0, 3.5, 4.5]),
    np.array([8.0, 2.0, 5.0, 5.5, 7.0]),
]


def test_f_star_by_its_formula():
    n = np.array([4, 3, 5])
    means, variances = (
        np.array([f(group) for group in GROUPS]) for f in (np.mean, lambda g: g.var(ddof=1))
    )
    grand = np.concatenate(GROUPS).mean()
    c = (1 - n / 12) * variances
    expected = (n * (means - grand) ** 2).sum() / c.sum()
    df = 1 / ((c / c.sum()) ** 2 / (n - 1)).sum()
    found = equality.f_star(GROUPS)
    np.testing.assert_allclose(found, [expected, 2, df, stats.f.sf(expected, 2, df)])


def test_levene_is_an_analysis_of_the_deviations_from_the_median():
    z = [np.abs(group - np.median(group)) for group in GROUPS]
    expected = stats.f_oneway(*z)
    found = equality.levene(GROUPS)
    np.testing.assert_allclose(found, [expected.statistic, 2, 9, expected.pvalue])


def test_f_star_of_deviations_tells_variances_and_not_means_apart():
    rng = np.random.default_rng(2)
    moved = [rng.normal(place, 1, 40) for place in (0, 5, 10)]
    spread = [rng.normal(0, scale, 40) for scale in (1, 3, 9)]
    assert equality.f_star(moved)[3] < 1e-6 < 0.01 < equality.f_star_of_deviations(moved)[3]
    assert equality.f_star_of_deviations(spread)[3] < 1e-6


def made_up(replicates, constant=False):
    rows = [
        (architecture, "d", order, "none", replicate)
        for architecture in ("rnn", "gru")
        for order in ("sequential", "permuted", "reversed")
        for replicate in range(replicates)
    ]
    frame = pd.DataFrame(rows, columns=["architecture", *TASK, "replicate"])
    values = np.random.default_rng(3).normal(size=len(frame))
    return frame.assign(task_accuracy=0.5 if constant else values, left_out="")


def test_two_attempts_deviate_equally_from_their_median_so_there_is_no_levene_test():
    table = equality.compare_variances(made_up(2)).set_index(["architecture", "test"])
    assert table.loc[("rnn", "f_star"), "cause"] == ""
    assert table.loc[("rnn", "levene"), "cause"] == (
        "0 of 3 tasks have 3 attempts; a comparison needs two such tasks"
    )
    assert np.isnan(table.loc[("rnn", "levene"), "p_value"])


def test_no_variation_and_no_attempts_have_causes():
    flat = equality.compare_variances(made_up(4, constant=True))
    assert set(flat["cause"]) == {"no variation within the tasks"}
    gone = made_up(4)
    gone["left_out"] = np.where(gone["architecture"] == "rnn", "diverged", "")
    table = equality.compare_variances(gone).set_index(["architecture", "test"])
    assert table.loc[("rnn", "f_star"), "cause"].startswith("0 of 3 tasks have 2 attempts")
    assert table.loc[("gru", "f_star"), "p_bonferroni"] == table.loc[("gru", "f_star"), "p_value"]


def test_bonferroni_counts_the_architectures_tested():
    table = equality.compare_variances(made_up(4))
    expected = (2 * table["p_value"]).clip(upper=1)
    np.testing.assert_allclose(table["p_bonferroni"], expected)


# Times and rates


def times(epochs, architecture="rnn"):
    rows = [
        (architecture, "d", order, "none", epoch)
        for order, group in zip(("sequential", "permuted"), epochs, strict=True)
        for epoch in group
    ]
    return pd.DataFrame(rows, columns=["architecture", *TASK, "epochs"])


@pytest.mark.parametrize(
    ("epochs", "cause"),
    [
        (([1, 2], [2, 3]), ""),
        (([3, 3], [3, 3]), "every attempt took 3 epochs"),
        (([1], [2]), "one attempt at each task: nothing tells tasks from replicates"),
        (([1, 2], []), "attempts entered at fewer than two tasks"),
    ],
)
def test_times_that_can_and_cannot_be_compared(epochs, cause):
    table = times(epochs)
    found = equality.compare_times(times(([1], [1])), table).iloc[0]
    assert found["cause"] == cause
    assert np.isnan(found["p_value"]) == bool(cause)


def design(diverged, entered=20):
    rows = []
    for architecture, counts in diverged.items():
        for order, count in zip(("sequential", "permuted"), counts, strict=True):
            status = ["diverged"] * count + ["completed"] * (entered - count)
            rows += [(architecture, "d", order, "none", one) for one in status]
    return pd.DataFrame(rows, columns=["architecture", *TASK, "status"])


def test_error_rates_over_tasks():
    table = equality.compare_error_rates(design({"rnn": (0, 15), "gru": (5, 6), "lstm": (0, 0)}))
    table = table.set_index("architecture")
    assert table.loc["rnn", "statistic"] == pytest.approx(
        stats.chi2_contingency([[0, 15], [20, 5]], correction=False).statistic
    )
    assert table["rejected"].tolist()[:2] == [True, False]
    assert table.loc["lstm", "cause"] == "no attempt diverged"
    assert table.loc["gru", "p_bonferroni"] == min(1, 2 * table.loc["gru", "p_value"])


def test_error_rates_of_equal_results_are_equal():
    made = design({"rnn": (1, 4)})
    pd.testing.assert_frame_equal(
        equality.compare_error_rates(made), equality.compare_error_rates(made)
    )


# Verdicts


def test_the_effects_of_table_1_4():
    terms = ["intercept", "architecture", "training length", "architecture × log(learning rate)"]
    found = task_models.effect_of(pd.DataFrame({"term": terms})).tolist()
    assert found == [
        "architecture",
        "architecture",
        "hyperparameters",
        "architecture x hyperparameters",
    ]
    assert set(found) <= set(load_published("diss-tab-1.4")["effect"])
