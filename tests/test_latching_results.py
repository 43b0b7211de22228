"""What the analyses of the latching experiment take from its dataset."""

import math

import numpy as np
import pytest

from lib.analysis.latching import adjoint_ratios, others_above, trajectories
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


def test_emphasis_counts_the_times_at_which_the_adjoint_state_is_larger(ds):
    # The adjoint states of the example grow a hundredfold a step.
    assert others_above(trajectories(ds, 8), 7) == (1, 7)
    assert others_above(trajectories(ds, 8), 2) == (6, 7)
