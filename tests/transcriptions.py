"""The equations of the cells beyond the factorial study, transcribed from their papers a second time.

Every one is written in numpy, one sequence and one matrix at a time, without calling the cell's own functions.
"""

import math

import numpy as np
import torch

from lib.cells import make_cell

T, B, P, D = 11, 3, 2, 5

PHI = {"relu": lambda a: np.maximum(a, 0), "tanh": np.tanh}


def _sigmoid(a):
    return 1 / (1 + np.exp(-a))


PHI["sigmoid"] = _sigmoid


def _values(*parameters):
    return [parameter.detach().numpy() for parameter in parameters]


def unicornn(cell, u, masks=None):
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
    else:
        V, H = _values(cell.V, cell.H)
        U = cell.alpha * np.eye(D) + V @ H
    P_matrix = U if cell.form == 8 else np.eye(D)
    eta = np.broadcast_to(eta.reshape(len(eta), -1), (cell.inner_steps, len(u)))
    h, out = np.zeros(D), []
    for k, x in enumerate(u):
        g = np.zeros(D) if cell.inner_start == "zero" else h
        for eta_i in eta[:, k]:
            total = g + h if cell.sign == 1 else g - h
            inside = P_matrix @ (U @ total + W @ x + b)
            g = g + eta_i * (PHI[phi](inside) - cell.alpha * total)
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
        (unicornn, {"layers": 3, "dt": (0.05, 0.3, 0.2)}),
        (unicornn, {"layers": 5, "dt": 0.3, "skip": 2, "alpha": 0.0}),
        (unicornn, {"layers": 4, "dt": (0.1, 0.2, 0.2, 0.2), "skip": 3}),
        (unicornn, {"train_c": False}),
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
        (_irnn, {"form": 8, "inner_start": "previous", "train_eta": "fixed", "eta": 0.3}),
        (_irnn, {"form": 5, "rank": 2, "sign": -1, "train_eta": "one", "inner_start": "previous"}),
        (_irnn, {"sign": -1, "train_eta": "time", "length": T, "inner_steps": 2}),
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
        (_fastrnn, {"eta": 0.3}),
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
"""By cell, transcriptions and the hyper-parameters they are compared at."""


def perturbed(name, **hyper_parameters):
    """Return a cell in float64, away from the special values of its initialisation."""
    torch.manual_seed(0)
    cell = make_cell(name, P, D, **hyper_parameters).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return cell


def an_input():
    """Return an input (T, B, P), the same at each call."""
    return torch.randn(T, B, P, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
