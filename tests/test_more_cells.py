"""The cells beyond the factorial study against second transcriptions of their papers' equations.

Every case is written in numpy, one sequence and one matrix at a time, without calling the cell's own functions.
"""

import inspect
import math

import numpy as np
import pytest
import test_cells
import torch

from lib.adjoint import adjoint_norms
from lib.cells import cell_names, make_cell, unroll
from lib.cells.sru import SRU

T, B, P, D = 11, 3, 2, 5

PHI = {"relu": lambda a: np.maximum(a, 0), "tanh": np.tanh}


def _sigmoid(a):
    return 1 / (1 + np.exp(-a))


PHI["sigmoid"] = _sigmoid


def _values(*parameters):
    return [parameter.detach().numpy() for parameter in parameters]


def _unicornn(cell, u, masks=None):
    L, S = cell.layers, cell.skip
    dts = cell.dt if isinstance(cell.dt, tuple) else [cell.dt] * L
    y, z = np.zeros((L + 1, D)), np.zeros((L + 1, D))  # row k is layer k
    out = []
    for u_n in u:
        handed = {0: u_n}
        for k in range(1, L + 1):
            w, V, b, c = _values(cell.w[k - 1], cell.V[k - 1], cell.b[k - 1], cell.c[k - 1])
            x = V @ handed[k - 1]
            if S and k > S:
                x = x + cell.skips[k - S - 1].detach().numpy() @ handed[k - S - 1]
            step = dts[k - 1] * (0.5 + 0.5 * np.tanh(c / 2))
            z[k] = z[k] - step * (np.tanh(w * y[k] + x + b) + cell.alpha * y[k])
            y[k] = y[k] + step * z[k]
            handed[k] = y[k] * masks[k - 1] if masks and k < L else y[k].copy()
        out.append(y[L].copy())
    return out


def _lem(cell, u):
    W, W_y, V, b = _values(cell.W, cell.W_y, cell.V, cell.b)
    y, z, out = np.zeros(D), np.zeros(D), []
    for u_n in u:
        if cell.single_scale:
            slow = fast = cell.dt
            (W_z,) = np.split(W, 1)
            (V_z, V_y), (b_z, b_y) = np.split(V, 2), np.split(b, 2)
        else:
            W_1, W_2, W_z = np.split(W, 3)
            (V_1, V_2, V_z, V_y), (b_1, b_2, b_z, b_y) = np.split(V, 4), np.split(b, 4)
            fast = cell.dt * _sigmoid(W_1 @ y + V_1 @ u_n + b_1)
            slow = cell.dt * _sigmoid(W_2 @ y + V_2 @ u_n + b_2)
            if cell.clip is not None:
                fast, slow = (np.minimum(np.maximum(s, cell.clip), 1) for s in (fast, slow))
        z = (1 - fast) * z + fast * np.tanh(W_z @ y + V_z @ u_n + b_z)
        y = (1 - slow) * y + slow * np.tanh(W_y @ z + V_y @ u_n + b_y)
        out.append(y)
    return out


def _irnn(cell, u, phi="relu"):
    W, b, eta = _values(cell.W, cell.b, cell.eta)
    if cell.rank is None:
        (U,) = _values(cell.U)
        P_matrix = np.eye(D)
    else:
        V, H = _values(cell.V, cell.H)
        P_matrix = U = cell.alpha * np.eye(D) + V @ H
    h, out = np.zeros(D), []
    for x in u:
        g = np.zeros(D)
        for eta_i in eta:
            inside = P_matrix @ (U @ (g + h) + W @ x + b)
            g = g + eta_i * (PHI[phi](inside) - cell.alpha * (g + h))
        h = g
        out.append(h)
    return out


def _cornn(cell, u):
    W, W_z, V, b = _values(cell.W, cell.W_z, cell.V, cell.b)
    y, z, out = np.zeros(D), np.zeros(D), []
    for u_n in u:
        driven = z + cell.dt * np.tanh(W @ y + W_z @ z + V @ u_n + b) - cell.dt * cell.gamma * y
        if cell.implicit:  # (1 + dt epsilon) z_n = driven
            z = np.linalg.solve((1 + cell.dt * cell.epsilon) * np.eye(D), driven)
        else:
            z = driven - cell.dt * cell.epsilon * z
        y = y + cell.dt * z
        out.append(y)
    return out


