"""What the analyses of the latching experiment take from its dataset."""

import math

import numpy as np
import pytest

from lib.analysis.latching import (
    adjoint_ratios,
    count_outcomes,
    counts,
    emphasis,
    latched_at,
    trainings,
    trajectories,
)
from lib.results.schema import COMPLETED, DIVERGED
from lib.training.latching import SCHEMA

RATES = (-0.3, -0.05)
"""Slopes of the logarithm of the adjoint state in the two trainings that completed."""


@pytest.fixture
def ds():
    """Three trainings: the first latches, the second learns the short task alone, the third diverged."""
    levels = {
        "training": [0, 1, 2],
        "horizon": [4, 8],
        "sequence": [0, 1],
        "time": list(range(1, 9)),
    }
    settings = {"place": 2, "tolerance": 0.01, "horizon": 4, "longer": [8], "width": 4}
    ds = SCHEMA.empty(levels, profile="smoke", settings=settings)
    ds["status"][:] = [COMPLETED, COMPLETED, DIVERGED]
    ds["error"][:2] = [[0.0, 0.005], [0.009, 0.4]]
    ds["exponent"][:2] = -0.1
    for row, T in enumerate((4, 8)):
        back = T - np.arange(1, T + 1)
        for training, rate in enumerate(RATES):
            ds["adjoint_median"][training, row, :T] = rate * back / math.log(10) - 3
        ds["adjoint"][row, :, :T] = -2.0 * back - 400
        ds["state_norm"][row, :, :T] = 1.5
    return SCHEMA.validate(ds)


def test_every_training_is_counted(ds):
    table = counts(ds).set_index("horizon")
    assert table["trainings"].tolist() == [3, 3] and table["diverged"].tolist() == [1, 1]
    assert table["reached"].tolist() == [2, 1]


def test_the_rate_of_the_adjoint_state_is_found(ds):
    table = adjoint_ratios(ds)
    assert len(table) == 6
    for training, rate in enumerate(RATES):
        rows = table[table["training"] == training]
        assert rows["rate"].to_numpy() == pytest.approx(rate, rel=1e-5)
        steps = rows["horizon"] - 2
        assert rows["log10_ratio"].to_numpy() == pytest.approx(
            rate * steps / math.log(10), rel=1e-5
        )
    assert table[table["training"] == 2][["error", "rate"]].isna().all(axis=None)


def test_adjoint_states_below_the_range_of_floats_are_normalised(ds):
    frame = trajectories(ds, 8)
    assert len(frame) == 2 * 8 and frame["time"].max() == 8
    one = frame[frame["sequence"] == 0].set_index("time")["normalised"]
    assert (one**2).sum() == pytest.approx(1)
    assert one[7] / one[8] == pytest.approx(0.01)


def test_every_training_has_an_outcome_and_its_adjoint_states(ds):
    table = trainings(ds, vanished=0.1)
    assert table["outcome"].tolist() == ["latched", "learned", "diverged"]
    # Six steps back at -0.3 are a factor of 0.17, and at -0.05 of 0.74.
    assert table["vanished"].tolist() == [False, False, False]
    assert trainings(ds, vanished=0.2)["vanished"].tolist() == [True, False, False]
    counted = count_outcomes(table).set_index("outcome")
    assert counted["trainings"].to_dict() == {
        "latched": 1,
        "learned": 1,
        "failed": 0,
        "diverged": 1,
    }
    assert counted.loc["latched", "negative"] == 1 and counted.loc["diverged", "negative"] == 0


def test_a_looser_tolerance_lets_more_trainings_latch(ds):
    table = latched_at(trainings(ds, vanished=0.2), (0.001, 0.01, 0.5)).set_index("tolerance")
    assert table["latched"].tolist() == [0, 1, 2] and (table["trainings"] == 3).all()
    assert table.loc[0.01, ["vanished", "contracting"]].tolist() == [1, 1]
    assert table["share"].between(table["low"], table["high"]).all()


def test_emphasis_says_where_the_adjoint_state_is_largest(ds):
    found = emphasis(trajectories(ds, 8), 7)
    # The adjoint states of the example grow a hundredfold a step: the last is the largest, one step from the place.
    assert (found["near"], found["peak"], found["larger"], found["others"]) == (1, 8, 1, 7)
    assert emphasis(trajectories(ds, 8), 2)["near"] == 0
