"""The long time gap tasks."""

import numpy as np
import pytest

from lib.tasks.long_time_gap import draw_signs


def draw(place=23, time_steps=40, size=4000, seed=0):
    return draw_signs(place, time_steps, size, np.random.default_rng(seed))


def test_inputs_are_signs_and_the_label_is_the_sign_at_the_place():
    part = draw()
    assert part.inputs.shape == (4000, 40, 1) and part.inputs.dtype == np.float32
    assert part.targets.shape == (4000,) and part.targets.dtype == np.int64
    assert set(np.unique(part.inputs)) == {-1, 1}
    # Places count from 1: u_23 is the array's entry 22.
    np.testing.assert_array_equal(part.targets, (part.inputs[:, 22, 0] + 1) / 2)


@pytest.mark.parametrize("place", [1, 40])
def test_the_first_and_the_last_input_may_decide(place):
    part = draw(place=place)
    np.testing.assert_array_equal(part.targets == 1, part.inputs[:, place - 1, 0] == 1)


def test_signs_are_fair_and_independent():
    signs = draw().inputs[:, :, 0].astype(float)
    bound = 5 / np.sqrt(len(signs))  # five standard errors of a mean of signs
    assert np.abs(signs.mean(axis=0)).max() < bound
    products = signs.T @ signs / len(signs)
    assert np.abs(products - np.eye(40)).max() < bound


def test_the_seed_decides_and_a_generator_moves_on():
    np.testing.assert_array_equal(draw(seed=3).inputs, draw(seed=3).inputs)
    assert not np.array_equal(draw(seed=3).inputs, draw(seed=4).inputs)
    rng = np.random.default_rng(3)
    first, second = (draw_signs(23, 40, 10, rng) for _ in range(2))
    assert not np.array_equal(first.inputs, second.inputs)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"place": 0}, r"expected the deciding input among 1..40, got 0"),
        ({"place": 41}, r"expected the deciding input among 1..40, got 41"),
        ({"size": 0}, "expected a positive size, got 0"),
        ({"time_steps": 0}, "expected a positive time_steps, got 0"),
    ],
    ids=str,
)
def test_bad_sizes_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        draw(**wrong)
