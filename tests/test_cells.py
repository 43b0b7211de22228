"""What every cell promises its callers, and what the papers prove of theirs; the equations are in test_transcriptions.py."""

import itertools
import math

import pytest
import torch
from torch.autograd.functional import jacobian

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


def _states(cell, u):
    """Return every part of every state, (part, time, batch, hidden)."""
    weights, state, found = cell.weights(), cell.initial_state(u.shape[1]), []
    with torch.no_grad():
        for u_t in u.unbind(0):
            state = cell.step(weights, state, u_t)
            found.append(torch.stack(state))
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("name", cell_names())
def test_a_split_sequence_continues_from_its_state(name):
    cell, u = _cell(name), _noise(7, 3, P)
    whole, end = cell(u, engine="reference")
    first, middle = cell(u[:4], engine="reference")
    second, split_end = cell(u[4:], middle, engine="reference")
    torch.testing.assert_close((torch.cat([first, second]), split_end), (whole, end))


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_wrong_sizes_are_refused(size):
    with pytest.raises(ValueError, match="expected hidden_size to be a positive integer"):
        make_cell("rnn", 1, size)


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
    assert kernels.choose(name, "cpu", torch.float32, tanh.engine_options) != "reference"
    assert kernels.choose(name, "cpu", torch.float32, cell.engine_options) == "reference"
    found, before = cell(u)[0], torch.atanh(tanh(u, engine="reference")[0])
    assert found.min() == 0 and found.max() > 0
    torch.testing.assert_close(found, torch.relu(before))
    with pytest.raises(ValueError, match=f"run {name}: it has no option 'activation'; it has none"):
        cell(u, engine="numba-cpu")
    assert cell.step == _cell(name, activation="relu").step, "equal networks train side by side"


# LEM


@pytest.mark.parametrize("dt", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 30])
def test_states_of_lem_stay_within_4(dt, size):
    cell = _cell("lem", dt=dt)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.mul_(size)
        cell.b += size  # pushes every component to where the bound is tight
    largest = _states(cell, _noise(400, 8, P)).abs().amax(dim=(0, 2, 3))
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
        lem.W_y.copy_(IDENTITY)  # these the appendix does not state
        lem.V[y], lem.b[y] = 0, 0
    u = _noise(50, 3, P)
    of_lstm, (_, c) = lstm(u, engine="reference")
    of_lem, (_, z_last) = lem(u)
    torch.testing.assert_close((of_lem, z_last), (of_lstm, c), atol=1e-13, rtol=0)
    assert of_lem.std() > 0.1


# UnICORNN


@pytest.mark.parametrize("variant", [{}, {"dt": (0.1, 0.4, 0.3)}, {"skip": 2}, {"dropout": 0.5}])
def test_unicornn_preserves_volume_and_is_symplectic_in_each_layer(variant):
    cell, u = _cell("unicornn", layers=3, **variant), _noise(1, 1, P)
    weights = cell.weights(cell._draw_masks(u) if cell.dropout else None)

    def step(flat):
        state = tuple(part[None] for part in flat.split(D))
        return torch.cat([part[0] for part in cell.step(weights, state, u[0])])

    whole = jacobian(step, _noise(6 * D))
    assert torch.linalg.det(whole).item() == pytest.approx(1, abs=1e-12)
    omega = torch.kron(torch.tensor([[0.0, 1], [-1, 0]], dtype=torch.float64), IDENTITY)
    for layer in range(3):
        part = slice(2 * D * layer, 2 * D * (layer + 1))
        block = whole[part, part]
        torch.testing.assert_close(block.T @ omega @ block, omega)


@pytest.mark.parametrize(
    ("alpha", "dt"),
    [(0.5, 0.01), (1.0, 0.1), (12.53, 0.482), (30.65, 0.19), (0.0, 0.01), (0.0, 0.49)],
)
def test_states_of_unicornn_stay_within_32_and_33(alpha, dt):
    cell, steps = _cell("unicornn", alpha=alpha, dt=dt), 300
    with torch.no_grad():
        for V, w, c in zip(cell.V, cell.w, cell.c, strict=True):
            V.fill_(1)
            c.fill_(8)  # the effective step is the nominal one
            w.mul_(alpha > 0)
    time = dt * torch.arange(1, steps + 1, dtype=torch.float64)
    # Inputs swing with the free oscillator, or push one way where it has no frequency.
    swing = 20 * torch.cos(math.sqrt(alpha) * time)
    states = _states(cell, swing[:, None, None].expand(steps, 4, P))
    squares = states.square().sum(-1).amax(-1)
    if alpha == 0:  # (33)
        assert (squares[::2] <= 2 * D * time * torch.exp(2 * time)).all()
        # The first layer, pushed one way throughout, moves as far as the step allows: n (n + 1) / 2 dt^2.
        reached = states[0].abs().amax(dim=(1, 2)) / (time * (time + dt) / 2)
        assert (reached <= 1).all() and (reached > 0.999).all()
        return
    rate = 96**0.25 * max(1, math.sqrt(alpha))
    bound = 2 * D * time * (1 + 2 * alpha * dt**3) * torch.exp(rate * time)  # (32)
    assert (squares[::2] <= bound / alpha).all() and (squares[1::2] <= bound).all()
    if alpha < 12:  # elsewhere the first input of the swing is small
        assert (states[1, 0, 0].abs() > 0.99 * dt).all(), "the first step is not driven fully"


