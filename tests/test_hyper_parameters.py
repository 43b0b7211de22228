"""Which hyper-parameters and starts are refused, before anything is built."""

import math

import pytest
import torch

from lib.cells import cell_class, cell_names, make_cell

P, D = 2, 5

REFUSED = [
    # no such keyword
    ("lem", {"delta": 1}, "hyper-parameters among dt, clip, chrono, single_scale, got 'delta'"),
    ("gru", {"phi": "relu"}, "hyper-parameters among none, got 'phi'"),
    ("sru", {"width": 3, "dt": 1}, "got 'width', 'dt'"),
    ("lstm", {"x" * 5000: 1}, "got 'x{1,40}\\.\\.\\.x{1,40}'$"),
    # numbers: type, end of an interval that is open or closed, None, whole ones, one for each layer
    ("lem", {"dt": "null"}, r"dt to be a number in \(0, 2\], got 'null'"),
    ("lem", {"dt": True}, "dt to be a number.*got True"),
    ("lem", {"dt": None}, "dt to be a number.*got None"),
    ("lem", {"dt": [0.1]}, "dt to be a number"),
    ("lem", {"dt": math.nan}, "got nan"),
    ("sru", {"highway_bias": -math.inf}, "highway_bias to be"),
    ("lem", {"dt": 2.0000001}, r"\(0, 2\]"),
    ("lem", {"clip": 0.0}, r"clip to be a number in \(0, 1\] or None"),
    ("unicornn", {"dropout": 1.0}, r"\[0, 1\)"),
    ("lipschitz", {"beta": 0.4999}, r"\[0.5, 1\]"),
    ("unicornn", {"layers": 0}, "layers to be a whole number"),
    ("unicornn", {"layers": 2.0}, "layers to be a whole number"),
    ("unicornn", {"dt": (0.1, 1.2)}, r"a number, or one for each layer, in \(0, 1\)"),
    ("unicornn", {"dt": ()}, "dt to be"),
    # choices
    ("lem", {"single_scale": 1}, "single_scale to be one of False, True, got 1"),
    ("irnn", {"sign": True}, "one of 1, -1, got True"),
    ("irnn", {"phi": "gelu"}, "one of relu, tanh, sigmoid, got 'gelu'"),
    ("unicornn", {"backward": "lost"}, "one of None, stored, recovered, reversible"),
    # what does not fit another
    ("lem", {"dt": 0.1, "chrono": 10}, r"chrono \* dt >= 2"),
    ("lem", {"single_scale": True, "clip": 0.5}, "no clip and no chrono"),
    ("unicornn", {"dt": (0.1, 0.2, 0.3)}, "one dt, or one for each of the 2 layers"),
    ("unicornn", {"layers": 4, "skip": 1}, "2 <= skip < layers = 4"),
    ("unicornn", {"layers": 3, "skip": 3}, "2 <= skip < layers = 3"),
    ("irnn", {"train_eta": "time"}, "a length with train_eta='time'"),
    ("irnn", {"length": 3}, "none otherwise, got length=3"),
    # or the sizes
    ("irnn", {"rank": 6}, "1 <= rank <= 5"),
    ("fastgrnn", {"rank_W": 3}, "1 <= rank_W <= 2"),
    ("fastgrnn", {"rank_U": 6}, "1 <= rank_U <= 5"),
]


@pytest.mark.parametrize(("name", "wrong", "complaint"), REFUSED)
def test_wrong_hyper_parameters_are_refused_before_anything_is_built(name, wrong, complaint):
    told = f"^{name}: expected .*{complaint}"
    with pytest.raises(ValueError, match=told):
        cell_class(name).checked(wrong, P, D)
    with pytest.raises(ValueError, match=told):
        make_cell(name, P, D, **wrong)
    if "rank" in complaint:  # which fits some size
        cell_class(name).checked(wrong)


@pytest.mark.parametrize("make", [cell_class, lambda name: make_cell(name, 1, 1)])
def test_an_unknown_architecture_lists_the_known_ones(make):
    with pytest.raises(ValueError, match=r"unknown architecture 'lstn'; known: antisymm.*lstm"):
        make("lstn")


@pytest.mark.parametrize("name", cell_names())
def test_what_is_checked_is_what_the_cell_gets(name):
    defaults = cell_class(name).checked({})
    keywords = cell_class(name).hyper_parameters
    assert all(keyword.admits(defaults[key]) for key, keyword in keywords.items())
    one, two = (make_cell(name, P, D, **given).eval() for given in ({}, defaults))
    two.load_state_dict(one.state_dict())
    u = torch.randn(4, 3, P)
    assert torch.equal(one(u)[0], two(u)[0])


@pytest.mark.parametrize(
    ("start", "settings", "complaint"),
    [
        ("he", {}, "initial weights among text, author, padding, adding_author, .* got 'he'"),
        ("padding", {"input_scale": "2/T"}, "input_scale to be 1/T or a positive number"),
        ("padding", {"input_scale": True}, "input_scale to be"),
        ("padding", {"initialisation": "he"}, "one of orthogonal, glorot, got 'he'"),
        ("text", {"input_scale": 1}, "hyper-parameters among none, got 'input_scale'"),
    ],
)
def test_wrong_starts_are_refused(start, settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        cell_class("rnn").checked_start(start, settings)
    with pytest.raises(ValueError, match=complaint):
        make_cell("rnn", 2, 3).start(start, time_steps=4, **settings)


def test_a_start_that_depends_on_the_length_asks_for_it():
    with pytest.raises(ValueError, match="'padding' depends on the sequences' length; give time"):
        make_cell("rnn", 2, 3).start("padding")