def _indrnn(cell, u, phi="relu"):
    inputs = list(u)
    for W, w, b in zip(cell.W, cell.w, cell.b, strict=True):
        W, w, b = _values(W, w, b)
        if cell.bound is not None:
            w = np.clip(w, -cell.bound, cell.bound)
        h, out = np.zeros(D), []
        for x in inputs:
            h = PHI[phi](W @ x + w * h + b)
            out.append(h)
        inputs = out
    return inputs


def _fastrnn(cell, u, phi="tanh"):
    U, W, b, alpha, beta = _values(cell.U, cell.W, cell.b, cell.alpha_free, cell.beta_free)
    h, out = np.zeros(D), []
    for x in u:
        h = _sigmoid(alpha) * PHI[phi](W @ x + U @ h + b) + _sigmoid(beta) * h
        out.append(h)
    return out


def _fastgrnn(cell, u):
    U, W = (
        factors[0] if len(factors) == 1 else factors[0] @ factors[1].T
        for factors in (_values(*cell.U), _values(*cell.W))
    )
    b_z, b_h, zeta, nu = _values(cell.b_z, cell.b_h, cell.zeta_free, cell.nu_free)
    zeta, nu = _sigmoid(zeta), _sigmoid(nu)
    h, out = np.zeros(D), []
    for x in u:
        z = _sigmoid(W @ x + U @ h + b_z)
        h = (zeta * (1 - z) + nu) * np.tanh(W @ x + U @ h + b_h) + z * h
        out.append(h)
    return out


def _gated_antisymmetric(cell, u):
    M, R, b = _values(cell.M, cell.R, cell.b)
    (R_z, R_x), (b_z, b_x) = np.split(R, 2), np.split(b, 2)
    A = M - M.T - cell.gamma * np.eye(D)
    x, out = np.zeros(D), []
    for u_t in u:
        gate = _sigmoid(A @ x + R_z @ u_t + b_z)
        x = x + cell.epsilon * gate * np.tanh(A @ x + R_x @ u_t + b_x)
        out.append(x)
    return out


def _lstm(cell, u, scale_forget=1.0, scale_input=1.0):
    W, R, b = _values(cell.W, cell.R, cell.b)
    h, c, out = np.zeros(D), np.zeros(D), []
    for u_t in u:
        i, f, g, o = np.split(W @ h + R @ u_t + b, 4)
        c = scale_forget * _sigmoid(f) * c + scale_input * _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        out.append(h)
    return out


def _dt_lstm(cell, u):
    return _lstm(cell, u, {1: cell.dt, 2: 1 - cell.dt}[cell.version], cell.dt)


def _linear_rnn(cell, u):
    # (2.17) in place of the recurrence: sums of powers of W.
    W, R, b = _values(cell.W, cell.R, cell.b)
    return [
        sum(np.linalg.matrix_power(W, t - s) @ (R @ u[s] + b) for s in range(t + 1))
        for t in range(len(u))
    ]


def _interchanging(cell, u, W):
    R, b = _values(cell.R, cell.b)
    x, out, turn = np.zeros(D), [], W
    for t, u_t in enumerate(u, start=1):
        x = np.tanh(turn @ x + R @ u_t + b)
        out.append(x)
        if t % cell.tau == 0:
            turn = np.linalg.inv(turn)
    return out


def _lu_rnn(cell, u):
    (a,) = _values(cell.factors)
    L, U = np.eye(D), np.zeros((D, D))
    for i in range(D):
        for j in range(D):
            if i > j:
                L[i, j] = a[i, j]
            elif i < j:
                U[i, j] = a[i, j]
            else:
                U[i, i] = math.copysign(math.hypot(a[i, i], cell.pivot), a[i, i])
    return _interchanging(cell, u, L @ U)


