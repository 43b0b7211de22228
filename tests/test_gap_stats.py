"""Statistics of networks on the long time gap task, on datasets written by hand."""

import numpy as np
import pytest
from lib.experiments import coadjoint_gaps, linear_gaps

from lib.analysis.gaps import (
    compare_with_penalty,
    emphasis_table,
    evenness_table,
    normalised_adjoints,
    summarise_emphasis,
)
from lib.results.schema import COMPLETED, DIVERGED


@pytest.fixture
def linear():
    levels = {"place": [2], "orthogonality": [0.0, 0.1], "replicate": [0, 1, 2], "time": [1, 2, 3]}
    ds = linear_gaps.SCHEMA.empty(levels, profile="test")
    ds["emphasis"][0, 0] = [[0, 2, 0], [3, 4, 0], [1, -1, 2]]
    ds["emphasis"][0, 1] = [[0, 3, 4], [0, 1, 1], [np.nan] * 3]
    ds["accuracy"][0] = [[1.0, 0.8, 0.3], [0.7, 0.8, np.nan]]
    ds["departure"][0] = 0.5
    ds["status"][0] = [[COMPLETED] * 3, [COMPLETED, COMPLETED, DIVERGED]]
    return ds


def test_rank_and_share_of_the_deciding_input(linear):
    table = emphasis_table(linear)
    assert table["rank"].tolist() == [1, 1, 2, 2, 1]
    assert table["share"].tolist() == pytest.approx([1, 16 / 25, 1 / 6, 9 / 25, 1 / 2])
    # Phi(4 / 3); certain without other inputs; below one half with the wrong sign.
    assert table["expected"][:2].tolist() == pytest.approx([1, 0.90879], abs=1e-5)
    assert table["expected"][2] < 0.5


def test_summary_counts_diverged_networks(linear):
    summary = summarise_emphasis(emphasis_table(linear), 3).set_index("orthogonality")
    assert summary["networks"].tolist() == [3, 2] and summary["diverged"].tolist() == [0, 1]
    assert summary["first"].tolist() == [2, 1]
    assert summary["accuracy"].tolist() == [0.8, 0.75]
    assert summary["accuracy_lowest"].tolist() == [0.3, 0.7]


def test_pairs_are_compared_start_by_start(linear):
    (row,) = compare_with_penalty(emphasis_table(linear)).to_dict("records")
    assert (row["pairs"], row["better"], row["worse"]) == (2, 0, 1)
    assert row["difference"] == pytest.approx(-0.15) and row["p"] == 1
    with pytest.raises(ValueError, match="with and without the penalty"):
        compare_with_penalty(emphasis_table(linear.isel(orthogonality=[0])))


@pytest.fixture
def adjoints():
    levels = {"kappa": [0.0, 1.0], "replicate": [0], "sequence": [0, 1], "time": [1, 2]}
    ds = coadjoint_gaps.SCHEMA.empty(levels, profile="test")
    ds["adjoint"][0, 0] = [[-400, -300], [-2, -1]]  # norms that no float32 could hold
    ds["adjoint"][1, 0] = [[-3, -3], [-5, -5]]
    ds["accuracy"][:] = [[1.0], [0.6]]
    ds["status"][:] = [[COMPLETED], [DIVERGED]]
    return ds


def test_adjoints_are_normalised_within_their_sequence(adjoints):
    normalised = normalised_adjoints(adjoints)
    np.testing.assert_allclose(normalised[0, 0], [[1e-100, 1], [0.1, 1]])
    assert (normalised[1] == 1).all()
    adjoints["adjoint"][0, 0, 0] = -np.inf
    assert normalised_adjoints(adjoints)[0, 0, 0].isnull().all()


def test_evenness_is_one_where_all_adjoints_are_equal(adjoints):
    table = evenness_table(adjoints)
    assert table["evenness"].tolist() == pytest.approx([(1 + 1 + 0.1 + 0) / 4, 1])
    assert table["largest"].tolist() == [-150.5, -4]
    assert table["learned"].tolist() == [1, 0] and table["diverged"].tolist() == [0, 1]
