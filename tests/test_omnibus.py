"""One test for all tasks: its level where variances differ from cell to cell, and that it finds what there is."""

import numpy as np
import pandas as pd
import pytest

from lib.analysis import omnibus, task_models

ARCHITECTURES = ("antisymmetric", "gru", "rnn")


def make(seed, shift, tasks=8, replicates=4):
    """Return attempts whose spread differs from cell to cell, and whose effect of the GRU differs between tasks by `shift`."""
    rng = np.random.default_rng(seed)
    cells = pd.MultiIndex.from_product([range(tasks), ARCHITECTURES, range(replicates)])
    frame = cells.to_frame(index=False, name=["task", "architecture", "replicate"])
    cell = frame.groupby(["task", "architecture"], sort=False).ngroup()
    spread = rng.choice([0.02, 0.1, 0.5], cell.max() + 1)[cell]
    effect = shift * rng.standard_normal(tasks)[frame["task"]]
    frame["task_accuracy"] = spread * rng.standard_normal(len(frame))
    frame["task_accuracy"] += effect * (frame["architecture"] == "gru")
    frame["dataset"] = "d" + frame["task"].astype(str)
    return frame.assign(
        order="o",
        noise="n",
        left_out="",
        learning_rate=0.1,
        width=1,
        training_length=1,
        sampling_error=0.01,
    )


def rejects(seed, shift, **levels):
    fits = task_models.fit_tasks(make(seed, shift, **levels), task_models.FIRST, "antisymmetric")
    table = omnibus.equal_over_tasks(fits, draws=99).set_index("architecture")
    return table["p_value"]["gru"] <= 0.05


def test_equal_effects_are_rejected_about_as_often_as_the_level_says():
    share = np.mean([rejects(seed, 0.0, tasks=5) for seed in range(60)])
    assert share <= 0.12  # 0.05 and two standard errors


def test_effects_that_differ_are_found():
    assert np.mean([rejects(seed, 1.0, tasks=5) for seed in range(20)]) > 0.7


def test_the_same_seed_gives_the_same_answer_and_all_coefficients_are_listed():
    frame = make(1, 0.3)
    fits = task_models.fit_tasks(frame, task_models.FIRST, "antisymmetric")
    one, two = (omnibus.equal_over_tasks(fits, draws=49) for _ in range(2))
    pd.testing.assert_frame_equal(one, two)
    assert one["architecture"].tolist() == ["", "gru", "rnn"]
    assert (one["tasks"] == 8).all() and one["p_value"].between(1 / 50, 1).all()


def test_a_single_task_has_nothing_to_compare():
    fits = task_models.fit_tasks(make(0, 0.0, tasks=1), task_models.FIRST, "antisymmetric")
    table = omnibus.equal_over_tasks(fits, draws=9)
    assert table[["statistic", "p_value"]].isna().all(axis=None) and not table["rejected"].any()


def test_the_statistic_by_hand():
    estimate, error = np.array([[1.0], [3.0]]), np.array([[1.0], [1.0]])
    assert omnibus._statistic(estimate, error).item() == pytest.approx(2.0)