def _inverse_rnn(cell, u):
    return _interchanging(cell, u, cell.W.detach().numpy())


def _sru(cell, u):
    inputs = list(u)
    alpha = math.sqrt(1 + 2 * math.exp(HIGHWAY_BIAS))
    for n, parts in enumerate(zip(cell.W, cell.v, cell.b, strict=True)):
        W_all, v, b = _values(*parts)
        (W_f, W, W_r), (v_f, v_r), (b_f, b_r) = np.split(W_all, 3), np.split(v, 2), np.split(b, 2)
        c, out = np.zeros(D), []
        for x in inputs:
            f = _sigmoid(W_f @ x + v_f * c + b_f)
            r = _sigmoid(W_r @ x + v_r * c + b_r)
            c = f * c + (1 - f) * (W @ x)
            carried = cell.skip.detach().numpy() @ x if n == 0 else x
            out.append(r * c + (1 - r) * alpha * carried)
        inputs = out
    return inputs


HIGHWAY_BIAS = -0.7

CASES = {
    "unicornn": [
        (_unicornn, {"layers": 3, "dt": (0.05, 0.3, 0.2)}),
        (_unicornn, {"layers": 5, "dt": 0.3, "skip": 2, "alpha": 0.0}),
        (_unicornn, {"layers": 4, "dt": (0.1, 0.2, 0.2, 0.2), "skip": 3}),
        (_unicornn, {"train_c": False}),
    ],
    "lem": [
        (_lem, {}),
        (_lem, {"dt": 0.3}),
        (_lem, {"dt": 1.8, "clip": 0.5}),
        (_lem, {"dt": 0.4, "single_scale": True}),
        (_lem, {"chrono": 100}),
    ],
    "irnn": [
        (_irnn, {}),
        (_irnn, {"inner_steps": 1, "alpha": 0.7}),
        (_irnn, {"inner_steps": 3, "rank": 2}),
        (lambda cell, u: _irnn(cell, u, "tanh"), {"rank": 3, "phi": "tanh", "alpha": 1.2}),
        (lambda cell, u: _irnn(cell, u, "sigmoid"), {"phi": "sigmoid"}),
    ],
    "cornn": [(_cornn, {}), (_cornn, {"implicit": True, "dt": 0.2, "gamma": 1.5, "epsilon": 3.0})],
    "indrnn": [
        (_indrnn, {}),
        (_indrnn, {"layers": 3, "bound": 0.6}),
        (lambda cell, u: _indrnn(cell, u, "tanh"), {"phi": "tanh"}),
    ],
    "fastrnn": [
        (_fastrnn, {}),
        (lambda cell, u: _fastrnn(cell, u, "relu"), {"phi": "relu"}),
    ],
    "fastgrnn": [(_fastgrnn, {}), (_fastgrnn, {"rank_U": 3, "rank_W": 1})],
    "gated_antisymmetric": [(_gated_antisymmetric, {"epsilon": 0.4, "gamma": 0.2})],
    "chrono_lstm": [(_lstm, {"chrono": 50})],
    "dt_lstm": [(_dt_lstm, {"version": 1, "dt": 0.4}), (_dt_lstm, {"version": 2})],
    "linear_rnn": [(_linear_rnn, {})],
    "lu_rnn": [(_lu_rnn, {"tau": 3}), (_lu_rnn, {"tau": 1, "pivot": 0.5}), (_lu_rnn, {})],
    "inverse_rnn": [(_inverse_rnn, {"tau": 3}), (_inverse_rnn, {"tau": 1})],
    "sru": [
        (_sru, {"layers": 1, "highway_bias": HIGHWAY_BIAS}),
        (_sru, {"layers": 3, "highway_bias": HIGHWAY_BIAS}),
    ],
}
PARAMETERS = [
    pytest.param(name, transcription, hyper, id=f"{name}-{n}")
    for name, cases in CASES.items()
    for n, (transcription, hyper) in enumerate(cases)
]


