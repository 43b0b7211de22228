"""The adjoint probe with products in float32: within a thousandth of a decade of the one in float64, and right where that is not."""

import math
from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from toys import shrink

from lib.cells import cell_names, make_cell
from lib.probes.adjoint import adjoint_norms

DECADES = 1e-3
T, B, P, D = 40, 3, 2, 6
FACTORIAL = ["rnn", "lstm", "gru", "lipschitz", "antisymmetric", "exponential", "unicornn", "lem"]


def _loss(x):
    return (x * torch.linspace(1, 2, x.shape[1], dtype=x.dtype)).sum()


@pytest.fixture
def probe():
    """Return what is tested; the GPU's kernels are held to the same (cuda_schedules.py)."""
    return partial(adjoint_norms, engine="float32")


def _both(cell, u, times, probe, **more):
    expected = partial(adjoint_norms, engine="reference")
    return (one(cell, u, _loss, times=times, **more) for one in (probe, expected))


def _assert_close(found, expected):
    for part in ("readout", "full"):
        one, two = getattr(found, part), getattr(expected, part)
        torch.testing.assert_close(one, two, atol=DECADES, rtol=0, msg=f"{part}: {one} {two}")


@pytest.mark.parametrize("name", cell_names())
def test_every_cell_agrees_with_float64(name, probe):
    torch.manual_seed(0)
    cell = make_cell(name, P, D)
    _assert_close(*_both(cell, torch.randn(T, B, P), range(T + 1), probe))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", ["lem", "lstm"])
def test_a_loss_of_all_states_is_pulled_back_too(name, whole, probe):
    torch.manual_seed(0)
    cell, u = make_cell(name, P, D), torch.randn(T, B, P)
    found, expected = _both(cell, u, (1, T), probe, whole=whole)
    _assert_close(found, expected)


@pytest.mark.parametrize("factor", [1e-4, 1e-2])
@pytest.mark.parametrize("name", ["rnn", "lstm", "gru", "exponential"])
def test_adjoints_far_below_what_a_float_can_hold_agree(name, factor, probe):
    torch.manual_seed(0)
    cell = make_cell(name, P, D).double()
    shrink(cell, factor)
    found, expected = _both(cell, torch.randn(250, B, P), (1, 50), probe)
    assert expected.full.max() < -300
    _assert_close(found, expected)


@pytest.mark.parametrize("level", [5.0, 12.0])
@pytest.mark.parametrize("name", FACTORIAL)
def test_saturated_networks_agree(name, level, probe):
    torch.manual_seed(0)
    cell = make_cell(name, P, D)
    signs = torch.tensor([1.0, -1.0, 1.0])
    with torch.no_grad():
        for label, part in cell.named_parameters():
            if label.split(".")[0] == "b":
                part.copy_(level * signs.repeat(len(part))[: len(part)])
    steps = 12  # an LSTM that adds up goes beyond 17, where float64 has lost tanh's slope
    _assert_close(*_both(cell, torch.randn(steps, B, P), range(1, steps + 1), probe))


def test_beyond_the_ends_of_tanh_float32_is_right_where_float64_has_a_zero(probe):
    cell = make_cell("rnn", 1, 1)
    with torch.no_grad():
        cell.W.fill_(1.0), cell.R.fill_(0.0), cell.b.fill_(29.0)
    u, times = torch.zeros(T, 1, 1), (1, T - 1)
    found, expected = _both(cell, u, times, probe)
    assert expected.full[0, 0] == -math.inf
    a = 29 + math.tanh(29)
    step = math.log10(4) - 2 * a / math.log(10)  # log10 of tanh's slope at a, less than 1e-20 off
    for t, value in zip(times, found.full[:, 0].tolist(), strict=True):
        assert value == pytest.approx((T - t) * step, abs=DECADES)


class _MatrixProducts(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.types = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator.overloadpacket is torch.ops.aten.mm:
            self.types.append(args[0].dtype)
        return operator(*args, **(kwargs or {}))


def test_a_step_costs_one_product_with_the_state_each_way():
    cell = make_cell("rnn", P, D)
    with _MatrixProducts() as products:
        adjoint_norms(cell, torch.zeros(T, B, P), torch.sum, times=(1, T), engine="float32")
    assert products.types == [torch.float32] * 3 * T  # there W x and R u, back W' delta
