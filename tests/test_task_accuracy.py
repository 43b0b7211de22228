"""Task accuracy and what is compared between tasks: hand-computed, and no attempt lost; numbers are held to R's in `test_chapter1`."""

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from synthetic_results import LEVELS, make_results

from lib.analysis import accuracy, comparisons, task_models
from lib.analysis.attempts import TASK, attempts
from lib.results.published import load_published


def results(**levels):
    ds = make_results(**levels)
    ds["classes"][:], ds["largest_class"][:] = 2, 0.5
    return ds


@pytest.fixture(scope="module")
def frame():
    return accuracy.grade(results())


def test_every_attempt_of_the_design_is_graded_or_has_a_reason(frame):
    design = attempts(results())
    assert len(frame) == len(design)
    completed = design["status"] == "completed"
    assert frame.loc[~completed, "left_out"].tolist() == design.loc[~completed, "status"].tolist()
    assert (frame["task_accuracy"].notna() == (frame["left_out"] == "")).all()
    assert accuracy.entered(frame).groupby(list(TASK))["task_accuracy"].max().eq(1).all()
    # The made-up results have a task of constant accuracy 0.5, which is guessing between two labels.
    first = frame[(frame[list(TASK)] == [LEVELS[name][0] for name in TASK]).all(axis=1)]
    assert "no attempt at the task beat guessing" in set(first["left_out"])
    assert "" not in set(first["left_out"]) and first["task_accuracy"].isna().all()


def attempts_of(*accuracies, width=(1, 1, 2, 2)):
    """Return graded attempts of one task and architecture with two configurations of two replicates each."""
    frame = pd.DataFrame({"accuracy": accuracies, "width": width})
    frame = frame.assign(dataset="d", order="o", noise="n", architecture="rnn")
    frame = frame.assign(learning_rate=0.1, training_length=3, task_accuracy=frame["accuracy"])
    return frame.assign(left_out=np.where(frame["accuracy"].isna(), "diverged", ""))


@pytest.mark.parametrize(("rule", "width", "judged"), [("mean", 1, 0.5), ("max", 2, 0.7)])
def test_the_best_configuration_by_either_rule(rule, width, judged):
    table = accuracy.best_configurations(attempts_of(0.5, 0.5, 0.7, 0.1), rule)
    assert table["width"].tolist() == [width]
    assert table["accuracy"].item() == pytest.approx(judged)
    assert table[["attempts", "tied"]].iloc[0].tolist() == [2, 1]

    # Ties go to the first in the design and are counted.
    table = accuracy.best_configurations(attempts_of(np.nan, 0.5, 0.5, 0.5))
    assert table[["width", "attempts", "tied"]].iloc[0].tolist() == [1, 1, 2]
    # Attempts elsewhere are left out, failures keep their reason.
    elsewhere = accuracy.at_best(attempts_of(0.5, np.nan, 0.4, np.nan))["left_out"].tolist()
    assert elsewhere == ["", "diverged", accuracy.OTHER, accuracy.OTHER]
    assert accuracy.at_best(attempts_of(*[np.nan] * 4))["left_out"].tolist() == ["diverged"] * 4


test_bad_input_is_refused = refused(
    ValueError,
    ("digits: expected two classes or more", lambda: accuracy.grade(make_results())),
    ("rule is 'median'; ", lambda: accuracy.best_configurations(attempts_of(1, 1, 1, 1), "median")),
)


def test_what_is_compared_had_no_part_in_the_choice_of_the_best_configuration():
    # Two replicates, three configurations: each replicate is scored where the other one was best.
    frame = attempts_of(0.9, 0.1, 0.2, 0.8, 0.3, 0.4, width=[1, 1, 2, 2, 3, 3])
    frame["replicate"] = [0, 1] * 3
    assert accuracy.can_cross(frame)
    inside = accuracy.entered(accuracy.at_best(frame, crossed=True))
    found = inside[["replicate", "width", "accuracy"]].to_numpy().tolist()
    assert found == [[1, 1, 0.1], [0, 2, 0.2]]
    frame.loc[[1, 3, 5], "left_out"] = "diverged"
    left = accuracy.at_best(frame, crossed=True)["left_out"]
    unchosen, other = accuracy.UNCHOSEN, accuracy.OTHER
    assert left.tolist() == [unchosen, "diverged", unchosen, other, unchosen, other]


def test_the_account_adds_up(frame):
    marked = accuracy.at_best(frame)
    for by in ([], ["dataset"], [*TASK, "architecture"]):
        table = accuracy.account(marked, by)
        reasons = [name for name in table if name not in (*by, "planned")]
        assert (table[reasons].sum(axis=1) == table["planned"]).all()
        assert table["planned"].sum() == len(frame)


# between tasks: pairs, variances, times and error rates


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
