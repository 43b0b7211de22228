"""Adjoint norms against float64 autograd, and against closed forms far beyond the range of floats."""

import copy
import math
from unittest.mock import Mock

import mpmath
import pytest
import torch
from mpmath import mp
from refusals import refused
from toys import autograd_norms, linear

from lib.cells import cell_names, make_cell
from lib.probes import adjoint
from lib.probes.adjoint import adjoint_norms
from lib.probes.lyapunov import step_jacobians

T, B, P, D = 23, 4, 3, 6


def _loss(x):
    return torch.sin(x @ torch.arange(1.0, x.shape[1] + 1, dtype=x.dtype)).sum()


@pytest.mark.parametrize("name", cell_names())
def test_the_step_and_engines_agree_with_autograd(name, monkeypatch):
    torch.manual_seed(0)
    cell = make_cell(name, P, D)
    u = torch.randn(T, B, P)
    truth = copy.deepcopy(cell).double()
    oracle = autograd_norms(truth, u.double(), lambda state: _loss(state[cell.readout]))
    asked = [({}, 16), ({"times": range(T + 1)}, 1), ({"times": (1, T), "engine": "reference"}, 16)]
    asked += [
        ({"times": (1, T)}, 32),
        ({"times": (0, 9)}, 7),
    ]  # by an engine of ours, where there is one
    for arguments, chunk in asked:
        step = Mock(wraps=adjoint.Slopes)  # which the step alone needs
        monkeypatch.setattr(adjoint, "Slopes", step)
        monkeypatch.setattr(adjoint, "CHUNK", chunk)
        monkeypatch.setattr(adjoint, "ENGINE_CHUNK", chunk)
        found = adjoint_norms(cell, u, _loss, **arguments)
        assert found.times == tuple(arguments.get("times", range(1, T + 1)))
        if name in (
            "rnn",
            "gru",
            "unicornn",
        ):  # others leave the range, as with ReLU, or have no engine
            assert step.called == (not arguments or "engine" in arguments)
        for norms, expected in zip((found.readout, found.full), oracle, strict=True):
            expected = expected[list(found.times)]
            torch.testing.assert_close(norms, expected, rtol=1e-10, atol=1e-10)
    assert {p.dtype for p in cell.parameters()} == {torch.float32}, "the cell was changed"


SCALES = [(0.1, 16), (0.5, 1), (3.0, 16), (1e-250, 16), (1e200, 16), (1e200, 1)]


@pytest.mark.parametrize(("factor", "chunk"), SCALES)
def test_a_scaled_rotation_is_exact_far_beyond_float_range(factor, chunk, monkeypatch):
    # W = factor times orthogonal: ||lambda_t|| = factor^(T - t) ||lambda_T|| exactly, here to 1e-100000.
    steps = 400
    rotation = torch.linalg.qr(torch.randn(D, D, dtype=torch.float64))[0]
    cell = linear(factor * rotation)
    u = torch.zeros(steps, 2, 1, dtype=torch.float64)
    weight = torch.randn(D, dtype=torch.float64)
    monkeypatch.setattr(adjoint, "CHUNK", chunk)
    norms = adjoint_norms(cell, u, lambda x: (x @ weight).sum(), times=(1, 200, steps))
    last = math.log10(weight.norm())
    expected = [last + (steps - t) * math.log10(factor) for t in (1, 200, steps)]
    assert abs(expected[0]) > 100
    for row, value in zip(norms.readout, expected, strict=True):
        assert row.tolist() == pytest.approx([value, value], rel=1e-9)


def test_an_adjoint_of_exactly_zero_is_minus_infinity_and_stays_so():
    cell = linear(torch.zeros(D, D))
    norms = adjoint_norms(cell, torch.zeros(5, 1, 1, dtype=torch.float64), lambda x: x.sum())
    assert norms.readout[:, 0].tolist() == [-math.inf] * 4 + [pytest.approx(math.log10(D**0.5))]


def test_sequences_do_not_share_a_scale():
    torch.manual_seed(0)
    cell = make_cell("rnn", P, D)
    u = torch.randn(200, 3, P)
    u[:, 0] *= 100  # saturated: its adjoint is hundreds of orders below the others
    together = adjoint_norms(cell, u, _loss, times=(1,)).readout[0]
    alone = [adjoint_norms(cell, u[:, [i]], _loss, times=(1,)).readout[0, 0] for i in range(3)]
    assert together.tolist() == pytest.approx([value.item() for value in alone], abs=1e-9)
    assert together[0] < together[1] - 100


