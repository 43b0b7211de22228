"""Outcomes of predictions and means over runs, by hand-computed cases."""

import numpy as np
import pytest
from study.stats.predictions import mean_of_runs, outcome


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.06, 0.09, "holds"),
        (0.01, 0.04, "fails"),
        (0.04, 0.06, "undecided"),
    ],
)
def test_outcome_of_a_lower_limit(low, high, expected):
    assert outcome({"low": low, "high": high}, above=0.05) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.02, 0.01, "holds"),
        (-0.09, -0.04, "fails"),
        (0.04, 0.09, "fails"),
        (-0.05, 0.01, "undecided"),
        (-0.05, 0.05, "undecided"),
    ],
)
def test_outcome_of_a_range(low, high, expected):
    assert outcome({"low": low, "high": high}, above=-0.03, below=0.03) == expected


def test_mean_of_runs_has_students_interval():
    values = np.array([1.0, 2.0, 3.0])
    mean, reach = mean_of_runs(values, 0.95)
    assert mean == 2.0
    # t with two degrees of freedom is 4.3027 at 97.5%; the standard error is 1 / sqrt(3).
    assert reach == pytest.approx(4.30265 / np.sqrt(3), rel=1e-5)
