"""What hyper-parameters of the cells beyond the factorial study do at the start, and which are refused."""

import inspect
import math

import pytest
import torch

from lib.cells import cell_class, cell_names, check_hyper_parameters, make_cell
from lib.cells.sru import SRU

P, D = 2, 5


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
        ("irnn", {"form": 6}, "form 5 or 8"),
        ("irnn", {"inner_start": "last"}, "inner_start zero or previous"),
        ("irnn", {"sign": 0}, "sign 1 or -1"),
        ("irnn", {"eta": 0.0}, "0 < eta <= 1"),
        ("irnn", {"eta": 1.5}, "0 < eta <= 1"),
        ("irnn", {"train_eta": "each"}, "train_eta among fixed, one, inner, time"),
        ("irnn", {"train_eta": "time"}, "a length of at least 1 with train_eta='time'"),
        ("irnn", {"length": 3}, "got train_eta='inner' and length=3"),
        ("irnn", {"phi": "gelu"}, "an activation among relu, tanh, sigmoid, got 'gelu'"),
        ("exponential", {"trivialization": "none"}, "trivialization dynamic or static"),
        ("cornn", {"gamma": 0.0}, "gamma > 0"),
        ("indrnn", {"bound": 0.0}, "bound > 0"),
        ("fastrnn", {"phi": "swish"}, "an activation among"),
        ("fastrnn", {"eta": 1}, "0 < eta < 1"),
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


@pytest.mark.parametrize("name", cell_names())
def test_hyper_parameters_that_a_constructor_takes_are_known(name):
    known = inspect.signature(cell_class(name).__init__).parameters
    names = [key for key in known if key not in ("self", "input_size", "hidden_size")]
    check_hyper_parameters(name, dict.fromkeys(names))


@pytest.mark.parametrize(
    ("name", "wrong", "complaint"),
    [
        (
            "lem",
            {"delta": 1},
            "lem: expected hyper-parameters among dt, clip, chrono, single_scale, got 'delta'",
        ),
        ("rnn", {"phi": "relu"}, "rnn: expected hyper-parameters among none, got 'phi'"),
        ("sru", {"width": 3, "dt": 1}, "got 'width', 'dt'"),
        ("lstn", {}, "unknown architecture 'lstn'"),
    ],
)
def test_unknown_hyper_parameters_are_refused_before_anything_is_built(name, wrong, complaint):
    with pytest.raises(ValueError, match=complaint):
        check_hyper_parameters(name, wrong)
    with pytest.raises(ValueError, match=complaint):
        make_cell(name, P, D, **wrong)


def test_irnn_refuses_more_rounds_than_it_has_step_sizes():
    cell = make_cell("irnn", P, D, train_eta="time", length=6)
    _, state = cell(torch.ones(4, 1, P))
    assert torch.equal(state[1], torch.full((1, D), 4.0))
    cell(torch.ones(2, 1, P), state)
    with pytest.raises(ValueError, match="at most length=6 rounds.*got 7; build the cell"):
        cell(torch.ones(3, 1, P), state)