def _measured(**wrong):
    return lambda: adjoint_norms(make_cell("rnn", P, D), torch.zeros(T, B, P), _loss, **wrong)


test_what_cannot_be_measured_is_refused = refused(
    ValueError,
    *(("time points between 0 and T=23", _measured(times=t)) for t in ((0, 24), (-1,), ())),
    ("'auto' or 'reference', got 'fast'", _measured(engine="fast")),
)


def _closed(a):
    return 1 / (1 + mp.exp(a))  # 1 - sigma(a)


def _mp_lstm(weights, h, c, level):
    i, f, g, o = (w * h + level for w in weights.W.flatten().tolist())
    c = c * (1 - _closed(f)) + (1 - _closed(i)) * mp.tanh(g)
    return (1 - _closed(o)) * mp.tanh(c), c


def _mp_lem(weights, y, z, level):
    one, two, fast = (w * y + level for w in weights.W.flatten().tolist())
    z = _closed(one) * z + (1 - _closed(one)) * mp.tanh(fast)
    slow = mp.tanh(weights.W_y.item() * z + level)
    return _closed(two) * y + (1 - _closed(two)) * slow, z


SATURATED = {
    "rnn": lambda weights, x, level: (mp.tanh(weights.W.item() * x + level),),
    "indrnn": lambda weights, h, level: (1 - _closed(weights.layers[0].w.item() * h + level),),
    "lstm": _mp_lstm,
    "lem": _mp_lem,
}
"""Steps of cells with one neuron, all biases at a level and no input, in as many digits as one likes."""


@pytest.mark.parametrize("level", [-40.0, 12.0, 18.0, 40.0])
@pytest.mark.parametrize("name", SATURATED)
def test_saturated_units_pass_on_what_little_they_do(name, level):
    steps = 5
    torch.manual_seed(2)
    cell = make_cell(name, 1, 1, **({"phi": "sigmoid"} if name == "indrnn" else {})).double()
    with torch.no_grad():
        for label, part in cell.named_parameters():
            if label.split(".")[0] == "b":
                part.fill_(level)
    weights = cell.weights()

    def last(*state):
        for _ in range(steps - 1):
            state = SATURATED[name](weights, *state, level)
        return state[cell.readout]

    with mpmath.workdps(600):
        first = SATURATED[name](weights, *[mp.mpf(0)] * cell.states, level)
        orders = [tuple(int(i == k) for i in range(cell.states)) for k in range(cell.states)]
        slopes = [mp.diff(last, first, order) for order in orders]
        full = float(mp.log10(mp.sqrt(sum(slope**2 for slope in slopes))))
        readout = float(mp.log10(abs(slopes[cell.readout])))
    u = torch.zeros(steps, 1, 1)
    for times in ((1, steps), range(1, steps + 1)):  # by an engine, by the step
        found = adjoint_norms(cell, u, torch.sum, times=times)
        assert found.full[0].item() == pytest.approx(full, abs=1e-3)
        assert found.readout[0].item() == pytest.approx(readout, abs=1e-3)


@pytest.mark.parametrize("level", [18.0, 20.0])
def test_jacobians_of_a_saturated_rnn_have_slopes_that_are_not_zero(level):
    torch.manual_seed(0)
    cell = make_cell("rnn", 1, 5).double()
    with torch.no_grad():
        cell.b.fill_(level)
    u = torch.randn(63, 1, 1, dtype=torch.float64)
    jacobians = torch.stack([one[0] for one in step_jacobians(cell, u, start=1)])
    assert (jacobians / cell.W.detach() > 0).all()


@pytest.mark.parametrize(("name", "factor"), [("rnn", 1e-4), ("lstm", 1e-2), ("gru", 1e-4)])
def test_an_engine_whose_chunk_leaves_the_range_is_halved(name, factor):
    # Both paths round differently near the edge of the range, and must not come near it.
    torch.manual_seed(0)
    cell = make_cell(name, P, D).double()
    with torch.no_grad():
        cell.W.mul_(factor)
        if name != "rnn":
            cell.b.sub_(20)  # closed gates: what they keep shrinks as well
    u = torch.randn(500, 2, P)
    expected = adjoint_norms(cell, u, _loss, times=(1, 500), engine="reference")
    found = adjoint_norms(cell, u, _loss, times=(1, 500))
    assert expected.full[0].max() < -310
    torch.testing.assert_close(found.full, expected.full, rtol=1e-10, atol=0)
