"""Seeds follow from levels alone."""

import numpy as np
import torch

from lib.training.seeds import seeds, torch_seed


def _states(levels, count):
    return [seed.generate_state(2).tolist() for seed in seeds(levels, count)]


def test_equal_levels_in_any_order_give_equal_seeds_and_others_do_not():
    assert _states({"width": 4, "cell": "rnn"}, 2) == _states({"cell": "rnn", "width": 4}, 2)
    assert _states({"width": 4}, 1) != _states({"width": 5}, 1)
    assert len({tuple(state) for state in _states({"width": 4}, 50)}) == 50


def test_asking_for_more_keeps_the_first():
    assert _states({"a": 1}, 5)[:2] == _states({"a": 1}, 2)


def test_torch_goes_on_as_before_after_the_block():
    (seed,) = seeds({"a": 1}, 1)
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    with torch_seed(seed):
        inside = torch.rand(4)
    assert torch.equal(torch.rand(4), expected)
    with torch_seed(seed):
        assert torch.equal(torch.rand(4), inside)
    assert not np.allclose(inside, expected)
