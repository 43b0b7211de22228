"""Probes of cells: Lyapunov exponents, Jacobians, gains, time steps, and iRNN's equilibrium.

Notebook 54 checks proposition 2 of the incremental RNN's paper.
"""

import math

import longrnn
import numpy as np
import pytest
import torch
from longrnn.cells import make_cell
from longrnn.probes.adjoint import adjoint_norms
from longrnn.probes.coadjoint import coadjoint_loss
from longrnn.probes.lyapunov import largest_exponent, log_gain, singular_values, step_jacobians
from longrnn.probes.time_steps import DECADES, count_time_steps
from refusals import refused
from study.results.rows import REAL_PARTS
from study.training.equilibria import equilibrium_eigenvalues, real_part_fractions
from toys import linear, sums

T = 12
BATCH = 3
FEATURES = 3
WIDTH = 6


def _noise(T, batch=3, inputs=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(T, batch, inputs, dtype=torch.float64, generator=generator)


def test_linear_exponent_is_the_largest_log_eigenvalue():
    basis = np.array([[1.0, 0.4, 0.1], [0.2, 1.0, -0.3], [0.0, 0.5, 1.0]])
    cell = linear(basis @ np.diag([1.3, 0.8, 0.5]) @ np.linalg.inv(basis))
    exponents = largest_exponent(cell, _noise(1900), start=900)
    expected = torch.full((3,), math.log(1.3), dtype=torch.float64)
    torch.testing.assert_close(exponents, expected, atol=2e-3, rtol=0)
    angle = 0.7
    W = 0.9 * np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    expected = torch.full((3,), math.log(0.9), dtype=torch.float64)
    torch.testing.assert_close(largest_exponent(linear(W), _noise(500)), expected)


def test_an_exponent_follows_one_vector_through_all_jacobians():
    torch.manual_seed(1)
    cell = make_cell("rnn", 1, 4).double()
    torch.nn.init.orthogonal_(cell.W, gain=1.5)
    u = _noise(9)
    vector = torch.full((3, 4, 1), 0.5, dtype=torch.float64)  # of length 1
    for jacobian in step_jacobians(cell, u, start=2):
        vector = jacobian @ vector
    expected = vector.norm(dim=1)[:, 0].log() / 7
    torch.testing.assert_close(largest_exponent(cell, u, start=2), expected)


@pytest.mark.parametrize("start", [-1, 9])
def test_a_start_that_leaves_no_step_is_refused(start):
    with pytest.raises(ValueError, match=f"expected a start between 0 and 8, got {start}"):
        step_jacobians(make_cell("rnn", 1, 4), _noise(9), start=start)


def test_a_start_between_two_steps_is_refused():
    """`largest_exponent` would divide by a number of steps that it did not take."""
    with pytest.raises(TypeError, match=r"expected start to be an integer, got 1\.5"):
        largest_exponent(make_cell("rnn", 1, 4), _noise(9), start=1.5)


@pytest.mark.parametrize("parts", [[7], [2], [-1], [0, 0], [0, 1.0], ["y"], [], 0], ids=str)
def test_parts_that_are_no_indices_of_state_tensors_are_refused(parts):
    with pytest.raises(ValueError, match="^expected parts to be .* lem's 2 state") as refusal:
        step_jacobians(make_cell("lem", 1, 4), _noise(9), parts=parts)
    assert str(refusal.value).endswith(f"got {parts!r}")


MEMORY = {"rnn": (0,), "lstm": (0, 1), "lu_rnn": (0,), "inverse_rnn": (0,), "irnn": (0,)}
"""Indices of the state tensors that are no step counters."""
OPTIONS = {"irnn": {"train_eta": "time", "length": 40}}


@pytest.mark.parametrize(("name", "indices"), MEMORY.items())
def test_jacobians_equal_finite_differences(name, indices):
    torch.manual_seed(0)
    cell = make_cell(name, 2, 3, **OPTIONS.get(name, {})).double()
    u = _noise(4, batch=2, inputs=2)
    *_, last = step_jacobians(cell, u)
    _, state = cell(u[:-1])
    columns = []
    for index in indices:
        for unit in torch.eye(3, dtype=torch.float64):
            ends = []
            for sign in (1, -1):
                moved = list(state)
                moved[index] = state[index] + sign * 1e-6 * unit
                after = cell.step(cell.weights(), tuple(moved), u[-1])
                ends.append(torch.cat([after[i] for i in indices], dim=1))
            columns.append((ends[0] - ends[1]) / 2e-6)
    torch.testing.assert_close(last, torch.stack(columns, dim=-1).detach(), atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("name", ["lu_rnn", "inverse_rnn", "irnn"])
def test_step_counters_do_not_hide_forgetting(name):
    torch.manual_seed(0)
    cell = make_cell(name, 1, 4, **OPTIONS.get(name, {}))
    u = _noise(40)
    assert (largest_exponent(cell, u) < -0.05).all()
    assert (singular_values(cell, u) < 0.2).all()
    torch.testing.assert_close(largest_exponent(cell, u, parts=(0,)), largest_exponent(cell, u))


def test_steps_before_the_start_are_not_measured():
    torch.manual_seed(1)
    cell = make_cell("rnn", 1, 4).double()
    u = _noise(40)
    torch.nn.init.orthogonal_(cell.W, gain=1.5)
    every = list(step_jacobians(cell, u, start=0))
    late = list(step_jacobians(cell, u, start=30))
    assert len(every) == 40
    slopes = 1 - torch.tanh(u[0] @ cell.R.T + cell.b).square()  # the state before is zero
    torch.testing.assert_close(every[0], (slopes[:, :, None] * cell.W).detach())
    torch.testing.assert_close(late, every[30:])
    product = torch.eye(4, dtype=torch.float64)
    for J in late:
        product = J @ product
    expected = np.linalg.svd(product.numpy(), compute_uv=False)  # descending
    np.testing.assert_allclose(singular_values(cell, u, start=30), expected)


def test_jacobians_are_measured_without_dropout():
    torch.manual_seed(2)
    cell = make_cell("unicornn", 1, 4, layers=2, dropout=0.5)
    u = _noise(5)
    before = torch.random.get_rng_state()
    first = list(step_jacobians(cell, u))
    torch.testing.assert_close(list(step_jacobians(cell, u)), first)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert cell.training


def test_exponents_survive_products_beyond_float_range():
    u = _noise(200, batch=1)
    assert largest_exponent(linear(1e-3 * np.eye(2)), u).item() == pytest.approx(math.log(1e-3))
    assert largest_exponent(linear(1e3 * np.eye(2)), u).item() == pytest.approx(math.log(1e3))
    assert largest_exponent(linear(np.zeros((2, 2))), u).item() == -math.inf


@pytest.fixture
def u():
    return torch.randn(T, BATCH, FEATURES, dtype=torch.float64, generator=torch.manual_seed(3))


@pytest.mark.parametrize("name", ["rnn", "lstm", "unicornn", "irnn"])
@pytest.mark.parametrize("start", [1, T - 1])
def test_gain_is_the_derivative_of_the_last_state(name, start, u):
    cell = make_cell(name, FEATURES, WIDTH).double().requires_grad_(False)

    def last(h, states):
        states = list(states)
        states[cell.readout] = h
        return cell(u[start:], tuple(states), engine="reference")[1][cell.readout]

    _, states = cell(u[:start], engine="reference")
    h = states[cell.readout]
    whole = torch.autograd.functional.jacobian(lambda h: last(h, states), h)
    for i, gain in enumerate(log_gain(cell, u, start)):
        expected = torch.linalg.matrix_norm(whole[i, :, i], 2).log10()
        torch.testing.assert_close(gain, expected, rtol=1e-10, atol=1e-10)


def test_gain_beyond_float_range_is_finite(u):
    cell = make_cell("linear_rnn", FEATURES, WIDTH).double().requires_grad_(False)
    cell.W.copy_(1e-40 * torch.eye(WIDTH))
    assert log_gain(cell, u, 1).tolist() == pytest.approx([-40 * (T - 1)] * BATCH)


@pytest.mark.parametrize("clip", [None, 0.2])
def test_lem_time_steps_follow_its_equation(clip, u):
    cell = make_cell("lem", FEATURES, WIDTH, dt=0.5, clip=clip)
    state = cell.initial_state(BATCH)
    steps = []
    for u_t in u.float():
        a = state[0] @ cell.W[: 2 * WIDTH].T + u_t @ cell.V[: 2 * WIDTH].T + cell.b[: 2 * WIDTH]
        steps.append(0.5 * torch.sigmoid(a).detach())
        state = cell.step(cell.weights(), state, u_t)
    steps = torch.stack(steps)
    if clip is not None:
        steps = steps.clamp(clip, 1)
    shares = count_time_steps(cell, u.float())
    for kind, steps_of_kind in enumerate(steps.chunk(2, dim=-1)):
        counts, _ = np.histogram(np.log10(steps_of_kind.double().numpy()), DECADES)
        expected = counts / steps_of_kind.numel()
        np.testing.assert_allclose(shares[kind], expected)
    assert np.isnan(shares[2]).all()


def test_unicornn_has_one_time_step_per_neuron(u):
    cell = make_cell("unicornn", FEATURES, WIDTH, layers=2, dt=(0.1, 0.4))
    torch.nn.init.zeros_(cell.c[0])
    shares = count_time_steps(cell, u.float())
    assert shares[0][np.searchsorted(DECADES, np.log10(0.05), side="right") - 1] == 1
    assert shares[1].sum() == pytest.approx(1)


def test_as_many_kinds_of_time_steps_are_counted_as_are_stored(u):
    def shares_of(layers):
        return count_time_steps(make_cell("unicornn", FEATURES, WIDTH, layers=layers), u.float())

    assert shares_of(3).sum(axis=1) == pytest.approx([1, 1, 1])
    with pytest.raises(ValueError, match="expected 1 to 3 kinds of time steps to count, got 4"):
        shares_of(4)


def test_time_steps_below_all_bins_are_in_the_lowest_one(u):
    shares = count_time_steps(make_cell("unicornn", FEATURES, WIDTH, dt=1e-9), u.float())
    assert shares[0][0] == 1 == shares[0].sum()


def _irnn(norm=0.6, **more):
    torch.manual_seed(0)
    settings = {"phi": "tanh", "inner_steps": 1, "eta": 0.4, "train_eta": "fixed"} | more
    cell = make_cell("irnn", FEATURES, WIDTH, **settings).double().requires_grad_(False)
    cell.U.mul_(norm / torch.linalg.matrix_norm(cell.U, 2))
    cell.b.normal_()
    return cell


@pytest.mark.parametrize("form", [5, 8])
def test_low_rank_leaves_zero_eigenvalues(form):
    rank = 2
    cell = make_cell("irnn", FEATURES, WIDTH, rank=rank, form=form, inner_steps=2)
    cell.double().requires_grad_(False).b.fill_(5.0)  # all neurons active
    eigenvalues = equilibrium_eigenvalues(cell, torch.randn(4, 3, FEATURES, dtype=torch.float64))
    assert ((eigenvalues.abs() < 1e-9).sum(-1) == WIDTH - rank).all()
    U = torch.eye(WIDTH, dtype=torch.float64) + cell.V @ cell.H
    if form == 8:
        U = U @ U
    left = torch.trace(U) - WIDTH
    torch.testing.assert_close(eigenvalues.sum(-1).real, left.expand(4, 3))
    by_sign, by_size = real_part_fractions(eigenvalues)
    assert by_sign[1] == pytest.approx((WIDTH - rank) / WIDTH)
    assert by_sign.sum() == pytest.approx(1)
    assert by_size.sum() == pytest.approx(1)
    assert by_size[REAL_PARTS.index(0.0)] >= by_sign[1]


def test_equilibria_are_stable_for_small_norms_only():
    small = equilibrium_eigenvalues(_irnn(0.6), _noise(4, 3, FEATURES))
    assert (small.real < 0).all(), "||U|| < alpha"
    large = equilibrium_eigenvalues(_irnn(9.0), _noise(20, 3, FEATURES))
    assert (large.real > 0).any()


def test_real_parts_are_counted_by_sign_and_size():
    by_sign, by_size = real_part_fractions(torch.tensor([-9 + 1j, -0.96, 1e-10, -1e-10 + 2j, 0.3]))
    assert by_sign.tolist() == [0.4, 0.4, 0.2]
    counted = {REAL_PARTS[k]: share for k, share in enumerate(by_size) if share}
    assert counted == {-3.0: 0.2, -1.0: 0.2, 0.0: 0.4, 0.3: 0.2}


GRU = make_cell("gru", FEATURES, WIDTH)
SHORT = torch.zeros(3, 1, FEATURES)

PROBES = {
    "adjoint_norms": lambda cell, u: adjoint_norms(cell, u, sums).full,
    "coadjoint_loss": lambda cell, u: coadjoint_loss(cell, u, sums, kappa=1.0).total.detach(),
    "step_jacobians": lambda cell, u: torch.stack(list(step_jacobians(cell, u))),
    "largest_exponent": largest_exponent,
    "singular_values": singular_values,
    "log_gain": lambda cell, u: log_gain(cell, u, 1),
    "count_time_steps": lambda cell, u: torch.from_numpy(count_time_steps(cell, u)),
}
each_probe = pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)


@each_probe
def test_probes_measure_layers_and_one_step_cells(probe):
    torch.manual_seed(0)
    layer = longrnn.LEM(FEATURES, WIDTH)
    one_step = longrnn.LEMCell(FEATURES, WIDTH)
    one_step.cell.load_state_dict(layer.cells["l0"].state_dict())
    u = torch.randn(5, 2, FEATURES)
    expected = probe(layer.cells["l0"], u)
    for module in (layer, one_step):
        torch.testing.assert_close(probe(module, u), expected, rtol=0, atol=0, equal_nan=True)


@each_probe
@pytest.mark.parametrize(
    ("module", "error", "message"),
    [
        (torch.nn.LSTM(FEATURES, 2), TypeError, "a layer that has one cell, got LSTM; .*LEM"),
        (
            longrnn.LEM(FEATURES, 2, num_layers=2),
            ValueError,
            r"got LEM with l0, l1; .* layer.cells\['l0'\], and the inputs that it gets",
        ),
        (
            longrnn.LEM(FEATURES, 2, bidirectional=True),
            ValueError,
            r"got LEM with l0, l0_reverse; .* layer.cells\['l0'\]",
        ),
        (
            longrnn.LEM(FEATURES, 2, batch_first=True),
            ValueError,
            r"batch_first=True; pass layer.cells\['l0'\] and input.transpose\(0, 1\)",
        ),
    ],
)
def test_probes_say_what_to_pass_instead(probe, module, error, message):
    with pytest.raises(error, match=message):
        probe(module, SHORT)


@each_probe
@pytest.mark.parametrize(
    ("u", "error", "message"),
    [
        (SHORT.numpy(), TypeError, r"LEM: .* got ndarray; .* torch.from_numpy"),
        (SHORT[:, 0], ValueError, r"LEM: expected input \(time, batch, input\) .* got \(3, 3\)"),
        (SHORT[..., :2], ValueError, r"LEM: .* with input=3, got \(3, 1, 2\)"),
        (SHORT[:0], ValueError, "LEM: expected at least one time step"),
        (SHORT + math.nan, ValueError, "LEM: expected finite input"),
    ],
)
def test_probes_check_the_sequences(probe, u, error, message):
    with pytest.raises(error, match=message):
        probe(longrnn.LEM(FEATURES, WIDTH), u)


HEAD = torch.nn.Linear(WIDTH, 1)


@pytest.mark.parametrize(
    "losses", [lambda x: HEAD(x)[:, 0], lambda x: x @ HEAD.weight[0]], ids=["layer", "product"]
)
def test_losses_in_float32_are_refused(losses):
    message = r"losses that take outputs in float64, got .* copy.deepcopy\(head\).double\(\)"
    with pytest.raises(TypeError, match=message):
        adjoint_norms(GRU, SHORT, losses)


def test_other_errors_of_a_loss_are_not_changed():
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        adjoint_norms(GRU, SHORT, torch.nn.Linear(2, 1).double())


def test_probes_run_without_gradient_mode():
    expected = PROBES["adjoint_norms"](GRU, SHORT)
    with torch.no_grad():
        torch.testing.assert_close(PROBES["adjoint_norms"](GRU, SHORT), expected)


@pytest.mark.parametrize(
    ("losses", "shape"), [(torch.sum, r"\(\)"), (lambda x: x, rf"\(1, {WIDTH}\)")]
)
def test_losses_of_another_shape_are_refused(losses, shape):
    message = rf"expected one loss per sequence, \(1,\), got {shape}; use reduction='none'"
    with pytest.raises(ValueError, match=message):
        adjoint_norms(GRU, SHORT, losses)
    with pytest.raises(ValueError, match=message):
        coadjoint_loss(GRU, SHORT, losses, kappa=1.0)


@pytest.mark.parametrize(
    "losses", [lambda x: x.detach().sum(1), lambda x: (x > 0).sum(1)], ids=["detached", "counts"]
)
def test_losses_without_a_derivative_are_refused(losses):
    message = "losses with a derivative .*, got a tensor without a graph; .* not from output.detach"
    with pytest.raises(ValueError, match=message):
        adjoint_norms(GRU, SHORT, losses)
    with pytest.raises(ValueError, match=message):
        coadjoint_loss(GRU, SHORT, losses, kappa=1.0)


def squares(x):
    return x.square().sum(1)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ["lem", "gru", "lru"])
