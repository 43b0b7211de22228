"""The factors of the LU RNN, set from a matrix."""

import pytest
import torch

from lib.cells import make_cell


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
