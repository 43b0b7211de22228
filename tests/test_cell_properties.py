"""What the papers prove about their cells, as properties of the code."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.autograd.functional import jacobian

from lib.cells import make_cell, unroll
from lib.cells.irnn import NoEquilibriumError, equilibrium
from lib.cells.lu_rnn import multiply, solve

P, D = 2, 5


def _cell(name, **hyper_parameters):
    torch.manual_seed(0)
    return make_cell(name, P, D, **hyper_parameters).double()


def _states(cell, u):
    """Return every part of every state, (part, time, batch, hidden)."""
    weights, state, found = cell.weights(), cell.initial_state(u.shape[1]), []
    with torch.no_grad():
        for u_t in u.unbind(0):
            state = cell.step(weights, state, u_t)
            found.append(torch.stack(state))
    return torch.stack(found, dim=1)


# LEM


@pytest.mark.parametrize("dt", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 30])
def test_states_of_lem_stay_within_4(dt, size):
    cell = _cell("lem", dt=dt)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.mul_(size)
        cell.b += size  # pushes every component to where the bound is tight
    states = _states(cell, torch.randn(400, 8, P, dtype=torch.float64))
    largest = states.abs().amax(dim=(0, 2, 3))
    delta = (1 + dt) / math.sqrt(2 - dt)
    bounds = delta * torch.sqrt(dt * torch.arange(1, 401, dtype=torch.float64))  # (4)
    assert (largest <= bounds.clamp(max=1) + 1e-12).all()
    if size == 30:
        assert largest[-1] > 0.95, "the case never comes near the bound"


def test_lem_equals_the_lstm_under_appendix_d():
    lstm, lem = _cell("lstm"), _cell("lem", dt=1.0)
    i, f, g, o = (slice(k * D, (k + 1) * D) for k in range(4))
    one, two, z, y = i, f, g, o  # LEM's blocks lie in the same places
    with torch.no_grad():
        for part in (lstm.W, lstm.R, lstm.b):
            part[f] = -part[i]  # f = 1 - i
            part[o] = 0
        lstm.b[o] = 50  # o = 1
        lem.W[one], lem.V[one], lem.b[one] = lstm.W[i], lstm.R[i], lstm.b[i]  # Delta t_n = i
        lem.W[two], lem.V[two], lem.b[two] = 0, 0, 50  # the other step is 1
        lem.W[z], lem.V[z], lem.b[z] = lstm.W[g], lstm.R[g], lstm.b[g]
        lem.W_y.copy_(torch.eye(D))  # these the appendix does not state
        lem.V[y], lem.b[y] = 0, 0
    u = torch.randn(50, 3, P, dtype=torch.float64)
    of_lstm, (_, c) = lstm(u, engine="reference")
    of_lem, (_, z_last) = lem(u)
    torch.testing.assert_close(of_lem, of_lstm, atol=1e-13, rtol=0)
    torch.testing.assert_close(z_last, c, atol=1e-13, rtol=0)
    assert of_lem.std() > 0.1


def test_clipping_with_the_limit_one_is_a_single_scale():
    clipped, single = _cell("lem", clip=1.0), _cell("lem", single_scale=True)
    with torch.no_grad():
        single.W.copy_(clipped.W[2 * D :])
        single.W_y.copy_(clipped.W_y)
        single.V.copy_(clipped.V[2 * D :])
        single.b.copy_(clipped.b[2 * D :])
    u = torch.randn(20, 3, P, dtype=torch.float64)
    torch.testing.assert_close(clipped(u)[0], single(u)[0])


# UnICORNN


@pytest.mark.parametrize("variant", [{"dt": (0.1, 0.4, 0.3)}, {"skip": 2}, {"dropout": 0.5}])
def test_unicornn_variants_stay_symplectic_in_each_layer(variant):
    cell = _cell("unicornn", layers=3, **variant)
    u = torch.randn(1, 1, P, dtype=torch.float64)
    weights = cell.weights(cell._draw_masks(u) if cell.dropout else None)

    def step(flat):
        state = tuple(part[None] for part in flat.split(D))
        return torch.cat([part[0] for part in cell.step(weights, state, u[0])])

    whole = jacobian(step, torch.randn(6 * D, dtype=torch.float64))
    assert torch.linalg.det(whole).item() == pytest.approx(1, abs=1e-12)
    zero, identity = torch.zeros(D, D).double(), torch.eye(D).double()
    omega = torch.cat([torch.cat([zero, identity], 1), torch.cat([-identity, zero], 1)])
    for layer in range(3):
        part = slice(2 * D * layer, 2 * D * (layer + 1))
        block = whole[part, part]
        torch.testing.assert_close(block.T @ omega @ block, omega)


def _resonant(steps, dt, alpha):
    """Return inputs that swing with the free oscillator, or push one way where it has no frequency."""
    times = dt * torch.arange(1, steps + 1, dtype=torch.float64)
    swing = torch.cos(math.sqrt(alpha) * times)
    return 20 * swing[:, None, None].expand(steps, 4, P).contiguous()


@pytest.mark.parametrize("alpha, dt", [(0.5, 0.01), (1.0, 0.1), (12.53, 0.482), (30.65, 0.19)])
def test_states_of_unicornn_stay_within_32(alpha, dt):
    cell = _cell("unicornn", alpha=alpha, dt=dt)
    with torch.no_grad():
        for V, c in zip(cell.V, cell.c, strict=True):
            V.fill_(1)
            c.fill_(8)  # the effective step is the nominal one
    steps = 300
    states = _states(cell, _resonant(steps, dt, alpha))
    rate = 96**0.25 * max(1, math.sqrt(alpha))
    time = dt * torch.arange(1, steps + 1, dtype=torch.float64)
    common = 2 * D * time * (1 + 2 * alpha * dt**3) * torch.exp(rate * time)
    for layer in range(2):
        y, z = states[2 * layer : 2 * layer + 2].square().sum(-1).amax(-1)
        assert (y <= common / alpha).all() and (z <= common).all()
    if alpha < 12:  # elsewhere the first input of the swing is small
        assert (states[1, 0, 0].abs() > 0.99 * dt).all(), "the first step is not driven fully"


@pytest.mark.parametrize("dt", [0.01, 0.1, 0.49])
def test_states_of_unicornn_without_frequency_stay_within_33(dt):
    cell = _cell("unicornn", alpha=0.0, dt=dt)
    with torch.no_grad():
        for V, w, c in zip(cell.V, cell.w, cell.c, strict=True):
            V.fill_(1)
            w.zero_()
            c.fill_(8)
    steps = 300
    states = _states(cell, _resonant(steps, dt, 0.0))
    time = dt * torch.arange(1, steps + 1, dtype=torch.float64)
    for y in states[::2]:
        assert (y.square().sum(-1).amax(-1) <= 2 * D * time * torch.exp(2 * time)).all()
    # The first layer, pushed one way throughout, moves as far as the step allows: n (n + 1) / 2 dt^2.
    farthest = time * (time + dt) / 2
    reached = states[0].abs().amax(dim=(1, 2)) / farthest
    assert (reached <= 1).all() and (reached > 0.999).all()


# iRNN


def _contraction(inner_steps, phi="tanh", eta=0.4, alpha=1.0, norm=0.6, **more):
    """Return an iRNN under the conditions of proposition 1: ||U|| < alpha, alpha eta <= 1."""
    cell = _cell("irnn", inner_steps=inner_steps, phi=phi, alpha=alpha, **more)
    with torch.no_grad():
        cell.U.mul_(norm * alpha / torch.linalg.matrix_norm(cell.U, 2))
        cell.eta.fill_(eta)
        cell.W.mul_(3)
    return cell


@pytest.mark.parametrize("phi, alpha", [("tanh", 1.0), ("sigmoid", 1.0), ("tanh", 0.5)])
def test_the_state_jacobian_of_irnn_tends_to_minus_the_identity(phi, alpha):
    u = torch.randn(1, P, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    h = torch.randn(D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    distances = []
    for K in (1, 10, 40, 160):
        cell = _contraction(K, phi, alpha=alpha)
        weights = cell.weights()
        found = jacobian(lambda h, w=weights, c=cell: c.step(w, (h[None],), u)[0][0], h)
        distances.append(torch.linalg.matrix_norm(found + torch.eye(D).double(), 2).item())
    assert distances[0] > 0.3
    assert all(later < earlier for earlier, later in itertools.pairwise(distances))
    assert distances[-1] < 1e-4


@pytest.mark.parametrize("phi", ["relu", "tanh", "sigmoid"])
def test_the_inner_iteration_of_irnn_converges_linearly(phi):
    u = torch.randn(1, P, dtype=torch.float64)
    h = torch.randn(1, D, dtype=torch.float64)
    eta, norm = 0.4, 0.6
    rate = 1 - eta + eta * norm
    iterates = []
    for K in (*range(1, 40), 400):
        cell = _contraction(K, phi, eta, norm=norm)
        with torch.no_grad():
            iterates.append(cell.step(cell.weights(), (h,), u)[0])
    *iterates, equilibrium = iterates
    U, W, b = cell.U, cell.W, cell.b
    residual = cell.phi((equilibrium + h) @ U.T + u @ W.T + b) - (equilibrium + h)
    assert residual.abs().max() < 1e-12, "the last iterate is no equilibrium"
    errors = np.array([(g - equilibrium).norm().item() for g in iterates])
    assert (errors[1:] <= rate * errors[:-1] + 1e-14).all()
    # From g_1 the exponent is K - 1; proposition 2 prints K, which fails at K = 1.
    powers = rate ** np.arange(len(errors))
    assert (errors <= powers * errors[0] + 1e-14).all()
    assert errors[20] > 1e-9, "converges too fast to tell the rate"


def test_one_inner_step_is_sirnn():
    cell = _cell("irnn", inner_steps=1, phi="tanh", alpha=0.8)
    u = torch.randn(6, 3, P, dtype=torch.float64)
    h = torch.zeros(3, D, dtype=torch.float64)
    outputs, _ = cell(u)
    for u_t, output in zip(u, outputs, strict=True):
        h = cell.eta[0] * (torch.tanh(h @ cell.U.T + u_t @ cell.W.T + cell.b) - 0.8 * h)  # (6)
        torch.testing.assert_close(output, h)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("inner_start", ["zero", "previous"])
def test_the_sign_and_not_the_start_decides_the_jacobian_at_equilibrium(inner_start, sign):
    cell = _cell("irnn", inner_steps=200, phi="tanh", eta=0.4, sign=sign, inner_start=inner_start)
    u, h = torch.randn(1, P, dtype=torch.float64), torch.randn(D, dtype=torch.float64)
    found = jacobian(lambda h: cell.step(cell.weights(), (h[None],), u)[0][0], h)
    torch.testing.assert_close(found, -sign * torch.eye(D).double(), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("inner_start", "sign", "expected"),
    [
        ("zero", 1, lambda slope_U, one: 0.01 * (slope_U - one)),
        ("zero", -1, lambda slope_U, one: -0.01 * (slope_U - one)),
        ("previous", 1, lambda slope_U, one: one + 0.02 * (slope_U - one)),
        ("previous", -1, lambda slope_U, one: one),
    ],
)
def test_the_jacobian_of_one_inner_step_is_that_of_the_docstring(inner_start, sign, expected):
    cell = _cell("irnn", inner_steps=1, phi="tanh", sign=sign, inner_start=inner_start)
    u, h = torch.randn(1, P, dtype=torch.float64), torch.randn(D, dtype=torch.float64)
    found = jacobian(lambda h: cell.step(cell.weights(), (h[None],), u)[0][0], h)
    s = sign * h if inner_start == "zero" else (1 + sign) * h
    slope = 1 - torch.tanh(cell.U @ s + cell.W @ u[0] + cell.b) ** 2
    torch.testing.assert_close(found, expected(slope[:, None] * cell.U, torch.eye(D).double()))


@pytest.mark.parametrize("variant", [{}, {"form": 8}, {"sign": -1, "phi": "relu"}])
def test_many_inner_steps_reach_the_equilibrium(variant):
    cell = _contraction(400, **{"phi": "tanh", "norm": 0.6} | variant)
    u, h = (torch.randn(3, size, dtype=torch.float64) for size in (P, D))
    expected = cell.step(cell.weights(), (h,), u)[0]
    torch.testing.assert_close(equilibrium(cell.weights(), h, u), expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("settings", "norm"), [({}, 3.0), ({"steps": 3}, 0.6)])
def test_an_iteration_that_does_not_settle_says_how_far_it_got(settings, norm):
    cell = _contraction(1, phi="relu", norm=norm)
    with torch.no_grad():
        cell.U.copy_(norm * torch.eye(D))
    u, h = (torch.ones(1, size, dtype=torch.float64) for size in (P, D))
    told = f"irnn: expected the inner iteration to settle.*U, whose norm is {norm:.2f}, below alpha"
    with pytest.raises(NoEquilibriumError, match=told):
        equilibrium(cell.weights(), h, u, **settings)


# Exponential RNN


@pytest.mark.parametrize("start", ["text", "author", "original"])
def test_both_trivialisations_start_at_the_same_matrix_and_leave_it_differently(start):
    cells = []
    for trivialization in ("dynamic", "static"):
        cell = _cell("exponential", trivialization=trivialization)
        torch.manual_seed(1)
        cells.append(cell.start(start))
    torch.testing.assert_close(cells[0].B, cells[1].B, atol=1e-12, rtol=0)
    assert sum(p.numel() for p in cells[0].parameters()) == sum(
        p.numel() for p in cells[1].parameters()
    )
    gradients = []
    for cell in cells:
        optimiser = torch.optim.SGD(cell.parameters(), lr=0.1)
        cell(torch.ones(6, 1, P, dtype=torch.float64))[0].square().sum().backward()
        gradients.append(cell.parametrizations.B.original.grad.tril(-1).flatten())
        optimiser.step()
        torch.testing.assert_close(cell.B @ cell.B.T, torch.eye(D).double(), atol=1e-12, rtol=0)
    assert torch.cosine_similarity(*gradients, dim=0) < 0.999


# LU RNN and inverse RNN


@pytest.mark.parametrize("pivots", ["as drawn", "zero", "tiny and negative"])
def test_w_of_the_lu_rnn_times_its_inverse_is_the_identity(pivots):
    cell = _cell("lu_rnn", pivot=1e-2)
    with torch.no_grad():
        cell.factors.normal_()
        if pivots != "as drawn":
            cell.factors.diagonal()[::2] = {"zero": 0.0, "tiny and negative": -1e-9}[pivots]
    L, U, *_ = cell.weights()
    identity = torch.eye(D, dtype=torch.float64)
    assert U.diagonal().abs().min() >= 1e-2
    assert torch.equal(L.diagonal(), torch.ones(D).double()) and torch.equal(L, L.tril())
    assert torch.equal(U, U.triu())
    torch.testing.assert_close(multiply(L, U, identity), (L @ U).T)
    scale = torch.linalg.cond(L @ U).item()
    torch.testing.assert_close(
        multiply(L, U, solve(L, U, identity)), identity, atol=1e-14 * scale, rtol=0
    )
    torch.testing.assert_close(
        solve(L, U, multiply(L, U, identity)), identity, atol=1e-14 * scale, rtol=0
    )


def test_a_pivot_at_zero_still_learns():
    cell = _cell("lu_rnn", pivot=1e-2)
    with torch.no_grad():
        cell.factors.diagonal()[1] = 1e-6
    cell.weights().U.sum().backward()
    assert cell.factors.grad.isfinite().all()
    assert cell.factors.grad.diagonal()[1] != 0


@pytest.mark.parametrize("name", ["lu_rnn", "inverse_rnn"])
def test_w_and_its_inverse_cancel_over_two_periods(name):
    # Without input and near zero tanh is the identity: 2 tau steps lead back to where they started.
    cell = _cell(name, tau=4)
    with torch.no_grad():
        cell.b.zero_()
        if name == "inverse_rnn":
            cell.W.add_(0.3 * torch.randn(D, D))
    start = 1e-7 * torch.randn(3, D, dtype=torch.float64)
    state = (start, torch.zeros_like(start))
    silence = torch.zeros(8, 3, P, dtype=torch.float64)
    outputs, (x, t) = cell(silence, state)
    torch.testing.assert_close(x, start, atol=1e-15, rtol=1e-9)
    assert (outputs[3] - start).abs().max() > 1e-8
    torch.testing.assert_close(outputs[4], outputs[2], atol=1e-15, rtol=1e-9)
    assert (t == 8).all()


def test_sequences_at_different_times_share_a_batch():
    cell = _cell("lu_rnn", tau=3)
    u = torch.randn(4, 1, P, dtype=torch.float64)
    x = torch.randn(2, D, dtype=torch.float64)
    t = torch.tensor([[0.0], [2.0]], dtype=torch.float64).expand(2, D)
    together, _ = cell(u.expand(4, 2, P), (x, t))
    for sequence in range(2):
        part = slice(sequence, sequence + 1)
        alone, _ = cell(u, (x[part], t[part]))
        torch.testing.assert_close(together[:, part], alone)
    assert (together[:, 0] - together[:, 1]).abs().max() > 0.01


def test_a_singular_matrix_is_refused_in_one_sentence():
    cell = _cell("inverse_rnn")
    with torch.no_grad():
        cell.W[:2] = 0
    with pytest.raises(
        ValueError, match="inverse_rnn: expected an invertible W, got a singular one"
    ):
        cell(torch.zeros(2, 1, P, dtype=torch.float64))


# The others


def test_the_symmetric_part_of_the_gated_antisymmetric_matrix_is_its_diffusion():
    W = _cell("gated_antisymmetric", gamma=0.3).weights().W
    torch.testing.assert_close(W + W.T, -2 * 0.3 * torch.eye(D, dtype=torch.float64))


@pytest.mark.parametrize("name", ["indrnn", "sru"])
def test_neurons_of_one_layer_are_independent(name):
    cell = _cell(name)
    u = torch.randn(1, P, dtype=torch.float64)
    weights, rest = cell.weights(), cell.initial_state(1)[1:]
    state = 0.5 + torch.rand(D, dtype=torch.float64)
    found = jacobian(lambda c: cell.step(weights, (c[None], *rest), u)[0][0], state)
    assert found.diagonal().abs().max() > 0
    assert torch.equal(found, torch.diag(found.diagonal()))


def test_trained_scalars_start_as_residual_connections():
    fastrnn, fastgrnn = (_cell(name).requires_grad_(False) for name in ("fastrnn", "fastgrnn"))
    assert (fastrnn.alpha + fastrnn.beta).item() == pytest.approx(1)
    assert fastrnn.alpha < 0.05
    tuned = _cell("fastrnn", eta=0.01)
    assert (tuned.alpha.item(), tuned.beta.item()) == pytest.approx((0.01, 0.99))
    assert 0 < fastgrnn.nu < 0.05 < fastgrnn.zeta < 1


def test_dt_lstm_tends_to_forget_in_version_1_and_to_keep_in_version_2():
    torch.manual_seed(0)
    u = torch.randn(1, 3, P, dtype=torch.float64)
    held = torch.ones(3, D, dtype=torch.float64)
    for version, kept in ((1, 0.0), (2, 1.0)):
        cell = _cell("dt_lstm", version=version, dt=1e-9)
        with torch.no_grad():
            cell.b[D : 2 * D] = 50  # the unscaled forget gate is open
        _, (_, c) = unroll(cell.step, cell.weights(), (torch.zeros_like(held), held), u)
        torch.testing.assert_close(c, kept * held, atol=1e-7, rtol=0)
