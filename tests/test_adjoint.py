"""Adjoint norms against autograd and closed forms, and the gradients of the coadjoint method.

The closed forms reach far beyond the range of floats. Notebook 40 compares the coadjoint method
with Algorithm 2 and (2.21).
"""

import copy
import math
from unittest.mock import Mock

import mpmath
import pytest
import torch
from longrnn import kernels
from longrnn.cells import cell_names, make_cell
from longrnn.probes import Diverged, _adjoint_steps, adjoint
from longrnn.probes.adjoint import adjoint_norms, log10_sum
from longrnn.probes.coadjoint import (
    check_no_kinks,
    coadjoint_loss,
    scaled_variance,
    soft_orthogonality,
)
from longrnn.probes.lyapunov import step_jacobians
from mpmath import mp
from refusals import refused
from torch.nn import functional as F
from toys import autograd_norms, linear, sums

T = 23
B = 4
P = 3
D = 6


def _loss(x):
    return torch.sin(x @ torch.arange(1.0, x.shape[1] + 1, dtype=x.dtype))


@pytest.mark.parametrize("name", cell_names())
def test_step_and_engines_agree_with_autograd(name, monkeypatch):
    torch.manual_seed(0)
    cell = make_cell(name, P, D)
    u = torch.randn(T, B, P)
    truth = copy.deepcopy(cell).double()
    oracle = autograd_norms(truth, u.double(), lambda state: _loss(state[cell.readout]).sum())
    cases = [
        # arguments, steps per chunk
        ({}, 16),
        ({"times": range(T + 1)}, 1),
        ({"times": (1, T), "engine": "reference"}, 16),
        # by an engine of ours, if there is one
        ({"times": torch.tensor([1, T])}, 32),
        ({"times": (0, 9)}, 7),
    ]
    for arguments, chunk in cases:
        step = Mock(wraps=_adjoint_steps.Slopes)  # used by the step only
        monkeypatch.setattr(_adjoint_steps, "Slopes", step)
        monkeypatch.setattr(adjoint, "CHUNK", chunk)
        monkeypatch.setattr(adjoint, "ENGINE_CHUNK", chunk)
        measured = adjoint_norms(cell, u, _loss, **arguments)
        assert measured.times == tuple(arguments.get("times", range(1, T + 1)))
        # Other cells leave the range, as with ReLU, or have no engine.
        if name in ("rnn", "unicornn"):
            assert step.called == (not arguments or "engine" in arguments)
        if name in ("lstm", "gru"):  # by a kernel, however many times are wanted
            assert step.called == ("engine" in arguments)
        for norms, expected in zip((measured.readout, measured.full), oracle, strict=True):
            expected = expected[list(measured.times)]
            torch.testing.assert_close(norms, expected, rtol=1e-10, atol=1e-10)
    assert {p.dtype for p in cell.parameters()} == {torch.float32}, "the cell was changed"


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("name", ["lstm", "lem", "unicornn"])
def test_losses_of_the_whole_state_agree_with_autograd(name, engine):
    torch.manual_seed(0)
    cell = make_cell(name, P, D).double()
    u = torch.randn(T, B, P, dtype=torch.float64)
    oracle = autograd_norms(cell, u, lambda state: _loss(torch.cat(state, dim=1)).sum())
    measured = adjoint_norms(cell, u, _loss, engine=engine, times=(1, 9, T), whole=True)
    for norms, expected in zip((measured.readout, measured.full), oracle, strict=True):
        torch.testing.assert_close(norms, expected[[1, 9, T]], rtol=1e-10, atol=1e-10)


def test_sums_of_logarithms_may_leave_the_range_of_floats():
    logs = torch.tensor([[1.0, 2.0], [-400.0, -401.0], [-math.inf, 3.0]], dtype=torch.float64)
    expected = [math.log10(110), math.log10(1.1) - 400, 3.0]
    assert log10_sum(logs).tolist() == pytest.approx(expected)
    assert log10_sum(logs[:1], dim=0).tolist() == pytest.approx([1.0, 2.0])


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", ["lstm", "gru", "chrono_lstm"])
def test_dividing_sequences_does_not_change_norms(name, whole, monkeypatch):
    torch.manual_seed(0)
    cell = make_cell(name, P, D)
    u = torch.randn(T, B, P)
    arguments = {"times": (0, 3, 17, T), "whole": whole}
    expected = adjoint_norms(cell, u, _loss, engine="reference", **arguments)
    kernel = kernels.select(f"{name}/pull_back", "auto", u)
    for steps in (1, 7, T):
        monkeypatch.setattr(kernel, "stored_bytes", steps * kernel.vectors * B * D * 8)
        norms = adjoint_norms(cell, u, _loss, **arguments)
        torch.testing.assert_close(norms.readout, expected.readout, rtol=0, atol=1e-12)
        torch.testing.assert_close(norms.full, expected.full, rtol=0, atol=1e-12)
        torch.testing.assert_close(norms.final_states, expected.final_states)


