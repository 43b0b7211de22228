"""Task accuracy, the best configurations and the counts of what entered: hand-computed, and no attempt lost."""

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from synthetic_results import LEVELS, make_results

from lib.analysis.accuracy import (
    OTHER,
    UNCHOSEN,
    account,
    at_best,
    best_configurations,
    can_cross,
    entered,
    grade,
)
from lib.analysis.attempts import TASK, attempts


def results(**levels):
    ds = make_results(**levels)
    ds["classes"][:], ds["largest_class"][:] = 2, 0.5
    return ds


@pytest.fixture(scope="module")
def frame():
    return grade(results())


def test_every_attempt_of_the_design_is_graded_or_has_a_reason(frame):
    design = attempts(results())
    assert len(frame) == len(design)
    completed = design["status"] == "completed"
    assert frame.loc[~completed, "left_out"].tolist() == design.loc[~completed, "status"].tolist()
    assert (frame["task_accuracy"].notna() == (frame["left_out"] == "")).all()
    assert entered(frame).groupby(list(TASK))["task_accuracy"].max().eq(1).all()
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
    table = best_configurations(attempts_of(0.5, 0.5, 0.7, 0.1), rule)
    assert table["width"].tolist() == [width]
    assert table["accuracy"].item() == pytest.approx(judged)
    assert table[["attempts", "tied"]].iloc[0].tolist() == [2, 1]

    # Ties go to the first in the design and are counted.
    table = best_configurations(attempts_of(np.nan, 0.5, 0.5, 0.5))
    assert table[["width", "attempts", "tied"]].iloc[0].tolist() == [1, 1, 2]
    # Attempts elsewhere are left out, failures keep their reason.
    elsewhere = at_best(attempts_of(0.5, np.nan, 0.4, np.nan))["left_out"].tolist()
    assert elsewhere == ["", "diverged", OTHER, OTHER]
    assert at_best(attempts_of(*[np.nan] * 4))["left_out"].tolist() == ["diverged"] * 4


test_bad_input_is_refused = refused(
    ValueError,
    ("digits: expected two classes or more", lambda: grade(make_results())),
    ("rule is 'median'; ", lambda: best_configurations(attempts_of(1, 1, 1, 1), "median")),
)


def test_what_is_compared_had_no_part_in_the_choice_of_the_best_configuration():
    # Two replicates, three configurations: each replicate is scored where the other one was best.
    frame = attempts_of(0.9, 0.1, 0.2, 0.8, 0.3, 0.4, width=[1, 1, 2, 2, 3, 3])
    frame["replicate"] = [0, 1] * 3
    assert can_cross(frame)
    inside = entered(at_best(frame, crossed=True))
    found = inside[["replicate", "width", "accuracy"]].to_numpy().tolist()
    assert found == [[1, 1, 0.1], [0, 2, 0.2]]
    frame.loc[[1, 3, 5], "left_out"] = "diverged"
    left = at_best(frame, crossed=True)["left_out"]
    assert left.tolist() == [UNCHOSEN, "diverged", UNCHOSEN, OTHER, UNCHOSEN, OTHER]


def test_the_account_adds_up(frame):
    marked = at_best(frame)
    for by in ([], ["dataset"], [*TASK, "architecture"]):
        table = account(marked, by)
        reasons = [name for name in table if name not in (*by, "planned")]
        assert (table[reasons].sum(axis=1) == table["planned"]).all()
        assert table["planned"].sum() == len(frame)
