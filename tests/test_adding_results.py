"""What the claims on the adding problem take from its dataset, and what W and its inverse do to adjoint states."""

import numpy as np
import pytest
import torch
import xarray as xr

from lib.analysis.claims_adding import final_errors
from lib.cells import make_cell
from lib.probes.adjoint import adjoint_norms
from lib.results.learned import ADDING_GUESS
from lib.results.schema import COMPLETED, DIVERGED, NOT_PLANNED


@pytest.fixture
def ds():
    """Two rates of the author's RNN, of which the second validates better at the end, and one with ReLU."""
    run, training = ("run",), ("run", "replicate")
    error = np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 0.5], [3.0, 2.0, 0.1]])
    error = np.repeat(error[:, None], 2, axis=1)
    return xr.Dataset(
        {
            "architecture": (run, ["rnn"] * 3),
            "time_steps": (run, [5] * 3),
            "learning_rate": (run, [0.01, 0.1, 0.1]),
            "status": (training, np.full((3, 2), COMPLETED)),
            "records": (training, np.full((3, 2), 3)),
            "test_metric": ((*training, "record"), error),
            "validation_metric": ((*training, "record"), error.copy()),
        },
        {"start": (run, ["author"] * 3), "activation": (run, ["tanh", "tanh", "relu"])},
    )


def test_the_setting_with_the_smallest_last_validation_error_stands_for_a_network(ds):
    assert final_errors(ds, "rnn", 5).tolist() == [0.5, 0.5]
    ds["test_metric"][0] = 1e-9  # the test error chooses nothing
    ds["validation_metric"][0, :, 1] = 1e-9  # nor does what was better on the way
    assert final_errors(ds, "rnn", 5).tolist() == [0.5, 0.5]
    ds["records"][0] = 2  # a training that ended early counts with its last errors
    assert final_errors(ds, "rnn", 5).tolist() == [1e-9, 1e-9]


def test_a_training_that_diverged_chooses_as_infinite_and_scores_as_the_guess(ds):
    ds["status"][1, 1], ds["records"][1, 1] = DIVERGED, 1
    assert final_errors(ds, "rnn", 5).tolist() == [1, 1]
    ds["status"][0] = NOT_PLANNED
    assert final_errors(ds, "rnn", 5).tolist() == [0.5, ADDING_GUESS]
    ds["status"][1] = NOT_PLANNED
    assert final_errors(ds, "rnn", 5).size == 0 == final_errors(ds, "rnn", 9).size


@pytest.mark.parametrize("scale", [0.5, 2.0])
@pytest.mark.parametrize("name", ["rnn", "inverse_rnn", "lu_rnn"])
def test_one_turn_of_w_and_its_inverse_preserves_the_adjoint_state_of_a_linear_network(name, scale):
    """Section 2.9: whatever the scale of W. In the middle of a turn the adjoint state has felt one of the two alone."""
    draw = torch.Generator().manual_seed(0)
    A = torch.randn(4, 4, generator=draw) / 6
    W, tau = scale * torch.linalg.matrix_exp(A - A.T), 3
    hyper_parameters = {} if name == "rnn" else {"tau": tau}
    cell = make_cell(name, 2, 4, **hyper_parameters).requires_grad_(False)
    cell.set_matrix(W) if name == "lu_rnn" else cell.W.copy_(W)
    cell.R.mul_(1e-8)  # tanh is a straight line
    cell.b.zero_()
    u = torch.rand(12, 2, 2, generator=draw)
    norms = adjoint_norms(cell, u, lambda x: x.sum()).readout
    ratio = (norms - norms[-1]).median(dim=1).values
    step = np.log10(scale)
    whole, half = (6 * step, 3 * step) if name == "rnn" else (0, -3 * step)
    assert ratio[5] == pytest.approx(whole, abs=1e-4)
    assert ratio[8] == pytest.approx(half, abs=1e-4)