@pytest.mark.parametrize("steps", [15, 500])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_underflowed_adjoints_are_recomputed_step_by_step(name, steps, monkeypatch):
    torch.manual_seed(0)
    cell = make_cell(name, P, D).double()
    with torch.no_grad():
        cell.b.sub_(80)  # each step shrinks the adjoint by up to 1e-35 and more
    u = torch.randn(40, 2, P)
    expected = adjoint_norms(cell, u, _loss, times=(1, 40), engine="reference")
    assert expected.full[0].max() < -400
    kernel = kernels.select(f"{name}/pull_back", "auto", u)
    intervals = []  # steps between two normalizations, of each call
    pull_back = kernel.pull_back

    def recorded_pull_back(*arguments):
        intervals.append(arguments[3])
        return pull_back(*arguments)

    monkeypatch.setattr(kernel, "pull_back", recorded_pull_back)
    monkeypatch.setattr(kernel, "stored_bytes", steps * kernel.vectors * 2 * D * 8)
    norms = adjoint_norms(cell, u, _loss, times=(1, 40))
    stretches = -(-40 // steps)
    assert intervals == [adjoint.NORMALIZE_EVERY] * stretches + [1] * stretches
    torch.testing.assert_close(norms.full, expected.full, rtol=1e-10, atol=0)
    torch.testing.assert_close(norms.readout, expected.readout, rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_zero_and_nan_adjoints_equal_the_reference(name):
    cell = make_cell(name, P, D)
    u = torch.randn(T, B, P)
    for loss in (lambda x: 0 * x.sum(1), lambda x: math.nan * x.sum(1)):
        norms = adjoint_norms(cell, u, loss, times=(1, T))
        expected = adjoint_norms(cell, u, loss, times=(1, T), engine="reference")
        torch.testing.assert_close(norms.full, expected.full, equal_nan=True)
        torch.testing.assert_close(norms.readout, expected.readout, equal_nan=True)


SCALES = [(0.1, 16), (0.5, 1), (3.0, 16), (1e-250, 16), (1e200, 16), (1e200, 1)]


@pytest.mark.parametrize(("factor", "chunk"), SCALES)
def test_scaled_rotation_is_exact_beyond_float_range(factor, chunk, monkeypatch):
    # W is a factor times an orthogonal matrix, so ||lambda_t|| = factor^(T - t) ||lambda_T||
    # exactly, here down to 1e-100000.
    steps = 400
    cell = linear(factor * torch.linalg.qr(torch.randn(D, D, dtype=torch.float64))[0])
    u = torch.zeros(steps, 2, 1, dtype=torch.float64)
    weight = torch.randn(D, dtype=torch.float64)
    monkeypatch.setattr(adjoint, "CHUNK", chunk)
    norms = adjoint_norms(cell, u, lambda x: x @ weight, times=(1, 200, steps))
    last = math.log10(weight.norm())
    expected = [last + (steps - t) * math.log10(factor) for t in (1, 200, steps)]
    assert abs(expected[0]) > 100
    for row, value in zip(norms.readout, expected, strict=True):
        assert row.tolist() == pytest.approx([value, value], rel=1e-9)


def test_an_adjoint_of_zero_stays_minus_infinity():
    cell = linear(torch.zeros(D, D))
    norms = adjoint_norms(cell, torch.zeros(5, 1, 1, dtype=torch.float64), sums)
    assert norms.readout[:, 0].tolist() == [-math.inf] * 4 + [pytest.approx(math.log10(D**0.5))]


def test_adjoints_are_scaled_per_sequence():
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


test_impossible_measurements_are_refused = refused(
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
    W_1, W_2, W_z = weights.W.flatten().tolist()
    keep_z = _closed(W_1 * y + level)
    keep_y = _closed(W_2 * y + level)
    z = keep_z * z + (1 - keep_z) * mp.tanh(W_z * y + level)
    y = keep_y * y + (1 - keep_y) * mp.tanh(weights.W_y.item() * z + level)
    return y, z


SATURATED = {
    "rnn": lambda weights, x, level: (mp.tanh(weights.W.item() * x + level),),
    "indrnn": lambda weights, h, level: (1 - _closed(weights.layers[0].w.item() * h + level),),
    "lstm": _mp_lstm,
    "lem": _mp_lem,
}
"""Steps of cells with one neuron, all biases at a level and no input, in any precision."""


def test_a_step_may_pass_arguments_by_keyword():
    cell = make_cell("rnn", P, D)
    u = torch.randn(T, B, P)
    expected = adjoint_norms(cell, u, _loss)

    def step(weights, state, u):
        inputs = torch.cat(tensors=[state[0], u], dim=1)
        matrix = torch.cat([weights.W, weights.R], dim=1)
        return (torch.tanh(input=inputs @ matrix.T + weights.b),)

    cell.step = step
    torch.testing.assert_close(adjoint_norms(cell, u, _loss).full, expected.full)


@pytest.mark.parametrize("level", [-40.0, 12.0, 18.0, 40.0])
@pytest.mark.parametrize("name", SATURATED)
def test_saturated_units_agree_with_high_precision(name, level):
    steps = 5
    torch.manual_seed(2)
    settings = {}
    if name == "indrnn":
        settings["phi"] = "sigmoid"
    cell = make_cell(name, 1, 1, **settings).double()
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
        orders = map(tuple, torch.eye(cell.states, dtype=torch.int64).tolist())
        slopes = [mp.diff(last, first, order) for order in orders]
        squares = [slope**2 for slope in slopes]
        full = float(mp.log10(mp.sqrt(sum(squares))))
        readout = float(mp.log10(abs(slopes[cell.readout])))
    u = torch.zeros(steps, 1, 1)
    for times in ((1, steps), range(1, steps + 1)):  # by an engine, by the step
        norms = adjoint_norms(cell, u, sums, times=times)
        assert norms.full[0].item() == pytest.approx(full, abs=1e-3)
        assert norms.readout[0].item() == pytest.approx(readout, abs=1e-3)


@pytest.mark.parametrize("level", [18.0, 20.0])
def test_saturated_jacobians_have_nonzero_slopes(level):
    torch.manual_seed(0)
    cell = make_cell("rnn", 1, 5).double()
    with torch.no_grad():
        cell.b.fill_(level)
    u = torch.randn(63, 1, 1, dtype=torch.float64)
    jacobians = torch.stack([of_batch[0] for of_batch in step_jacobians(cell, u, start=1)])
    assert (jacobians / cell.W.detach() > 0).all()


@pytest.mark.parametrize(("name", "factor"), [("rnn", 1e-4), ("lstm", 1e-2), ("gru", 1e-4)])
def test_chunks_that_leave_the_range_are_halved(name, factor):
    # Both paths round differently near the edge of the range, and must not come near it.
    torch.manual_seed(0)
    cell = make_cell(name, P, D).double()
    with torch.no_grad():
        cell.W.mul_(factor)
        if name != "rnn":
            cell.b.sub_(20)  # closed gates: what they keep shrinks as well
    u = torch.randn(500, 2, P)
    expected = adjoint_norms(cell, u, _loss, times=(1, 500), engine="reference")
    norms = adjoint_norms(cell, u, _loss, times=(1, 500))
    assert expected.full[0].max() < -310
    torch.testing.assert_close(norms.full, expected.full, rtol=1e-10, atol=0)


TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-4}
KINKED = {"exponential": {}, "indrnn": {}, "irnn": {}, "rnn": {"activation": "relu"}}
both_engines = pytest.mark.parametrize("engine", ["reference", "numba-cpu"])


class Case:
    """A network with an output layer and labels of two classes."""

    def __init__(self, name, sizes, dtype=torch.float64):
        self.T, self.batch, hidden, inputs = sizes
        torch.manual_seed(sum(sizes))
        self.cell = make_cell(name, inputs, hidden).to(dtype)
        self.output = torch.nn.Linear(hidden, 2).to(dtype)
        self.u = torch.randn(self.T, self.batch, inputs, dtype=dtype)
        self.labels = torch.randint(0, 2, (self.batch,))
        self.parameters = [*self.cell.parameters(), *self.output.parameters()]

    def losses(self, x):
        return F.cross_entropy(self.output(x), self.labels, reduction="none")

    def penalized(self, kappa=3.0, **more):
        return coadjoint_loss(self.cell, self.u, self.losses, kappa=kappa, **more)

    def gradient(self, **more):
        total = self.penalized(**more).total
        gradients = torch.autograd.grad(
            total, self.parameters, allow_unused=True, materialize_grads=True
        )
        return dict(zip(("W", "R", "b_1", "V", "b_2"), gradients, strict=True))


def assert_equal(actual, expected, tolerance):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


SIZES = [(1, 1, 1, 1), (1, 4, 3, 2), (2, 1, 5, 1), (38, 5, 11, 4), (140, 32, 20, 28)]
"""T, batch, hidden, input."""


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_fused_engine_equals_double_backward(sizes, dtype):
    case = Case("rnn", sizes, dtype)
    assert kernels.engine_names("rnn/adjoints") == ["reference", "numba-cpu"]
    expected = case.gradient(engine="reference")
    assert_equal(case.gradient(engine="numba-cpu"), expected, TOLERANCE[dtype])
    case.u.requires_grad_()
    totals = [case.penalized(engine=engine).total for engine in ("numba-cpu", "reference")]
    by_input = [torch.autograd.grad(total, case.u)[0] for total in totals]
    torch.testing.assert_close(*by_input, rtol=10 * TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_an_empty_batch_of_adjoints_has_no_gradient():
    W = torch.randn(3, 3, requires_grad=True)
    outputs = torch.randn(5, 0, 3)
    run = kernels.select("rnn/adjoints", "numba-cpu", outputs)
    norms = run(W, outputs, outputs[0])
    norms.sum().backward()
    assert norms.shape == (5, 0)
    assert not W.grad.any()


def test_engines_agree_on_adjoints_of_zero():
    case = Case("rnn", (17, 3, 6, 2))
    with_penalty = case.gradient(kappa=3.0, engine="reference")
    plain = case.gradient(kappa=0.0, engine="reference")
    assert (with_penalty["W"] - plain["W"]).abs().max() > 1e-6  # the penalty does count
    torch.nn.init.zeros_(case.output.weight)
    expected = case.gradient(engine="reference")
    assert all(part.isfinite().all() for part in expected.values())
    assert_equal(case.gradient(engine="numba-cpu"), expected, 1e-12)


@pytest.mark.parametrize("name", sorted({*cell_names()} - {*KINKED} | {"rnn"}))
def test_coadjoint_gradients_equal_finite_differences(name):
    case = Case(name, (5, 3, 4, 2))
    parameters = [p for p in case.parameters if p.requires_grad]

    def total(*_):  # gradcheck changes the parameters in place
        return case.penalized(kappa=5.0, engine="reference").total

    tolerances = {"eps": 1e-5, "rtol": 1e-5, "atol": 1e-7}
    assert torch.autograd.gradcheck(total, parameters, **tolerances, fast_mode=True)


@pytest.mark.parametrize("name", sorted({*cell_names()} - {*KINKED} | {"rnn"}))
def test_the_penalty_is_that_of_the_adjoint_norms(name):
    case = Case(name, (5, 3, 4, 2))
    adjoints = adjoint_norms(case.cell, case.u, case.losses, engine="reference")
    norms = 10**adjoints.readout
    of_sequence = ((norms - norms.mean(0)) ** 2).sum(0)
    penalized = case.penalized(engine="reference")
    torch.testing.assert_close(penalized.penalty, of_sequence.mean())
    losses = case.losses(adjoints.final_states[case.cell.readout])
    torch.testing.assert_close(penalized.loss, losses.mean().detach())


@pytest.mark.parametrize("name", KINKED)
def test_only_cells_with_kinks_are_refused(name):
    u = torch.randn(3, 2, 2)

    def loss(x):
        return x.sum(1)

    message = f"{name} cannot be trained .* choose an activation with a continuous derivative"
    with pytest.raises(ValueError, match=message):
        coadjoint_loss(make_cell(name, 2, 4, **KINKED[name]), u, loss, kappa=1.0)
    if name in ("indrnn", "irnn"):
        coadjoint_loss(make_cell(name, 2, 4, phi="tanh"), u, loss, kappa=1.0).total.backward()


ACTIVATIONS = {
    name: getattr(F, name)
    for name in (
        *("relu", "relu6", "leaky_relu", "rrelu", "elu", "selu", "celu", "gelu", "silu", "mish"),
        *("hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "tanhshrink"),
        *("tanh", "sigmoid", "logsigmoid", "softplus", "softsign"),
    )
}
ACTIVATIONS |= {
    "elu with alpha 0.5": lambda x: F.elu(x, 0.5),
    "celu with alpha 2": lambda x: F.celu(x, 2.0),
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "threshold": lambda x: F.threshold(x, 0.1, 0.1),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.2], dtype=x.dtype)),
    "where": lambda x: torch.where(x > 0, x, 0.5 * x),
    "masked_fill": lambda x: x.masked_fill(x < 0, 0.0),
    "clamp_min": lambda x: x.clamp_min(0.2),
    "amax": lambda x: torch.stack([x, 0.5 * x]).amax(0),
    "fmod": lambda x: x.fmod(1.0) * x,
    "softsign with a kink": lambda x: F.softsign(x) + 0.1 * x.abs(),
    "softsign of another": lambda x: x / (1 + (x + 1).abs()),
    "x abs(x)": lambda x: x * x.abs(),
}
REFUSED_ANYWAY = ("x abs(x)",)
"""The derivative is continuous, but the check does not know this combination."""


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_refused_if_their_derivative_jumps(name):
    function = ACTIVATIONS[name]
    x = torch.linspace(-7, 7, 140_001, dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(function(x).sum(), x)
    jumps = slopes.diff().abs().max().item() > 0.05  # of a smooth one, 1e-4 times its curvature
    cell = make_cell("rnn", 2, 4).double()
    cell.step = lambda weights, state, u: (function(state[0] @ weights.W.T),)
    if jumps or name in REFUSED_ANYWAY:
        message = "its step contains [a-z_0-9]+( with alpha=[0-9.]+)?, whose derivative jumps"
        with pytest.raises(ValueError, match=message):
            check_no_kinks(cell)
    else:
        check_no_kinks(cell)


def test_coadjoint_gradients_of_softsign_equal_finite_differences():
    # Its second derivative jumps at zero, its first one does not.
    torch.manual_seed(0)
    cell = make_cell("rnn", 2, 4).double()
    cell.step = lambda weights, state, u: (F.softsign(state[0] @ weights.W.T + u @ weights.R.T),)
    u = torch.randn(5, 3, 2, dtype=torch.float64)

    def total(*_):  # gradcheck changes the parameters in place
        return coadjoint_loss(cell, u, lambda x: x.square().sum(1), kappa=5.0).total

    assert torch.autograd.gradcheck(total, [cell.W, cell.R], fast_mode=True)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"kappa": -1.0}, "expected kappa, the penalty's weight, to be 0 or positive"),
        ({"kappa": float("nan")}, "to be 0 or positive, got nan"),
        ({"kappa": float("inf")}, "to be 0 or positive, got inf"),
        ({"losses": lambda x: x.mean()}, r"one loss per sequence, \(2,\), got \(\)"),
    ],
)
@both_engines
def test_wrong_coadjoint_arguments_are_refused(engine, wrong, complaint):
    case = Case("rnn", (3, 2, 4, 1))
    given = {"losses": case.losses, "kappa": 1.0, "engine": engine} | wrong
    with pytest.raises(ValueError, match=complaint):
        coadjoint_loss(case.cell, case.u, **given)


