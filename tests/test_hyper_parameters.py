"""What hyper-parameters of the cells beyond the factorial study do at the start, and which are refused."""

import math

import pytest
import torch

from lib.cells import cell_class, cell_names, check_hyper_parameters, make_cell
from lib.cells.sru import SRU

P, D = 2, 5


def keywords(name):
    return cell_class(name).hyper_parameters


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


ALONE = [
    ("lem", {"delta": 1}, "hyper-parameters among dt, clip, chrono, single_scale, got 'delta'"),
    ("gru", {"phi": "relu"}, "hyper-parameters among none, got 'phi'"),
    ("sru", {"width": 3, "dt": 1}, "got 'width', 'dt'"),
    ("lem", {"dt": "null"}, r"dt to be a number in \(0, 2\], got 'null'"),
    ("lem", {"dt": True}, "dt to be a number.*got True"),
    ("lem", {"dt": None}, "dt to be a number.*got None"),
    ("lem", {"dt": [0.1]}, "dt to be a number"),
    ("lem", {"dt": math.nan}, "got nan"),
    ("lem", {"dt": math.inf}, "got inf"),
    ("lem", {"dt": 2.5}, r"\(0, 2\]"),
    ("lem", {"clip": 0.0}, r"clip to be a number in \(0, 1\] or None"),
    ("lem", {"single_scale": 1}, "single_scale to be one of False, True, got 1"),
    ("lem", {"dt": 0.1, "chrono": 10}, r"chrono \* dt >= 2"),
    ("lem", {"single_scale": True, "clip": 0.5}, "no clip and no chrono"),
    ("unicornn", {"dt": (0.1, 0.2, 0.3)}, "one dt, or one for each of the 2 layers"),
    ("unicornn", {"dt": (0.1, 1.2)}, r"in \(0, 1\)"),
    ("unicornn", {"dt": ()}, "dt to be"),
    ("unicornn", {"dt": 1.5}, "dt to be"),
    ("unicornn", {"layers": 0}, "layers to be a whole number"),
    ("unicornn", {"layers": 2.0}, "layers to be a whole number"),
    ("unicornn", {"layers": 4, "skip": 1}, "2 <= skip < layers = 4"),
    ("unicornn", {"layers": 3, "skip": 3}, "2 <= skip < layers = 3"),
    ("unicornn", {"dropout": 1.0}, r"\[0, 1\)"),
    ("unicornn", {"backward": "lost"}, "one of None, stored, recovered, reversible"),
    ("unicornn", {"checkpoint": 0}, "checkpoint to be"),
    ("irnn", {"inner_steps": 0}, "inner_steps to be"),
    ("irnn", {"rank": 0}, "rank to be"),
    ("irnn", {"form": 6}, "one of None, 5, 8"),
    ("irnn", {"inner_start": "last"}, "one of zero, previous"),
    ("irnn", {"sign": 0}, "one of 1, -1"),
    ("irnn", {"sign": True}, "one of 1, -1, got True"),
    ("irnn", {"eta": 0.0}, r"\(0, 1\]"),
    ("irnn", {"train_eta": "each"}, "one of inner, fixed, one, time"),
    ("irnn", {"train_eta": "time"}, "a length with train_eta='time'"),
    ("irnn", {"length": 3}, "none otherwise, got length=3"),
    ("irnn", {"phi": "gelu"}, "one of relu, tanh, sigmoid, got 'gelu'"),
    ("exponential", {"trivialization": "none"}, "one of dynamic, static"),
    ("antisymmetric", {"epsilon": 0}, "epsilon to be"),
    ("gated_antisymmetric", {"epsilon": 1.5}, "epsilon to be"),
    ("lipschitz", {"beta": 0.2}, r"\[0.5, 1\]"),
    ("cornn", {"gamma": 0.0}, "gamma to be"),
    ("indrnn", {"bound": 0.0}, "bound to be"),
    ("fastrnn", {"phi": "swish"}, "one of tanh, relu, sigmoid"),
    ("fastrnn", {"eta": 1}, r"\(0, 1\)"),
    ("fastgrnn", {"rank_W": 0}, "rank_W to be"),
    ("chrono_lstm", {"chrono": 1}, "chrono to be"),
    ("dt_lstm", {"version": 3}, "one of 2, 1"),
    ("rnn", {"activation": "sigmoid"}, "one of tanh, relu"),
    ("lu_rnn", {"tau": 0}, "tau to be a whole number"),
    ("lu_rnn", {"pivot": 0.0}, "pivot to be"),
    ("inverse_rnn", {"tau": 2.5}, "tau to be a whole number"),
    ("sru", {"layers": 0}, "layers to be"),
    ("sru", {"highway_bias": -math.inf}, "highway_bias to be"),
    ("lstm", {"x" * 5000: 1}, "got 'x{1,40}\\.\\.\\.x{1,40}'$"),
]


@pytest.mark.parametrize(("name", "wrong", "complaint"), ALONE)
def test_wrong_hyper_parameters_are_refused_before_anything_is_built(name, wrong, complaint):
    for check in (check_hyper_parameters, lambda name, wrong: make_cell(name, P, D, **wrong)):
        with pytest.raises(ValueError, match=f"^{name}: expected .*{complaint}"):
            check(name, wrong)


@pytest.mark.parametrize(
    ("name", "wrong", "complaint"),
    [
        ("irnn", {"rank": 6}, "1 <= rank <= 5"),
        ("fastgrnn", {"rank_W": 3}, "1 <= rank_W <= 2"),
        ("fastgrnn", {"rank_U": 6}, "1 <= rank_U <= 5"),
    ],
)
def test_hyper_parameters_that_do_not_fit_the_sizes_are_refused(name, wrong, complaint):
    check_hyper_parameters(name, wrong)
    with pytest.raises(ValueError, match=f"^{name}: expected .*{complaint}"):
        check_hyper_parameters(name, wrong, input_size=P, hidden_size=D)
    with pytest.raises(ValueError, match=f"^{name}: expected .*{complaint}"):
        make_cell(name, P, D, **wrong)


def test_an_unknown_architecture_has_no_hyper_parameters():
    with pytest.raises(ValueError, match="unknown architecture 'lstn'"):
        check_hyper_parameters("lstn", {})


@pytest.mark.parametrize("name", cell_names())
def test_what_is_checked_is_what_the_cell_gets(name):
    defaults = check_hyper_parameters(name, {})
    assert all(keyword.admits(defaults[key]) for key, keyword in keywords(name).items())
    one, two = (make_cell(name, P, D, **given).eval() for given in ({}, defaults))
    two.load_state_dict(one.state_dict())
    u = torch.randn(4, 3, P)
    assert torch.equal(one(u)[0], two(u)[0])


def test_irnn_refuses_more_rounds_than_it_has_step_sizes():
    cell = make_cell("irnn", P, D, train_eta="time", length=6)
    _, state = cell(torch.ones(4, 1, P))
    assert torch.equal(state[1], torch.full((1, D), 4.0))
    cell(torch.ones(2, 1, P), state)
    with pytest.raises(ValueError, match="at most length=6 rounds.*got 7; build the cell"):
        cell(torch.ones(3, 1, P), state)
