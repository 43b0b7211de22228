"""Seeds follow from levels alone."""

import torch

from lib.training.job import seeds, torch_seed


def _states(levels, count):
    return [seed.generate_state(2).tolist() for seed in seeds(levels, count)]


def test_equal_levels_in_any_order_give_equal_seeds_others_do_not_and_more_keep_the_first():
    assert _states({"width": 4, "cell": "rnn"}, 2) == _states({"cell": "rnn", "width": 4}, 2)
    assert _states({"width": 4}, 5)[:1] == _states({"width": 4}, 1) != _states({"width": 5}, 1)
    assert len({tuple(state) for state in _states({"width": 4}, 50)}) == 50


def test_torch_goes_on_as_before_after_the_block():
    (seed,) = seeds({"a": 1}, 1)
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    inside = []
    for _ in range(2):
        with torch_seed(seed):
            inside.append(torch.rand(4))
    assert torch.equal(torch.rand(4), expected)
    assert torch.equal(*inside) and not torch.allclose(inside[0], expected)
