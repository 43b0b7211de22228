"""Every cell's equation, transcribed a second time from its paper: NumPy, one line per formula.

A transcription runs one sequence. It sees weights and hyperparameters and calls no function of a
cell.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from longrnn.cells import cell_class, cell_names, make_cell, unroll
from longrnn.probes.adjoint import adjoint_norms
from toys import sums

from tests.engines import TIMED, VARIANTS

T = 11
B = 3
P = 2
D = 5
I = np.eye(D)  # noqa: E741


def sigma(a):
    """Return the logistic function."""
    return 0.5 + 0.5 * np.tanh(a / 2)


PHI = {"relu": lambda a: np.maximum(a, 0), "tanh": np.tanh, "sigmoid": sigma}


# Each function takes the weights and hyperparameters `c`, the input, and the state before the step.
# It returns the state after the step.


def rnn(c, u, x):
    return (np.tanh(c.W @ x + c.R @ u + c.b),)


def linear_rnn(c, u, x):
    return (c.W @ x + c.R @ u + c.b,)


def lstm(c, u, h, state, forget=1.0, write=1.0):
    i, f, g, o = np.split(c.W @ h + c.R @ u + c.b, 4)
    state = forget * sigma(f) * state + write * sigma(i) * np.tanh(g)
    return sigma(o) * np.tanh(state), state


def dt_lstm(c, u, h, state):
    forget = 1 - c.dt
    if c.version == 1:
        forget = c.dt
    return lstm(c, u, h, state, forget, write=c.dt)


def gru(c, u, h):
    W_r, W_z, W_n = np.split(c.W, 3)
    R_r, R_z, R_n = np.split(c.R, 3)
    b_r, b_z, b_n = np.split(c.b, 3)
    r = sigma(W_r @ h + R_r @ u + b_r)
    z = sigma(W_z @ h + R_z @ u + b_z)
    return ((1 - z) * np.tanh(r * (W_n @ h) + R_n @ u + b_n) + z * h,)


def mingru(c, u, h):
    (W_z, W_h) = np.split(c.W, 2)
    (b_z, b_h) = np.split(c.b, 2)
    z = sigma(W_z @ u + b_z)
    return ((1 - z) * h + z * (W_h @ u + b_h),)


def gelu(a):
    return a * (1 + np.vectorize(math.erf)(a / math.sqrt(2))) / 2


def lru(c, u, y, re, im):
    eigenvalue = np.exp(-np.exp(c.nu) + 1j * np.exp(c.theta))
    B_re, B_im = np.split(c.B, 2)
    C_re, C_im = np.split(c.C, 2, axis=1)
    x = eigenvalue * (re + 1j * im) + np.exp(c.gamma) * ((B_re + 1j * B_im) @ u)
    s = ((C_re + 1j * C_im) @ x).real + c.D @ u
    (G_1, G_2) = np.split(c.G, 2)
    (g_1, g_2) = np.split(c.g, 2)
    y = (G_1 @ gelu(s) + g_1) * sigma(G_2 @ gelu(s) + g_2)
    return y, x.real, x.imag


def antisymmetric(c, u, x):
    return (x + c.epsilon * np.tanh((c.M - c.M.T - c.gamma * I) @ x + c.R @ u + c.b),)


def gated_antisymmetric(c, u, x):
    R_z, R_x = np.split(c.R, 2)
    b_z, b_x = np.split(c.b, 2)
    from_x = (c.M - c.M.T - c.gamma * I) @ x
    return (x + c.epsilon * sigma(from_x + R_z @ u + b_z) * np.tanh(from_x + R_x @ u + b_x),)


def lipschitz(c, u, x):
    def matrix(M):
        return (1 - c.beta) * (M + M.T) + c.beta * (M - M.T) - c.gamma * I

    A = matrix(c.M_A)
    W = matrix(c.M_W)
    return (x + c.epsilon * (A @ x + np.tanh(W @ x + c.R @ u + c.b)),)


def exponential(c, u, x):
    a = c.B @ x + c.R @ u
    return (np.where(np.abs(a) + c.b > 0, a / np.abs(a) * (np.abs(a) + c.b), 0.0),)


def cornn(c, u, y, z):
    driven = z + c.dt * np.tanh(c.W @ y + c.W_z @ z + c.V @ u + c.b) - c.dt * c.gamma * y
    z = driven - c.dt * c.epsilon * z
    return y + c.dt * z, z


def lem(c, u, y, z):
    if c.single_scale:
        slow = fast = c.dt
        W_z = c.W
        V_z, V_y = np.split(c.V, 2)
        b_z, b_y = np.split(c.b, 2)
    else:
        W_1, W_2, W_z = np.split(c.W, 3)
        V_1, V_2, V_z, V_y = np.split(c.V, 4)
        b_1, b_2, b_z, b_y = np.split(c.b, 4)
        fast = c.dt * sigma(W_1 @ y + V_1 @ u + b_1)
        slow = c.dt * sigma(W_2 @ y + V_2 @ u + b_2)
        if c.clip is not None:
            fast = np.clip(fast, c.clip, 1)
            slow = np.clip(slow, c.clip, 1)
    z = (1 - fast) * z + fast * np.tanh(W_z @ y + V_z @ u + b_z)
    return (1 - slow) * y + slow * np.tanh(c.W_y @ z + V_y @ u + b_y), z


def irnn(c, u, h, k):
    if c.rank is None:
        U = c.U
        form = c.form or 5
    else:
        U = c.alpha * I + c.V @ c.H
        form = c.form or 8
    outer = I
    if form == 8:
        outer = U
    eta = np.atleast_1d(c.eta)  # one, one per inner step, or per inner step and round
    eta = np.broadcast_to(eta.reshape(len(eta), -1), (c.inner_steps, c.length or T))
    g = h
    if c.inner_start == "zero":
        g = np.zeros(D)
    for eta_i in eta[:, int(k[0])]:
        s = g + c.sign * h
        g = g + eta_i * (PHI[c.phi](outer @ (U @ s + c.W @ u + c.b)) - c.alpha * s)
    return g, k + 1


def fastrnn(c, u, h):
    new = PHI[c.phi](c.W @ u + c.U @ h + c.b)
    return (sigma(c.alpha_free) * new + sigma(c.beta_free) * h,)


def fastgrnn(c, u, h):
    zeta = sigma(c.zeta_free)
    nu = sigma(c.nu_free)
    z = sigma(c.W @ u + c.U @ h + c.b_z)
    return ((zeta * (1 - z) + nu) * np.tanh(c.W @ u + c.U @ h + c.b_h) + z * h,)


def interchanging(c, u, x, t, W):
    interchanges = int(t[0]) // c.tau
    if interchanges % 2 == 1:
        W = np.linalg.inv(W)
    return np.tanh(W @ x + c.R @ u + c.b), t + 1


def lu_rnn(c, u, x, t):
    L = np.tril(c.factors, -1) + I
    U = np.triu(c.factors, 1)
    a = np.diag(c.factors)
    pivots = [math.copysign(math.hypot(value, c.pivot), value) for value in a]
    return interchanging(c, u, x, t, L @ (U + np.diag(pivots)))


def inverse_rnn(c, u, x, t):
    return interchanging(c, u, x, t, c.W)


def indrnn(c, u, *states):
    after = []
    for W, w, b, h in zip(c.W, c.w, c.b, states, strict=True):
        u = PHI[c.phi](W @ u + w * h + b)
        after.append(u)
    return after


def sru(c, u, *states):
    alpha = math.sqrt(3)
    after = []
    for k, (W_all, v, b) in enumerate(zip(c.W, c.v, c.b, strict=True)):
        W_f, W, W_r = np.split(W_all, 3)
        v_f, v_r = np.split(v, 2)
        b_f, b_r = np.split(b, 2)
        f = sigma(W_f @ u + v_f * states[k] + b_f)
        r = sigma(W_r @ u + v_r * states[k] + b_r)
        after.append(f * states[k] + (1 - f) * (W @ u))
        if k == 0:
            u = c.skip @ u
        u = r * after[k] + (1 - r) * alpha * u
    return [*after, u]


def unicornn(c, u, *states, masks=None):
    passed = [u]  # the input, and what each layer passes on
    after = []
    for k, (w, V, b, control) in enumerate(zip(c.w, c.V, c.b, c.c, strict=True)):
        y, z = states[2 * k : 2 * k + 2]
        x = V @ passed[k]
        if c.skip and k >= c.skip:
            x = x + c.skips[k - c.skip] @ passed[k - c.skip]
        dt = c.dt
        if isinstance(dt, tuple):
            dt = dt[k]
        step = dt * sigma(control)
        z = z - step * (np.tanh(w * y + x + b) + c.alpha * y)
        y = y + step * z
        after += [y, z]
        if masks is not None and k < c.layers - 1:
            y = y * masks[k]
        passed.append(y)
    return after


EQUATIONS = {name: globals()[name] for name in cell_names() if name in globals()}
EQUATIONS["chrono_lstm"] = lstm  # with other initial weights
"""The transcription of every cell: the function with the cell's name."""
OUTPUT_INDEX = {"indrnn": -1, "sru": -1, "unicornn": -2}
"""Index of the state tensor that is the output, if it is not the first."""
OTHER_SETTINGS = [case for case in VARIANTS + TIMED if not {"dropout", "inputs"} & {*case[1]}]
CASES = [("unicornn", {"train_c": False}), *((name, {}) for name in EQUATIONS), *OTHER_SETTINGS]


