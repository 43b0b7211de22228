"""What every cell promises its callers, and what the papers prove of theirs; equations: test_transcriptions.py, section 2.9: notebook 45, and what
UnICORNN's ways back keep, and lose in float32: notebook 51."""

import pytest
import torch

from lib import kernels
from lib.cells import cell_names, make_cell
from lib.cells.lu_rnn import multiply, solve
from lib.results.published import load_published

P, D = 2, 5
IDENTITY = torch.eye(D, dtype=torch.float64)


def _cell(name, **hyper_parameters):
    torch.manual_seed(0)
    return make_cell(name, P, D, **hyper_parameters).double()


def _noise(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", cell_names())
def test_a_split_sequence_continues_from_its_state(name):
    cell, u = _cell(name), _noise(7, 3, P)
    whole, end = cell(u, engine="reference")
    first, middle = cell(u[:4], engine="reference")
    second, split_end = cell(u[4:], middle, engine="reference")
    torch.testing.assert_close((torch.cat([first, second]), split_end), (whole, end))


def test_parameter_counts_equal_table_3_3():
    published = load_published("diss-tab-3.3")
    assert len(published) == 28
    for row in published.itertuples():
        cell = make_cell(row.architecture, 1, int(row.width))
        ours = sum(parameter.numel() for parameter in cell.parameters())
        assert ours == row.parameters, (row.architecture, row.width)


@pytest.mark.parametrize("name", ["rnn", "lu_rnn", "inverse_rnn"])
def test_relu_in_the_place_of_tanh_is_left_to_the_reference(name):
    cell, tanh, u = _cell(name, activation="relu"), _cell(name), _noise(1, 3, P)
    assert kernels.choose(name, "cpu", tanh.engine_options) != "reference"
    assert kernels.choose(name, "cpu", cell.engine_options) == "reference"
    found, before = cell(u)[0], torch.atanh(tanh(u, engine="reference")[0])
    assert found.min() == 0 and found.max() > 0
    torch.testing.assert_close(found, torch.relu(before))
    with pytest.raises(ValueError, match=f"run {name}: it has no option 'activation'; it has none"):
        cell(u, engine="numba-cpu")
    assert cell.step == _cell(name, activation="relu").step, "equal networks train side by side"


def test_irnn_refuses_more_rounds_than_it_has_step_sizes():
    cell = _cell("irnn", train_eta="time", length=6)
    _, state = cell(_noise(4, 1, P))
    assert torch.equal(state[1], torch.full((1, D), 4.0, dtype=torch.float64))
    cell(_noise(2, 1, P), state)
    with pytest.raises(ValueError, match="at most length=6 rounds.*got 7; build the cell"):
        cell(_noise(3, 1, P), state)


@pytest.mark.parametrize("d", [5, 6])
def test_the_exponential_rnn_starts_at_rotations_and_stays_orthogonal(d):
    cell = make_cell("exponential", P, d).double()
    angles = torch.linspace(-3, 2, d // 2, dtype=torch.float64)
    A = torch.zeros(d, d, dtype=torch.float64)
    A.diagonal(-1)[::2] = angles
    with torch.no_grad():
        cell._rotate(angles)
    before = cell.B.detach().clone()
    torch.testing.assert_close(before, torch.linalg.matrix_exp(A - A.T), atol=1e-12, rtol=0)
    optimiser = torch.optim.Adam(cell.parameters(), lr=0.1)
    for _ in range(5):
        optimiser.zero_grad()
        cell(torch.ones(6, 1, P, dtype=torch.float64))[0].square().sum().backward()
        optimiser.step()
    after, one = cell.B.detach(), torch.eye(d, dtype=torch.float64)
    torch.testing.assert_close(after @ after.T, one, atol=1e-12, rtol=0)
    assert (after - before).abs().max() > 0.05, "training did not move the matrix"


@pytest.mark.parametrize("pivots", ["as drawn", "zero", "tiny and negative"])
def test_w_of_the_lu_rnn_times_its_inverse_is_the_identity(pivots):
    cell = _cell("lu_rnn", pivot=1e-2)
    with torch.no_grad():
        cell.factors.normal_()
        if pivots != "as drawn":
            cell.factors.diagonal()[::2] = {"zero": 0.0, "tiny and negative": -1e-9}[pivots]
    L, U, *_ = cell.weights()
    assert U.diagonal().abs().min() >= 1e-2
    assert pivots != "zero" or (U.diagonal()[::2] > 0).all()
    precision = {"atol": 1e-14 * torch.linalg.cond(L @ U).item(), "rtol": 0}
    torch.testing.assert_close(multiply(L, U, solve(L, U, IDENTITY)), IDENTITY, **precision)
    torch.testing.assert_close(solve(L, U, multiply(L, U, IDENTITY)), IDENTITY, **precision)
    U.sum().backward()
    learns = cell.factors.grad.diagonal() != 0
    assert cell.factors.grad.isfinite().all() and (learns.all() or pivots == "zero")


def test_factors_of_the_lu_rnn_set_from_a_matrix_multiply_to_it():
    cell = make_cell("lu_rnn", 2, 5, pivot=0.05).double()
    generator = torch.Generator().manual_seed(2)
    W = torch.eye(5).double() + 0.2 * torch.randn(5, 5, dtype=torch.float64, generator=generator)
    W[0] *= -1  # a negative pivot
    cell.set_matrix(W)
    L, U, *_ = cell.weights()
    torch.testing.assert_close(L @ U, W)
    assert U[0, 0] < 0
