"""Verdicts with shuffled labels of networks."""

import numpy as np
import pandas as pd
import pytest
from claim_verdicts import CLAIMS, true_of
from random_groups import RECORD, group_sampler
from study.claims.networks import Networks
from study.claims.shuffled import AT_THRESHOLD, judge_shuffled, shuffle_labels

SCORE = (*RECORD[:2], "test_sequence")


def test_runs_are_dealt_with_all_that_belongs_to_them():
    levels = {("LEM", "a"): 80.0, ("LSTM", "a"): 60.0, ("LEM", "b"): 40.0, ("LSTM", "b"): 20.0}
    ds = group_sampler(levels, spread=0.1)(np.random.default_rng(0))
    answers = ds["test_metric"].isel(record=0).values[..., None].repeat(5, -1)
    ds = ds.assign(sequence_score=(SCORE, answers))
    networks = Networks(ds)
    dealt = shuffle_labels(networks, np.random.default_rng(0))
    for task in ("a", "b"):
        before = networks.on_task(task)
        after = dealt.on_task(task)
        assert sorted(after.rows["score"]) == sorted(before.rows["score"]), "the same runs"
        assert len(after.runs("LEM")) == len(before.runs("LEM"))
        assert set(after.scores("LEM")) != set(before.scores("LEM"))
    # The answers of each run moved with its score, and so did those of the candidates.
    for row in dealt.all_rows.itertuples():
        cell = dealt.ds["sequence_score"].sel(run=row.run, replicate=row.replicate)
        assert cell.values == pytest.approx(row.score / 100)
    pd.testing.assert_series_equal(dealt.candidates["test"], dealt.all_rows["test"])
    assert networks.on_task("a").scores("LEM").mean() == pytest.approx(80, abs=1), "not changed"


def test_shuffled_labels_rarely_decide():
    """LEM leads clearly; with shuffled labels one interval in twenty excludes a lead of zero."""
    claim = CLAIMS["lem-5-ptbchar-gated"]
    ds = true_of(claim, replicates=20)
    actual = judge_shuffled(ds, claim.comparison.group, 20)
    actual = actual[actual["id"] == claim.id]
    assert (actual["says"] == AT_THRESHOLD).all()
    assert len(actual) > 10
    assert actual["excluding"].sum() / actual["pairs"].sum() < 0.12
    assert (actual["agrees"] | actual["differs"]).mean() < 0.12


def test_equal_networks_have_a_ratio_of_one():
    """An interval excludes no difference if it excludes a ratio of one, not of zero."""
    claim = CLAIMS["lem-fhn-best"]
    assert claim.comparison.estimator == "ratio"
    ds = true_of(claim, replicates=10)
    actual = judge_shuffled(ds, claim.comparison.group, 5)
    actual = actual[actual["id"] == claim.id]
    assert len(actual)
    assert actual["excluding"].sum() < actual["pairs"].sum() / 2