# iRNN


def _state_jacobian(cell, u, h):
    return jacobian(lambda h: cell.step(cell.weights(), (h[None],), u)[0][0], h)


@pytest.mark.parametrize(
    ("phi", "alpha", "sign", "inner_start"),
    [
        ("tanh", 1.0, 1, "zero"),
        ("sigmoid", 1.0, 1, "zero"),
        ("tanh", 0.5, 1, "zero"),
        ("tanh", 1.0, -1, "zero"),
        ("tanh", 1.0, 1, "previous"),
        ("tanh", 1.0, -1, "previous"),
    ],
)
def test_the_sign_and_not_the_start_decides_the_jacobian_at_equilibrium(
    phi, alpha, sign, inner_start
):
    given = {"phi": phi, "alpha": alpha, "sign": sign, "inner_start": inner_start, "eta": 0.4}
    u, h, distances = _noise(1, P), _noise(D), []
    for K in (1, 10, 40, 160):
        cell = _cell("irnn", inner_steps=K, **given)
        with torch.no_grad():  # proposition 1: ||U|| < alpha, alpha eta <= 1
            cell.U.mul_(0.6 * alpha / torch.linalg.matrix_norm(cell.U, 2))
        found = _state_jacobian(cell, u, h) + sign * IDENTITY
        distances.append(torch.linalg.matrix_norm(found, 2).item())
    assert distances[-1] < 1e-4
    if (sign, inner_start) != (-1, "previous"):  # the identity after one step
        assert distances[0] > 0.3
        assert all(later < earlier for earlier, later in itertools.pairwise(distances))


def test_irnn_refuses_more_rounds_than_it_has_step_sizes():
    cell = _cell("irnn", train_eta="time", length=6)
    _, state = cell(_noise(4, 1, P))
    assert torch.equal(state[1], torch.full((1, D), 4.0, dtype=torch.float64))
    cell(_noise(2, 1, P), state)
    with pytest.raises(ValueError, match="at most length=6 rounds.*got 7; build the cell"):
        cell(_noise(3, 1, P), state)


# Exponential RNN


@pytest.mark.parametrize("start", ["text", "author", "original"])
@pytest.mark.parametrize("d", [5, 6])
def test_both_trivialisations_start_at_one_orthogonal_matrix_and_leave_it_differently(start, d):
    before, gradients = [], []
    for trivialization in ("dynamic", "static"):
        cell = make_cell("exponential", P, d, trivialization=trivialization).double()
        torch.manual_seed(1)
        before.append(cell.start(start).B.detach().clone())
        optimiser = torch.optim.Adam(cell.parameters(), lr=0.1)
        for _ in range(5):
            optimiser.zero_grad()
            cell(torch.ones(6, 1, P, dtype=torch.float64))[0].square().sum().backward()
            gradients.append(cell.parametrizations.B.original.grad.tril(-1).flatten())
            optimiser.step()
        after = cell.B.detach()
        one = torch.eye(d, dtype=torch.float64)
        torch.testing.assert_close(after @ after.T, one, atol=1e-12, rtol=0)
        assert (after - before[-1]).abs().max() > 0.05, "training did not move the matrix"
    torch.testing.assert_close(*before, atol=1e-12, rtol=0)
    assert torch.cosine_similarity(gradients[0], gradients[5], dim=0) < 0.999


# LU RNN and inverse RNN


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


@pytest.mark.parametrize("name", ["lu_rnn", "inverse_rnn"])
def test_w_and_its_inverse_cancel_over_two_periods(name):
    # Without input and near zero tanh is the identity: 2 tau steps lead back to where they started.
    cell = _cell(name, tau=4)
    with torch.no_grad():
        cell.b.zero_()
        if name == "inverse_rnn":
            cell.W.add_(0.3 * torch.randn(D, D))
    start = 1e-7 * _noise(3, D)
    silence = torch.zeros(8, 3, P, dtype=torch.float64)
    outputs, (x, t) = cell(silence, (start, torch.zeros_like(start)))
    torch.testing.assert_close(x, start, atol=1e-15, rtol=1e-9)
    assert (outputs[3] - start).abs().max() > 1e-8
    torch.testing.assert_close(outputs[4], outputs[2], atol=1e-15, rtol=1e-9)
    assert (t == 8).all()


def test_sequences_at_different_times_share_a_batch():
    cell, u, x = _cell("lu_rnn", tau=3), _noise(4, 1, P), _noise(2, D)
    t = torch.tensor([[0.0], [2.0]], dtype=torch.float64).expand(2, D)
    together, _ = cell(u.expand(4, 2, P), (x, t))
    for sequence in range(2):
        part = slice(sequence, sequence + 1)
        torch.testing.assert_close(together[:, part], cell(u, (x[part], t[part]))[0])
    assert (together[:, 0] - together[:, 1]).abs().max() > 0.01


def test_a_singular_matrix_is_refused_in_one_sentence():
    cell = _cell("inverse_rnn")
    with torch.no_grad():
        cell.W[:2] = 0
    told = "inverse_rnn: expected an invertible W, got a singular one"
    with pytest.raises(ValueError, match=told):
        cell(_noise(2, 1, P))