def test_cells_are_measured_where_gradients_are_disabled(name, mode):
    torch.manual_seed(0)
    cell = make_cell(name, FEATURES, WIDTH)
    u = torch.randn(5, 2, FEATURES)
    norms = adjoint_norms(cell, u, squares)
    exponents = largest_exponent(cell, u)
    with mode():
        assert torch.equal(adjoint_norms(cell, u, squares).full, norms.full)
        assert torch.equal(largest_exponent(cell, u), exponents)


@pytest.mark.parametrize("name", ["lem", "gru"])
def test_inputs_of_inference_mode_are_measured(name):
    torch.manual_seed(0)
    with torch.inference_mode():
        cell = make_cell(name, FEATURES, WIDTH).double()
        u = _noise(5, inputs=FEATURES)
        norms = adjoint_norms(cell, u, squares)
        exponents = largest_exponent(cell, u)
    torch.testing.assert_close(adjoint_norms(cell, u.clone(), squares).full, norms.full)
    torch.testing.assert_close(largest_exponent(cell, u.clone()), exponents)


@pytest.mark.parametrize("name", ["lem", "gru", "lstm"])
def test_cells_are_measured_on_their_own_device(name):
    cell = make_cell(name, FEATURES, WIDTH)
    u = _noise(5, inputs=FEATURES)
    expected = adjoint_norms(cell, u, squares)
    with torch.device("meta"):
        measured = adjoint_norms(cell, u, squares)
    assert torch.equal(measured.full, expected.full)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kappa", [0.0, 1.0])