@both_engines
def test_an_infinite_penalty_raises_diverged(engine):
    case = Case("rnn", (60, 2, 4, 1), torch.float32)
    with torch.no_grad():
        case.cell.W.mul_(1e-3)
        case.cell.R.mul_(1e-3)
        case.output.weight.mul_(1e25)  # the adjoints are finite, their squares are not
    message = "penalized loss is not finite: F = .*, G = (inf|nan), kappa = 3"
    with pytest.raises(Diverged, match=message):
        case.gradient(engine=engine)


def test_kappa_zero_is_backpropagation_with_a_measured_penalty():
    case = Case("rnn", (12, 3, 5, 2))
    outputs, _ = case.cell(case.u)
    expected = torch.autograd.grad(case.losses(outputs[-1]).mean(), case.parameters)
    assert_equal(tuple(case.gradient(kappa=0.0).values()), expected, 1e-12)
    free = case.penalized(kappa=0.0)
    weighted = case.penalized(kappa=4.0)
    torch.testing.assert_close(free.penalty, weighted.penalty)
    torch.testing.assert_close(weighted.total, free.loss + 4 * free.penalty)


def test_penalties_equal_hand_computed_values():
    assert scaled_variance(torch.tensor([[5.0], [1.0]])).tolist() == [8.0]  # mean 3
    assert soft_orthogonality(torch.tensor([[0.0, -1.0], [1.0, 0.0]])) == 0
    # W'W - I has one entry 3 for diag(2, 1), and so has WW' - I.
    stretched = torch.diag(torch.tensor([2.0, 1.0]))
    assert soft_orthogonality(stretched) == 18
    assert soft_orthogonality(torch.stack([stretched, torch.eye(2)])).tolist() == [18, 0]
