"""Adjoint norms against float64 autograd, and against closed forms far beyond the range of floats."""

import math
from typing import NamedTuple

import pytest
import torch
from toys import shrink

from lib import kernels
from lib.cells import Cell, cell_names, make_cell
from lib.probes import adjoint
from lib.probes.adjoint import adjoint_norms, log10_sum

T, B, P, D = 23, 4, 3, 6


def _loss(x):
    return torch.sin(x @ torch.arange(1.0, x.shape[1] + 1, dtype=x.dtype)).sum()


def _autograd_norms(cell, u):
    """Return log10 norms for t = 0..T, (T+1, B) for the read-out part and the whole, by plain autograd.

    Each state is cut from its step's graph and joined again by hand: parts of a state at one time must not
    count as functions of each other.
    """
    states, grads = [cell.initial_state(u.shape[1])], []
    with torch.no_grad():
        for u_t in u:
            states.append(cell.step(cell.weights(), states[-1], u_t))
    x = states[-1][cell.readout].clone().requires_grad_()
    adjoint = [torch.zeros_like(part) for part in states[-1]]
    (adjoint[cell.readout],) = torch.autograd.grad(_loss(x), x)
    grads.append(adjoint)
    for u_t, state in zip(u.flip(0), reversed(states[:-1]), strict=True):
        start = tuple(part.clone().requires_grad_() for part in state)
        end = cell.step(cell.weights(), start, u_t)
        # A part that is read out and never read back (SRU's output) has the gradient zero.
        pulled = torch.autograd.grad(
            end, start, grads[-1], allow_unused=True, materialize_grads=True
        )
        grads.append(pulled)
    grads.reverse()
    readout = torch.stack([g[cell.readout].norm(dim=1).log10() for g in grads])
    full = torch.stack([torch.cat(list(g), 1).norm(dim=1).log10() for g in grads])
    return readout, full