def _perturbed(name, **hyper_parameters):
    """Return a cell in float64, away from the special values of its initialisation."""
    torch.manual_seed(0)
    cell = make_cell(name, P, D, **hyper_parameters).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return cell


@pytest.fixture
def u():
    return torch.randn(T, B, P, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_every_transcription_belongs_to_a_cell():
    assert {*CASES, *test_cells.TRANSCRIBED} <= set(cell_names())


def test_every_hyper_parameter_is_varied():
    for name, cases in CASES.items():
        signature = inspect.signature(type(make_cell(name, P, D)).__init__).parameters
        known = {p.name for p in signature.values() if p.kind is p.KEYWORD_ONLY}
        varied = set().union(*(hyper for _, hyper in cases))
        of_engines = {"backward", "checkpoint"}  # the reference heeds none
        assert known - varied <= {"dropout"} | of_engines, name  # which has tests of its own


@pytest.mark.parametrize("name, transcription, hyper", PARAMETERS)
def test_reference_equals_an_independent_transcription(name, transcription, hyper, u):
    cell = _perturbed(name, **hyper)
    outputs, _ = cell(u, engine="reference")
    assert outputs.std() > 1e-3, "nothing happens in this case"
    for sequence in range(B):
        expected = np.stack(transcription(cell, u[:, sequence].numpy()))
        np.testing.assert_allclose(outputs[:, sequence].detach(), expected, atol=1e-12)


@pytest.mark.parametrize("name, transcription, hyper", PARAMETERS)
def test_variants_pass_gradcheck(name, transcription, hyper, u):
    cell = _perturbed(name, **hyper)
    trained = {label: p for label, p in cell.named_parameters() if p.requires_grad}

    def last(u, *parameters):
        call = torch.func.functional_call(
            cell, dict(zip(trained, parameters, strict=True)), (u,), {"engine": "reference"}
        )
        return call[0][-1]

    # Four steps pass an interchange at tau = 3.
    inputs = (u[:4].clone().requires_grad_(), *trained.values())
    assert torch.autograd.gradcheck(last, inputs, fast_mode=True)


# UnICORNN's masks


def test_masks_act_between_the_layers_and_are_the_same_at_all_times(u):
    cell = _perturbed("unicornn", layers=4, skip=2, dropout=0.4).train()
    torch.manual_seed(7)
    outputs, _ = cell(u)
    torch.manual_seed(7)
    keep = 1 - 0.4
    masks = [torch.empty(B, D, dtype=torch.float64).bernoulli_(keep) / keep for _ in range(3)]
    assert len(torch.stack(masks).unique()) == 2
    for sequence in range(B):
        own = [mask[sequence].numpy() for mask in masks]
        expected = _unicornn(cell, u[:, sequence].numpy(), own)
        np.testing.assert_allclose(outputs[:, sequence].detach(), np.stack(expected), atol=1e-12)


def test_masks_are_drawn_in_training_alone_and_anew_for_each_call(u):
    cell = _perturbed("unicornn", dropout=0.5)
    plain = _perturbed("unicornn")
    assert not torch.equal(cell(u)[0], cell(u)[0])
    cell.eval()
    torch.testing.assert_close(cell(u)[0], plain(u)[0], rtol=0, atol=0)


def test_masks_leave_the_step_pure_and_the_adjoint_alone(u):
    cell = _perturbed("unicornn", dropout=0.5).train()
    weights = cell.weights(cell._draw_masks(u))
    first, _ = unroll(cell.step, weights, cell.initial_state(B), u, readout=cell.readout)
    second, _ = unroll(cell.step, weights, cell.initial_state(B), u, readout=cell.readout)
    assert torch.equal(first, second)
    measured = adjoint_norms(cell, u, lambda x: x.sum())
    expected = adjoint_norms(_perturbed("unicornn"), u, lambda x: x.sum())
    assert torch.equal(measured.full, expected.full)


def test_equal_steps_in_every_layer_are_the_plain_equation(u):
    one, each = _perturbed("unicornn", dt=0.2), _perturbed("unicornn", dt=(0.2, 0.2))
    assert each.dt == 0.2
    assert torch.equal(one(u)[0], each(u)[0])


def test_a_named_engine_is_refused_where_none_knows_the_variant(u):
    cell = _perturbed("unicornn", dt=(0.1, 0.2))
    with pytest.raises(ValueError, match="stacked unicornn has no engine 'library'"):
        cell(u, engine="library")


def test_a_fixed_c_is_not_trained():
    cell = make_cell("unicornn", P, D, train_c=False)
    trained = {name.split(".")[0] for name, p in cell.named_parameters() if p.requires_grad}
    assert trained == {"w", "V", "b"}


# Initialisation


def test_chrono_initialisation_spreads_the_gates_over_the_range():
    torch.manual_seed(0)
    lstm = make_cell("chrono_lstm", 1, 4000, chrono=100)
    i, f, g, o = lstm.b.detach().chunk(4)
    assert torch.equal(i, -f) and not g.any() and not o.any()
    assert 0 <= f.min() < 0.1 and math.log(95) < f.max() <= math.log(99)
    assert f.exp().mean().item() == pytest.approx(50, rel=0.05)  # uniform before the logarithm
    lem = make_cell("lem", 1, 4000, dt=0.5, chrono=100)
    b_1, *others = lem.b.detach().chunk(4)
    assert not torch.stack(others).any()
    assert -math.log(49) <= b_1.min() < -math.log(47) and b_1.max() <= 0
    assert (-b_1).exp().mean().item() == pytest.approx(25, rel=0.05)


def test_sru_carries_its_input_at_the_size_of_its_output():
    torch.manual_seed(0)
    cell = SRU(200, 200, highway_bias=-2.0)
    outputs, _ = cell(torch.randn(1, 300, 200))  # the scaling correction is made for one step
    assert outputs.std().item() == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize(
    "name, wrong, complaint",
    [
        ("unicornn", {"dt": (0.1, 0.2, 0.3)}, "one dt, or one for each of the 2 layers"),
        ("unicornn", {"dt": (0.1, 1.2)}, "0 < dt < 1"),
        ("unicornn", {"layers": 4, "skip": 1}, "2 <= skip < layers = 4"),
        ("unicornn", {"layers": 3, "skip": 3}, "2 <= skip < layers = 3"),
        ("unicornn", {"dropout": 1.0}, "0 <= dropout < 1"),
        ("lem", {"dt": 2.5}, "0 < dt <= 2"),
        ("lem", {"clip": 0.0}, "0 < clip <= 1"),
        ("lem", {"dt": 0.1, "chrono": 10}, r"chrono \* dt >= 2"),
        ("lem", {"single_scale": True, "clip": 0.5}, "no clip and no chrono"),
        ("irnn", {"inner_steps": 0}, "inner_steps >= 1"),
        ("irnn", {"rank": 6}, "1 <= rank <= 5"),
        ("irnn", {"phi": "gelu"}, "an activation among relu, tanh, sigmoid, got 'gelu'"),
        ("cornn", {"gamma": 0.0}, "gamma > 0"),
        ("indrnn", {"bound": 0.0}, "bound > 0"),
        ("fastrnn", {"phi": "swish"}, "an activation among"),
        ("fastgrnn", {"rank_W": 3}, "1 <= rank_W <= 2"),
        ("gated_antisymmetric", {"epsilon": 0}, "0 < epsilon <= 1"),
        ("chrono_lstm", {"chrono": 1}, "chrono >= 2"),
        ("dt_lstm", {"version": 3}, "version 1 or 2"),
        ("lu_rnn", {"tau": 0}, "tau to be a positive integer"),
        ("lu_rnn", {"pivot": 0.0}, "pivot > 0"),
        ("inverse_rnn", {"tau": 2.5}, "tau to be a positive integer"),
        ("sru", {"layers": 0}, "layers >= 1"),
    ],
)
def test_hyper_parameters_out_of_range_are_refused(name, wrong, complaint):
    with pytest.raises(ValueError, match=f"{name}: expected.*{complaint}"):
        make_cell(name, P, D, **wrong)