def build(name, **hyper_parameters):
    """Return a cell in float64, away from its special initial values, and an input (T, B, P)."""
    torch.manual_seed(0)
    cell = make_cell(name, P, D, **hyper_parameters).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return cell, torch.randn(T, B, P, dtype=torch.float64)


def transcribed(equation, cell, u, hyper, masks=None):
    """Return the outputs of a transcription, (T, B, D); `masks` are (layers - 1, B, D)."""
    numbers = {name: value.numpy() for name, value in cell.named_buffers()}
    for name in cell.shapes:
        value = getattr(cell, name)
        if isinstance(value, torch.nn.ParameterList):
            numbers[name] = [part.detach().numpy() for part in value]
        else:
            numbers[name] = value.detach().numpy()
    c = SimpleNamespace(**cell.checked(hyper) | numbers)
    outputs = np.zeros((T, B, D))
    states = cell.states
    if cell.name == "irnn":
        states = 2  # the transcription always counts time steps
    for sequence in range(B):
        state = [np.zeros(D)] * states
        dropout = {}
        if masks is not None:
            dropout["masks"] = masks[:, sequence]
        for t in range(T):
            state = equation(c, u[t, sequence].numpy(), *state, **dropout)
            outputs[t, sequence] = state[OUTPUT_INDEX.get(cell.name, 0)]
    return outputs