@pytest.mark.parametrize("chunk", [1, 5, 64])
@pytest.mark.parametrize("name", cell_names())
def test_every_cell_agrees_with_autograd(name, chunk):
    torch.manual_seed(0)
    cell = make_cell(name, P, D).double()
    u = torch.randn(T, B, P, dtype=torch.float64)
    ours = adjoint_norms(cell, u, _loss, times=range(T + 1), chunk=chunk)
    readout, full = _autograd_norms(cell, u)
    torch.testing.assert_close(ours.readout, readout, atol=1e-10, rtol=0)
    torch.testing.assert_close(ours.full, full, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", cell_names())
def test_the_readout_agrees_with_gradients_retained_in_one_graph(name):
    torch.manual_seed(0)
    cell = make_cell(name, P, D).double()
    u = torch.randn(T, B, P, dtype=torch.float64)
    outputs, state, weights = [], cell.initial_state(B), cell.weights()
    for u_t in u.unbind(0):
        state = cell.step(weights, state, u_t)
        outputs.append(state[cell.readout])
    expected = torch.autograd.grad(
        _loss(outputs[-1]), outputs, allow_unused=True, materialize_grads=True
    )
    ours = adjoint_norms(cell, u, _loss)
    assert ours.times == tuple(range(1, T + 1))
    torch.testing.assert_close(ours.readout, torch.stack(expected).norm(dim=2).log10())


class _Weights(NamedTuple):
    W: torch.Tensor


class _Linear(Cell):
    """x_t = W x_{t-1} + u_t, known in closed form."""

    step = staticmethod(lambda weights, state, u: (state[0] @ weights.W.T + u,))
    name = "linear for this test"

    def __init__(self, W):
        super().__init__(len(W), len(W))
        self.W = torch.nn.Parameter(W)

    def weights(self):
        return _Weights(self.W)


@pytest.mark.parametrize("factor", [0.1, 0.5, 3.0, 1e-250, 1e200])
@pytest.mark.parametrize("chunk", [1, 16])
def test_a_scaled_rotation_is_exact_far_beyond_float_range(factor, chunk):
    # W = factor times orthogonal: ||lambda_t|| = factor^(T - t) ||lambda_T|| exactly, here to 1e-100000.
    steps = 400
    rotation = torch.linalg.qr(torch.randn(D, D, dtype=torch.float64))[0]
    cell = _Linear(factor * rotation)
    u = torch.zeros(steps, 2, D, dtype=torch.float64)
    weight = torch.randn(D, dtype=torch.float64)
    norms = adjoint_norms(cell, u, lambda x: (x @ weight).sum(), times=(1, 200, steps), chunk=chunk)
    last = math.log10(weight.norm())
    expected = [last + (steps - t) * math.log10(factor) for t in (1, 200, steps)]
    assert abs(expected[0]) > 100
    for row, value in zip(norms.readout, expected, strict=True):
        assert row.tolist() == pytest.approx([value, value], rel=1e-9)


def test_an_adjoint_of_exactly_zero_is_minus_infinity_and_stays_so():
    cell = _Linear(torch.zeros(D, D, dtype=torch.float64))
    norms = adjoint_norms(cell, torch.zeros(5, 1, D, dtype=torch.float64), lambda x: x.sum())
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


def test_sums_are_taken_without_leaving_the_logarithm():
    logs = torch.tensor([-400.0, -400.0, -math.inf], dtype=torch.float64)
    assert log10_sum(logs).item() == pytest.approx(-400 + math.log10(2))
    assert log10_sum(torch.full((2,), -math.inf, dtype=torch.float64)).item() == -math.inf


@pytest.mark.parametrize("times", [(0, T + 1), (-1,), ()])
def test_time_points_outside_the_sequence_are_refused(times):
    with pytest.raises(ValueError, match="expected time points between 0 and T=23"):
        adjoint_norms(make_cell("rnn", P, D), torch.zeros(T, B, P), _loss, times=times)


def test_measuring_leaves_the_cell_as_it_was():
    cell = make_cell("exponential", P, D)
    before = {name: p.clone() for name, p in cell.named_parameters()}
    adjoint_norms(cell, torch.zeros(T, B, P), _loss)
    for name, parameter in cell.named_parameters():
        assert parameter.dtype == torch.float32 and parameter.requires_grad
        assert torch.equal(parameter, before[name]), name


# ---------------------------------------------------------------------------------- engines


@pytest.mark.parametrize("chunk", [None, 1, 7])
@pytest.mark.parametrize("times", [(1, T), (0, 9)])
@pytest.mark.parametrize("name", cell_names())
def test_engines_measure_what_the_step_does(name, times, chunk):
    torch.manual_seed(0)
    cell = make_cell(name, P, D)
    u = torch.randn(T, B, P)
    expected = adjoint_norms(cell, u, _loss, times=times, engine="reference")
    found = adjoint_norms(cell, u, _loss, times=times, chunk=chunk)
    assert found.times == expected.times
    torch.testing.assert_close(found.readout, expected.readout, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.full, expected.full, rtol=1e-10, atol=1e-12)
    for part, truth in zip(found.final_states, expected.final_states, strict=True):
        torch.testing.assert_close(part, truth, rtol=1e-10, atol=1e-12)


ENGINES = [n for n in cell_names() if kernels.choose(n, "cpu", torch.float64) == "numba-cpu"]


@pytest.mark.parametrize("name", ENGINES)
def test_few_times_are_left_to_the_engine_and_many_to_the_step(name, monkeypatch):
    def refuse(*_):
        raise AssertionError("the step was asked")

    monkeypatch.setattr(adjoint, "_StepChunks", refuse)
    u = torch.zeros(T, B, P)
    adjoint_norms(make_cell(name, P, D), u, _loss, times=(1, T))
    for more in ({"times": (1, T), "engine": "reference"}, {}):
        with pytest.raises(AssertionError, match="the step was asked"):
            adjoint_norms(make_cell(name, P, D), u, _loss, **more)


@pytest.mark.parametrize("factor", [1e-4, 1e-2])
@pytest.mark.parametrize("name", ["rnn", "lstm", "gru", "exponential"])
def test_an_engine_whose_chunk_leaves_the_range_is_halved(name, factor):
    # Both paths round differently near the edge of the range, and must not come near it.
    torch.manual_seed(0)
    cell = make_cell(name, P, D).double()
    shrink(cell, factor)
    u = torch.randn(500, 2, P)
    expected = adjoint_norms(cell, u, _loss, times=(1, 500), engine="reference")
    found = adjoint_norms(cell, u, _loss, times=(1, 500))
    assert expected.full[0].max() < -310
    torch.testing.assert_close(found.full, expected.full, rtol=1e-10, atol=0)


def test_dropout_is_off_while_measuring():
    torch.manual_seed(0)
    cell = make_cell("unicornn", P, D, dropout=0.5).train()
    plain = make_cell("unicornn", P, D)
    plain.load_state_dict(cell.state_dict())
    u = torch.randn(T, B, P)
    found = adjoint_norms(cell, u, _loss, times=(1, T))
    torch.testing.assert_close(found.full, adjoint_norms(plain, u, _loss, times=(1, T)).full)
    assert cell.training


def test_an_unknown_engine_is_refused():
    with pytest.raises(ValueError, match="'auto', 'reference' or 'float32', got 'fast'"):
        adjoint_norms(make_cell("rnn", P, D), torch.zeros(T, B, P), _loss, engine="fast")
