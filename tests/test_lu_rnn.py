"""The LU RNN: factors set from a matrix, and what W and its inverse do to adjoint states."""

import numpy as np
import pytest
import torch

from lib.cells import make_cell
from lib.probes.adjoint import adjoint_norms


def test_factors_of_the_lu_rnn_set_from_a_matrix_multiply_to_it():
    cell = make_cell("lu_rnn", 2, 5, pivot=0.05).double()
    generator = torch.Generator().manual_seed(2)
    W = torch.eye(5).double() + 0.2 * torch.randn(5, 5, dtype=torch.float64, generator=generator)
    W[0] *= -1  # a negative pivot
    cell.set_matrix(W)
    L, U, *_ = cell.weights()
    torch.testing.assert_close(L @ U, W)
    assert U[0, 0] < 0


@pytest.mark.parametrize(
    ("W", "complaint"),
    [
        (torch.zeros(3, 4), r"a matrix \(3, 3\), got \(3, 4\)"),
        (torch.eye(3)[[1, 0, 2]], "pivots are at least 0.001 .* row 0"),
        (torch.ones(3, 3), "pivots are at least 0.001 .* row 1"),
        (torch.full((3, 3), float("nan")), "pivots are at least 0.001 in size, got nan in row 0"),
    ],
)
def test_a_matrix_without_such_factors_is_refused(W, complaint):
    with pytest.raises(ValueError, match=f"lu_rnn: expected .*{complaint}"):
        make_cell("lu_rnn", 2, 3).set_matrix(W)


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
