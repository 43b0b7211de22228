"""Lyapunov exponents: a map whose exponents are known, and a second way to compute what they are made of."""

import math

import numpy as np
import pytest
import torch
from toys import linear

from lib.cells import make_cell
from lib.probes.lyapunov import largest_exponent, singular_values, step_jacobians


def _noise(T, batch=3, inputs=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(T, batch, inputs, dtype=torch.float64, generator=generator)


def _tanh_network():
    torch.manual_seed(1)
    cell = make_cell("rnn", 1, 4).double()
    with torch.no_grad():
        cell.W.mul_(2.5)
    return cell


def test_the_exponent_of_a_linear_map_is_the_logarithm_of_its_largest_eigenvalue():
    basis = np.array([[1.0, 0.4, 0.1], [0.2, 1.0, -0.3], [0.0, 0.5, 1.0]])
    cell = linear(basis @ np.diag([1.3, 0.8, 0.5]) @ np.linalg.inv(basis))
    found = largest_exponent(cell, _noise(1000))
    torch.testing.assert_close(found, torch.full((3,), math.log(1.3)).double(), atol=2e-3, rtol=0)
    angle = 0.7
    W = 0.9 * np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    expected = torch.full((3,), math.log(0.9), dtype=torch.float64)
    torch.testing.assert_close(largest_exponent(linear(W), _noise(500)), expected)


PARTS = {"rnn": None, "lstm": None, "lu_rnn": (0,), "inverse_rnn": (0,)}


@pytest.mark.parametrize(("name", "parts"), PARTS.items())
def test_the_jacobians_are_those_of_finite_differences(name, parts):
    torch.manual_seed(0)
    cell, u = make_cell(name, 2, 3).double(), _noise(4, batch=2, inputs=2)
    *_, last = step_jacobians(cell, u, parts=parts)
    _, state = cell(u[:-1])
    indices = range(len(state)) if parts is None else parts
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


def test_the_steps_before_the_start_are_run_and_not_measured():
    cell, u = _tanh_network(), _noise(40)
    every, late = (list(step_jacobians(cell, u, start=start)) for start in (0, 30))
    assert len(every) == 40
    slopes = 1 - torch.tanh(u[0] @ cell.R.T + cell.b).square()  # the state before is zero
    torch.testing.assert_close(every[0], (slopes[:, :, None] * cell.W).detach())
    torch.testing.assert_close(late, every[30:])
    product = torch.eye(4, dtype=torch.float64)
    for J in late:
        product = J @ product
    expected = np.linalg.svd(product.numpy(), compute_uv=False)  # descending
    np.testing.assert_allclose(singular_values(cell, u, start=30), expected)
    with pytest.raises(ValueError, match="start between 0 and 39, got 40"):
        next(step_jacobians(cell, u, start=40))


def test_a_product_beyond_the_range_of_floats_is_followed():
    u = _noise(200, batch=1)
    assert largest_exponent(linear(1e-3 * np.eye(2)), u).item() == pytest.approx(math.log(1e-3))
    assert largest_exponent(linear(1e3 * np.eye(2)), u).item() == pytest.approx(math.log(1e3))
    assert largest_exponent(linear(np.zeros((2, 2))), u).item() == -math.inf
