"""The time steps of a network, and what is left of its first state in its last."""

import numpy as np
import pytest
import torch

from lib.cells import make_cell
from lib.probes.lyapunov import log_gain
from lib.probes.time_steps import DECADES, counted

T, BATCH, FEATURES, WIDTH = 12, 3, 2, 5


@pytest.fixture
def u():
    return torch.randn(T, BATCH, FEATURES, dtype=torch.float64, generator=torch.manual_seed(3))


@pytest.mark.parametrize("name", ["rnn", "lstm", "unicornn", "irnn"])
@pytest.mark.parametrize("start", [1, T - 1])
def test_the_gain_is_the_derivative_of_the_last_state(name, start, u):
    cell = make_cell(name, FEATURES, WIDTH).double().requires_grad_(False)

    def last(h, states):
        states = [h if i == cell.readout else part for i, part in enumerate(states)]
        return cell(u[start:], tuple(states), engine="reference")[1][cell.readout]

    _, states = cell(u[:start], engine="reference")
    h = states[cell.readout]
    whole = torch.autograd.functional.jacobian(lambda h: last(h, states), h)
    for i, gain in enumerate(log_gain(cell, u, start)):
        expected = torch.linalg.matrix_norm(whole[i, :, i], 2).log10()
        torch.testing.assert_close(gain, expected, rtol=1e-10, atol=1e-10)


def test_a_gain_beyond_all_floats_is_finite(u):
    cell = make_cell("linear_rnn", FEATURES, WIDTH).double().requires_grad_(False)
    cell.W.copy_(1e-40 * torch.eye(WIDTH))
    assert log_gain(cell, u, 1).tolist() == pytest.approx([-40 * (T - 1)] * BATCH)


@pytest.mark.parametrize("clip", [None, 0.2])
def test_lem_counts_the_time_steps_of_its_equation(clip, u):
    cell = make_cell("lem", FEATURES, WIDTH, dt=0.5, clip=clip)
    state, steps = cell.initial_state(BATCH), []
    for u_t in u.float():
        a = state[0] @ cell.W[: 2 * WIDTH].T + u_t @ cell.V[: 2 * WIDTH].T + cell.b[: 2 * WIDTH]
        steps.append(0.5 * torch.sigmoid(a).detach())
        state = cell.step(cell.weights(), state, u_t)
    steps = torch.stack(steps) if clip is None else torch.stack(steps).clamp(clip, 1)
    shares = counted(cell, u.float())
    for kind, own in enumerate(steps.chunk(2, dim=-1)):
        expected = np.histogram(np.log10(own.double().numpy()), DECADES)[0] / own.numel()
        np.testing.assert_allclose(shares[kind], expected)
    assert np.isnan(shares[2]).all()


def test_unicornn_counts_one_time_step_a_neuron(u):
    cell = make_cell("unicornn", FEATURES, WIDTH, layers=2, dt=(0.1, 0.4))
    torch.nn.init.zeros_(cell.c[0])
    shares = counted(cell, u.float())
    assert shares[0][np.searchsorted(DECADES, np.log10(0.05), side="right") - 1] == 1
    assert shares[1].sum() == pytest.approx(1)


def test_a_cell_without_time_steps_is_named(u):
    with pytest.raises(ValueError, match="gru: expected 1 to 3 kinds of time steps .* got 0"):
        counted(make_cell("gru", FEATURES, WIDTH), u.float())