def test_every_cell_has_a_transcription():
    missing = sorted(set(cell_names()) - set(EQUATIONS))
    assert not missing, f"add functions of these names, with the papers' equations: {missing}"


def test_every_hyper_parameter_is_varied():
    elsewhere = {"activation", "dropout"}
    varied = {name: set() for name in EQUATIONS}
    for name, hyper in CASES:
        varied[name] |= set(hyper)
    for name in EQUATIONS:
        declared = set(cell_class(name).hyper_parameters)
        assert declared - elsewhere <= varied[name], f"{name}: add its settings to VARIANTS"


@pytest.mark.parametrize(("name", "hyper"), CASES)
def test_the_reference_equals_its_transcription(name, hyper):
    cell, u = build(name, **hyper)
    outputs, state = cell(u, engine="reference")
    assert outputs.std() > 1e-3, "nothing happens in this case"
    expected = transcribed(EQUATIONS[name], cell, u, hyper)
    np.testing.assert_allclose(outputs.detach(), expected, atol=1e-12)
    assert len(state) == cell.states
    assert torch.equal(outputs[-1], state[cell.readout])

    def last(u, *_):  # gradcheck changes the parameters in place
        return cell(u, engine="reference")[0][-1]

    # Four steps pass an interchange at tau = 3.
    inputs = u[:4].clone().requires_grad_(), *(p for p in cell.parameters() if p.requires_grad)
    assert torch.autograd.gradcheck(last, inputs, fast_mode=True)


def test_dropout_masks_are_constant_over_time():
    hyper = {"layers": 4, "skip": 2, "dropout": 0.4}
    cell, u = build("unicornn", **hyper)
    torch.manual_seed(7)
    outputs, _ = cell.train()(u, engine="reference")
    torch.manual_seed(7)
    masks = [torch.empty(B, D, dtype=torch.float64).bernoulli_(0.6) / 0.6 for _ in range(3)]
    assert len(torch.stack(masks).unique()) == 2
    expected = transcribed(unicornn, cell, u, hyper, masks=torch.stack(masks).numpy())
    np.testing.assert_allclose(outputs.detach(), expected, atol=1e-12)


def test_each_training_run_draws_new_masks():
    plain, u = build("unicornn", dt=(0.2, 0.2))  # equal steps in every layer are one
    cell, _ = build("unicornn", dropout=0.5, dt=0.2)
    assert not torch.equal(cell(u)[0], cell(u)[0])
    assert [mask is None for mask in cell._draw_masks(B)] == [False, True], "the last is read whole"
    arguments = cell.step, cell.weights(cell._draw_masks(B)), cell.initial_state(B), u
    first, _ = unroll(*arguments, readout=cell.readout)
    second, _ = unroll(*arguments, readout=cell.readout)
    assert torch.equal(first, second), "the step is not pure"
    norms = adjoint_norms(cell, u, sums)
    expected = adjoint_norms(plain, u, sums)
    assert torch.equal(norms.full, expected.full)
    assert cell.training
    assert torch.equal(cell.eval()(u)[0], plain(u)[0])
    assert plain.dt == 0.2
    fixed, _ = build("unicornn", train_c=False)
    trained = {name.split(".")[0] for name, p in fixed.named_parameters() if p.requires_grad}
    assert trained == {"w", "V", "b"}
