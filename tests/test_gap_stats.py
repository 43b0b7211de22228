"""Statistics of networks on the long time gap task, on datasets written by hand."""

import numpy as np
import pytest
import xarray as xr

from lib.analysis.gaps import emphasis_table, kept_accuracy, normalised_adjoints
from lib.results.schema import COMPLETED, DIVERGED


def test_rank_and_share_of_the_deciding_input():
    dims = ("place", "orthogonality", "replicate")
    emphasis = [[[0, 2, 0], [3, 4, 0], [1, -1, 2]], [[0, 3, 4], [0, 1, 1], [np.nan] * 3]]
    ds = xr.Dataset(
        {
            "emphasis": ((*dims, "time"), np.array([emphasis], float)),
            "accuracy": (dims, [[[1.0, 0.8, 0.3], [0.7, 0.8, np.nan]]]),
            "departure": (dims, np.full((1, 2, 3), 0.5)),
            "status": (dims, [[[COMPLETED] * 3, [COMPLETED, COMPLETED, DIVERGED]]]),
        },
        {"place": [2], "orthogonality": [0.0, 0.1], "replicate": [0, 1, 2], "time": [1, 2, 3]},
    )
    table = emphasis_table(ds)
    assert table["rank"].tolist() == [1, 1, 2, 2, 1]
    assert table["share"].tolist() == pytest.approx([1, 16 / 25, 1 / 6, 9 / 25, 1 / 2])
    # Phi(4 / 3); certain without other inputs; below one half with the wrong sign.
    assert table["expected"][:2].tolist() == pytest.approx([1, 0.90879], abs=1e-5)
    assert table["expected"][2] < 0.5


def test_the_latest_of_the_records_that_validate_best_is_followed():
    validation = np.array([[[0.5, 0.9, 0.9, 0.2]], [[np.nan] * 4]])
    dims = ("run", "replicate", "record")
    test = np.array([[[0.1, 0.2, 0.3, 0.4]], [[np.nan] * 4]])
    ds = xr.Dataset(
        {"validation_metric": (dims, validation), "test_metric": (dims, test)}, {"record": range(4)}
    )
    np.testing.assert_array_equal(kept_accuracy(ds), [[0.3], [np.nan]])


def test_adjoints_are_normalised_within_their_sequence():
    norms = [[[-400.0, -300.0], [-2.0, -1.0]], [[-3.0, -3.0], [-np.inf, -np.inf]]]
    ds = xr.Dataset({"adjoint_norm": (("run", "sequence", "time"), norms)})
    normalised = normalised_adjoints(ds)
    np.testing.assert_allclose(normalised[0], [[1e-100, 1], [0.1, 1]])  # no float32 holds these
    np.testing.assert_array_equal(normalised[1], [[1, 1], [np.nan, np.nan]])
