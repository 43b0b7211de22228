"""UnICORNN parallel in time: Newton's method on windows gives what one step after another gives."""

import pytest
import torch

from lib import kernels
from lib.bench.parity import deviations, everything, random_case
from lib.kernels.newton_unicornn import affine_scan, solve

# Steps and frequencies of the size of those that the text has for psMNIST, IMDB and EigenWorms.
SETTINGS = [
    {},
    {"dt": 0.03, "alpha": 0.9, "layers": 3},
    {"dt": 0.2, "alpha": 0.0, "layers": 5, "skip": 2},
]


def test_a_scan_gives_what_one_map_after_another_gives():
    torch.manual_seed(0)
    A, b, x = torch.randn(2, 2, 13, 4), torch.randn(2, 13, 4), torch.randn(2, 4)
    found = affine_scan(A.double(), b.double(), x.double())
    x = x.double()
    for n in range(13):
        x = torch.einsum("ijk,jk->ik", A[:, :, n].double(), x) + b[:, n]
        torch.testing.assert_close(found[:, n], x, rtol=1e-12, atol=0)


@pytest.mark.parametrize("T", [1, 700])
@pytest.mark.parametrize("special", SETTINGS, ids=str)
def test_outputs_and_gradients_are_those_of_the_reference(special, T):
    case = random_case("unicornn", T, 2, 5, **special)
    found = deviations(everything(*case, "newton"), everything(*case, "reference"))
    assert max(found.values()) < 1e-10, found


def a_layer(T, batch=3, hidden=8, *, dt=0.05, alpha=1.0, strength=1.0):
    torch.manual_seed(1)
    shape = batch, hidden
    w, h = torch.rand(shape).double(), dt * torch.full(shape, 0.5).double()
    g = strength * torch.randn(T, *shape).double()
    return w, h, alpha, g, torch.randn(shape).double(), torch.randn(shape).double()


@pytest.mark.parametrize("window", [512, 1024])
def test_a_window_takes_few_iterations(window):
    *_, iterations = solve(*a_layer(3000), window)
    assert len(iterations) == -(-3000 // window)
    assert 1 < min(iterations) <= max(iterations) <= 8


def test_a_window_that_does_not_converge_is_done_step_by_step():
    layer = a_layer(4000, dt=0.9, alpha=12.5, strength=5.0)
    y, z, iterations = solve(*layer, 4000)
    assert iterations == [0]
    expected = solve(*layer, 1)
    torch.testing.assert_close(y, expected[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(z, expected[1], rtol=1e-9, atol=1e-9)


def test_bad_numbers_spread_as_one_step_after_another():
    *layer, y0, z0 = a_layer(40)
    layer[3][7, 1, 2] = torch.nan
    y, _, _ = solve(*layer, y0, z0, 16)
    expected = torch.zeros_like(y, dtype=torch.bool)
    expected[7:, 1, 2] = True
    assert torch.equal(y.isnan(), expected)


def test_it_is_asked_for_by_name_alone():
    assert kernels.choose("unicornn", "cpu", torch.float32) == "numba-cpu"
    assert "newton" not in kernels.engine_names("unicornn")
