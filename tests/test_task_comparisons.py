"""Tests between tasks: pairs, variances, times and error rates; their numbers are held to R's in `test_chapter1`."""

import numpy as np
import pandas as pd
import pytest

from lib.analysis import comparisons, task_models
from lib.analysis.attempts import TASK
from lib.results.published import load_published


def coefficients(estimates, errors, df=10.0):
    tasks = [("d", "sequential", noise) for noise in ("none", "post", "uniform")]
    tasks += [("e", "sequential", "none")]
    table = pd.DataFrame(tasks[: len(estimates)], columns=list(TASK))
    same = {"term": "architecture", "architecture": "rnn", "estimate": estimates, "se": errors}
    same |= {"robust_se": errors, "weighted": estimates, "weighted_se": errors, "df": df}
    return table.assign(**same)


def test_rejection_and_the_simultaneous_interval_agree():
    rng = np.random.default_rng(1)
    table = coefficients(rng.normal(0, 1, 4), rng.uniform(0.1, 0.5, 4))
    pairs = comparisons.compare_tasks(table)
    assert len(pairs) == 6
    assert (pairs["rejected"] == ((pairs["low"] > 0) | (pairs["high"] < 0))).all()
    assert 0 < pairs["rejected"].sum() < 6, "the case must show both"
    terms = ["intercept", "architecture", "training length", "architecture × log(learning rate)"]
    one, other, crossed = task_models.EFFECTS
    effects = task_models.effect_of(pd.DataFrame({"term": terms})).tolist()
    assert effects == [one, one, other, crossed]
    assert {one, other, crossed} <= set(load_published("diss-tab-1.4")["effect"])


@pytest.mark.parametrize(
    ("estimates", "errors", "counts", "share"),
    [
        ([1.0, 0.0, 2.0, np.nan], [0.1, 0.1, np.nan, np.nan], [2, 1, 5, 1], 1),
        ([1.0, 0.0], [np.nan, np.nan], [0, 0, 1, 0], np.nan),
    ],
)
def test_a_task_without_an_error_enters_no_pair_and_is_counted(estimates, errors, counts, share):
    table = coefficients(estimates, errors)
    found = comparisons.count_rejections(table, comparisons.compare_tasks(table)).iloc[0]
    assert found[["tasks", "tests", "untested", "rejected"]].tolist() == counts
    np.testing.assert_equal(found["share"], share)


def made_up(replicates):
    levels = [("rnn", "gru"), ("d",), ("sequential", "permuted", "reversed"), ("none",)]
    index = pd.MultiIndex.from_product([*levels, range(replicates)])
    frame = index.to_frame(index=False, name=["architecture", *TASK, "replicate"])
    values = np.random.default_rng(3).normal(size=len(frame))
    return frame.assign(task_accuracy=values, left_out="")


def test_variances_that_can_and_cannot_be_compared():
    def compared(frame):
        return comparisons.compare_variances(frame).set_index(["architecture", "test"])

    made = made_up(4)
    # Two attempts deviate equally from their median.
    few = made["architecture"].eq("rnn") & made["replicate"].gt(1)
    table = compared(made.assign(left_out=np.where(few, "diverged", "")))
    np.testing.assert_allclose(
        table["p_bonferroni"],
        (table["p_value"] * table.groupby("test")["p_value"].transform("count")).clip(upper=1),
    )
    assert table.loc[("rnn", "f_star"), "cause"] == ""
    assert table.loc[("rnn", "levene"), "cause"].startswith("0 of 3 tasks have 3 attempts")
    assert np.isnan(table.loc[("rnn", "levene"), "p_value"])
    gone = compared(made.assign(left_out=np.where(made["architecture"] == "rnn", "diverged", "")))
    assert gone.loc[("rnn", "f_star"), "cause"].startswith("0 of 3 tasks have 2 attempts")
    flat = compared(made.assign(task_accuracy=0.5))
    assert set(flat["cause"]) == {"no variation within the tasks"}


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
    def times(*groups):
        orders = zip(("sequential", "permuted"), groups, strict=True)
        rows = [("rnn", "d", order, "none", epoch) for order, group in orders for epoch in group]
        return pd.DataFrame(rows, columns=["architecture", *TASK, "epochs"])

    found = comparisons.compare_times(times([1], [1]), times(*epochs)).iloc[0]
    assert found["cause"] == cause
    assert np.isnan(found["p_value"]) == bool(cause)


def test_error_rates_over_tasks():
    counts = {"rnn": (0, 15), "gru": (5, 6), "lstm": (0, 0)}
    rows = [
        (name, "d", order, "none", "diverged" if i < count else "completed")
        for name, two in counts.items()
        for order, count in zip(("sequential", "permuted"), two, strict=True)
        for i in range(20)
    ]
    design = pd.DataFrame(rows, columns=["architecture", *TASK, "status"])
    table, again = (comparisons.compare_error_rates(design) for _ in range(2))
    pd.testing.assert_frame_equal(table, again)  # its p values are drawn, from a seed
    table = table.set_index("architecture")
    assert table["rejected"].tolist()[:2] == [True, False]
    assert table.loc["lstm", "cause"] == comparisons.NEVER
    assert table.loc["gru", "p_bonferroni"] == min(1, 2 * table.loc["gru", "p_value"])