@pytest.mark.parametrize("name", ["rnn", "lem"])
def test_the_penalty_is_measured_where_gradients_are_disabled(name, kappa, mode):
    torch.manual_seed(0)
    cell = make_cell(name, FEATURES, WIDTH)
    u = torch.randn(5, 2, FEATURES)
    expected = coadjoint_loss(cell, u, squares, kappa=kappa)
    with mode():
        # A product with 1 makes a tensor of this mode.
        measured = coadjoint_loss(cell, u * 1, squares, kappa=kappa)
        assert not measured.total.requires_grad
        assert measured == expected


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("name", ["rnn", "lem", "sru", "lu_rnn"])
def test_the_coadjoint_method_trains_a_head_on_a_frozen_cell(name, engine):
    torch.manual_seed(0)
    cell = make_cell(name, FEATURES, WIDTH)
    head = torch.nn.Linear(WIDTH, 1)
    u = torch.randn(5, 2, FEATURES)
    gradients = []
    for is_trained in (True, False):
        cell.requires_grad_(is_trained)
        total, *_ = coadjoint_loss(cell, u, lambda x: squares(head(x)), kappa=1.0, engine=engine)
        gradients.append(torch.autograd.grad(total, list(head.parameters())))
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


def test_the_coadjoint_method_trains_with_dropout():
    cell = make_cell("unicornn", FEATURES, WIDTH, dropout=0.5)
    u = torch.randn(5, 2, FEATURES)
    torch.manual_seed(1)
    outputs, _ = cell(u)
    torch.manual_seed(1)
    penalized = coadjoint_loss(cell, u, squares, kappa=1.0)
    torch.testing.assert_close(penalized.loss, squares(outputs[-1]).mean())


test_impossible_measurements_are_refused = refused(
    ValueError,
    ("start between 0 and 2, got 3", lambda: next(step_jacobians(GRU, SHORT, start=3))),
    ("gru: expected 1 to 3 kinds of time steps .* got 0", lambda: count_time_steps(GRU, SHORT)),
    ("gru: expected an iRNN.*remove eigenvalues from", lambda: equilibrium_eigenvalues(GRU, SHORT)),
)
