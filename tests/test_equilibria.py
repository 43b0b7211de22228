"""The incremental RNN's theory: every inequality, and that it fails where its assumption does."""

import numpy as np
import pytest
import torch
from torch.autograd.functional import jacobian

from lib.cells import make_cell
from lib.cells.irnn import NoEquilibriumError, multiply
from lib.probes.equilibria import distances, residuals, stability

D, P = 6, 3


def _cell(norm=0.6, **more):
    torch.manual_seed(0)
    settings = {"phi": "tanh", "inner_steps": 1, "eta": 0.4, "train_eta": "fixed"} | more
    cell = make_cell("irnn", P, D, **settings).double().requires_grad_(False)
    cell.U.mul_(norm / torch.linalg.matrix_norm(cell.U, 2))
    cell.b.normal_()
    return cell


def _point(batch=5):
    generator = torch.Generator().manual_seed(1)
    return (torch.randn(batch, n, dtype=torch.float64, generator=generator) for n in (D, P))


@pytest.mark.parametrize("phi", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("eta", [0.05, 0.4, 1.0])
def test_the_distance_to_the_equilibrium_shrinks_as_proposition_2_says(phi, eta):
    norm = 0.6
    found = distances(_cell(norm, phi=phi, eta=eta), *_point(), 30)
    rate = 1 - eta + eta * norm
    assert (found[1:] <= rate * found[:-1] + 1e-9).all()


def test_proposition_2_as_printed_fails_at_one_inner_step():
    found = distances(_cell(), *_point(), 1)[0]
    rate = 1 - 0.4 + 0.4 * 0.6
    assert (found > rate * found).all(), "the printed exponent is K, and K = 1 gives h^1 itself"


def test_without_its_assumptions_the_inner_iteration_does_not_settle():
    h, u = _point()
    cell = _cell(3.0, phi="relu")
    cell.U.copy_(3 * torch.eye(D))
    with pytest.raises(NoEquilibriumError):
        distances(cell, h.abs(), u.abs(), 3)
    # alpha eta <= 1 is assumed as well: a step three times too large moves away although ||U|| < alpha.
    cell = _cell(0.6)
    cell.eta.fill_(3.0)
    found = distances(cell, h, u, 20)
    assert (found[-1] > found[0]).all()


def _residual(cell, h, u):
    weights = cell.weights()
    return lambda g: (
        weights.phi(multiply(weights, g + h) + u @ weights.W.T + weights.b)
        - weights.alpha * (g + h)
    )


@pytest.mark.parametrize(("norm", "holds"), [(0.6, True), (40.0, False)])
def test_condition_9_is_that_a_newton_step_shortens_the_residual(norm, holds):
    """Theorem 2: the sum is negative exactly where |F + eta F' F| < |F|; a large U breaks it."""
    cell, eta = _cell(norm), 0.4
    seen = set()
    for h, u in zip(*_point(40), strict=True):
        F = _residual(cell, h[None], u[None])
        g = torch.randn(1, D, dtype=torch.float64)
        value, slope = F(g)[0], jacobian(lambda x: F(x[None])[0], g[0])  # noqa: B023
        moved = slope @ value
        condition = eta**2 * moved @ moved + 2 * eta * value @ moved
        assert (condition < 0) == ((value + eta * moved).norm() < value.norm())
        seen.add(bool(condition < 0))
    assert seen == {True} if holds else False in seen


@pytest.mark.parametrize(
    ("norm", "eta", "stable"), [(0.6, 0.4, True), (0.6, 3.0, False), (4.0, 0.4, False)]
)
def test_corollary_1_bounds_a_step_of_the_inner_iteration(norm, eta, stable):
    cell = _cell(norm)
    h, u = (part[:1] for part in _point())
    F = _residual(cell, h, u)
    g = torch.zeros(1, D, dtype=torch.float64) - h
    if norm > 1:  # the steepest place of tanh, where an argument is 0
        cell.b.copy_(-(cell.W @ u[0]))
    slope = jacobian(lambda x: F(x[None])[0], g[0])
    norm_of = torch.linalg.matrix_norm(torch.eye(D) + eta * slope, 2)
    assert (norm_of < 1) == stable


@pytest.mark.parametrize("K", [1, 4])
@pytest.mark.parametrize("low", [{}, {"rank": 2}])
def test_from_the_last_state_the_minus_sign_gives_a_sum_that_is_blind_to_order(K, low):
    settings = {"inner_steps": K, "inner_start": "previous", "sign": -1, "eta": 0.3} | low
    cell = make_cell("irnn", P, D, **settings).double().requires_grad_(False)
    cell.start("author")
    u = torch.randn(9, 4, P, dtype=torch.float64)
    once, _ = cell(u)
    again, _ = cell(u[torch.randperm(9)])
    torch.testing.assert_close(once[-1], again[-1])
    plus = make_cell("irnn", P, D, **(settings | {"sign": 1})).double().requires_grad_(False)
    plus.load_state_dict(cell.state_dict())
    assert (plus(u)[0][-1] - plus(u.flip(0))[0][-1]).abs().max() > 1e-6, "the plus sign tells order"


def test_one_inner_step_from_the_last_state_is_a_fastrnn():
    """h + eta (phi(2 U h + r) - 2 h): alpha = eta, beta = 1 - 2 eta, and U twice as large."""
    eta = 0.1
    cell = _cell(inner_start="previous", eta=eta)
    fast = make_cell("fastrnn", P, D).double().requires_grad_(False)
    for mine, other in ((fast.U, 2 * cell.U), (fast.W, cell.W), (fast.b, cell.b)):
        mine.copy_(other)
    fast.alpha_free.fill_(np.log(eta / (1 - eta)))
    fast.beta_free.fill_(np.log((1 - 2 * eta) / (2 * eta)))
    u = torch.randn(7, 2, P, dtype=torch.float64)
    torch.testing.assert_close(cell(u)[0], fast(u)[0])


@pytest.mark.parametrize("form", [5, 8])
def test_a_low_rank_leaves_eigenvalues_of_zero_where_more_neurons_are_active(form):
    rank = 2
    cell = (
        make_cell("irnn", P, D, rank=rank, form=form, inner_steps=2).double().requires_grad_(False)
    )
    cell.b.fill_(5.0)  # all neurons active
    found = stability(cell, torch.randn(4, 3, P, dtype=torch.float64))
    assert found.shape == (4, 3, D)
    assert ((found.abs() < 1e-9).sum(-1) == D - rank).all()
    full = stability(_cell(0.6), torch.randn(4, 3, P, dtype=torch.float64))
    assert (full.real < 0).all(), "||U|| < alpha"
    assert (stability(_cell(9.0), torch.randn(20, 3, P, dtype=torch.float64)).real > 0).any()


def test_residuals_are_what_the_state_before_and_the_next_leave():
    u = torch.randn(30, 2, P, dtype=torch.float64)
    few, many = (_cell(inner_steps=K) for K in (1, 60))
    states, _ = few(u, engine="reference")
    before = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
    sums = states + before
    expected = torch.tanh(sums @ few.U.T + u @ few.W.T + few.b) - sums
    torch.testing.assert_close(residuals(few, u), expected.norm(dim=2))
    assert residuals(many, u).max() < 1e-4 < residuals(few, u).mean()
