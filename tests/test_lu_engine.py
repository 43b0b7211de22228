"""The compiled engine of the LU RNN and the inverse RNN where the general tests of engines do not reach."""

import numpy as np
import pytest
import torch
from test_kernels import assert_engine_agrees, random_case

from lib import kernels
from lib.cells import make_cell
from lib.cells._interchange import alternate
from lib.cells.inverse_rnn import SingularMatrixError
from lib.kernels import cpu_interchange

NAMES = ["lu_rnn", "inverse_rnn"]


def _case(name, T=11, batch=3, hidden=6, dtype=torch.float64, **hyper_parameters):
    """Return a cell with its own tau, an input and a state in which all sequences begin together."""
    _, u, (x, _) = random_case(name, T, batch, hidden, dtype)
    cell = make_cell(name, 2, hidden, **hyper_parameters).to(dtype)
    return cell, u, (x, torch.zeros_like(x).requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("tau", [1, 2, 5, 20])
@pytest.mark.parametrize("name", NAMES)
def test_it_agrees_when_all_sequences_begin_together(name, tau, dtype):
    assert_engine_agrees(_case(name, dtype=dtype, tau=tau), name, "numba-cpu")


@pytest.mark.parametrize("name", NAMES)
def test_it_agrees_when_sequences_stand_at_different_times(name):
    cell, u, (x, t) = _case(name, tau=3)
    with torch.no_grad():
        t += torch.tensor([[0.0], [2.0], [5.0]])
    assert_engine_agrees((cell, u, (x, t)), name, "numba-cpu")


@pytest.mark.parametrize("name", NAMES)
def test_chunks_of_a_sequence_make_the_whole(name):
    cell, u, state = _case(name, tau=3)
    whole, (x, t) = cell(u, state, engine="numba-cpu")
    parts = []
    for piece in u.split([1, 3, 7]):
        outputs, state = cell(piece, state, engine="numba-cpu")
        parts.append(outputs)
    torch.testing.assert_close(torch.cat(parts), whole)
    torch.testing.assert_close(state, (x, t))
    assert (t == 11).all()


@pytest.mark.parametrize("name", NAMES)
def test_it_agrees_at_the_size_of_the_text(name):
    # d=128, batch 32, tau=10; two and a half periods
    assert_engine_agrees(_case(name, 50, 32, 128, torch.float32, tau=10), name, "numba-cpu")


@pytest.mark.parametrize("pivots", ["zero", "tiny and negative"])
def test_pivots_near_zero_are_held_off_in_the_engine_too(pivots):
    cell, u, state = _case("lu_rnn", tau=2, pivot=1e-2)
    with torch.no_grad():
        cell.factors.diagonal()[::2] = {"zero": 0.0, "tiny and negative": -1e-9}[pivots]
    assert_engine_agrees((cell, u, state), "lu_rnn", "numba-cpu")
    outputs, _ = cell(u, state, engine="numba-cpu")
    assert outputs.isfinite().all()


def test_a_singular_matrix_is_refused_before_the_engine_runs():
    cell, u, state = _case("inverse_rnn")
    with torch.no_grad():
        cell.W[1] = cell.W[0]
        cell.W[2] = 0
    with pytest.raises(SingularMatrixError, match="expected an invertible W, got a singular one"):
        cell(u, state, engine="numba-cpu")


def test_auto_takes_the_engine():
    for name in NAMES:
        run = kernels.select(name, "auto", torch.zeros(1, 1, 1))
        assert run.__module__ == cpu_interchange.__name__


@pytest.mark.parametrize("steps", [1, 7])
def test_turns_follow_the_rule_of_the_cells(steps):
    for start in (torch.zeros(2, 3), torch.tensor([[0.0, 3.0, 9.0], [-1.0, 2.5, 4.0]])):
        found = cpu_interchange._turns(start, 3, steps)
        for t in range(steps):
            expected = alternate(start + t, 3, torch.ones(2, 3), torch.zeros(2, 3)).bool().numpy()
            np.testing.assert_array_equal(np.broadcast_to(found[t], 6).reshape(2, 3), expected)


# ------------------------------------------------------------------------------- factors


def test_factors_of_the_lu_rnn_set_from_a_matrix_multiply_to_it():
    cell = make_cell("lu_rnn", 2, 5, pivot=0.05).double()
    W = torch.eye(5, dtype=torch.float64) + 0.2 * torch.randn(
        5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    W[0] *= -1  # a negative pivot
    cell.set_matrix(W)
    L, U, *_ = cell.weights()
    torch.testing.assert_close(L @ U, W)
    assert U[0, 0] < 0


@pytest.mark.parametrize(
    ("W", "complaint"),
    [
        (torch.zeros(3, 4), r"a matrix \(3, 3\), got \(3, 4\)"),
        (torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 1]]), "pivots are at least 0.001 .* row 0"),
        (torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]), "pivots are at least 0.001 .* row 1"),
        (torch.full((3, 3), float("nan")), "pivots are at least 0.001 in size, got nan in row 0"),
    ],
)
def test_a_matrix_without_such_factors_is_refused(W, complaint):
    with pytest.raises(ValueError, match=f"lu_rnn: expected .*{complaint}"):
        make_cell("lu_rnn", 2, 3).set_matrix(W)
