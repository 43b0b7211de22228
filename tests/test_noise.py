"""Noise made from its place alone is the noise that NumPy draws."""

import numpy as np
import pytest
import torch

from lib.tasks import Part, Task
from lib.tasks.variations import vary
from lib.training.noise import Noise


@pytest.mark.parametrize("size", [1, 2, 7, 36])
@pytest.mark.parametrize("drawn", [0, 1, 2, 5])
def test_rows_are_those_that_numpy_draws(size, drawn):
    rng = np.random.default_rng(drawn)
    rng.random(drawn, dtype=np.float32)  # an odd number leaves half an output
    noise = Noise(rng, 50, size)
    expected = torch.from_numpy(rng.random((50, size), dtype=np.float32))
    assert torch.equal(noise.rows(torch.arange(50)), expected)
    some = torch.tensor([49, 0, 3, 3])
    assert torch.equal(noise.rows(some), expected[some])


def test_many_generators():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        noise = Noise(rng, 30, 11)
        expected = torch.from_numpy(rng.random((30, 11), dtype=np.float32))
        assert torch.equal(noise.rows(torch.arange(30)), expected)


@pytest.mark.parametrize("order", ["sequential", "permuted"])
def test_it_is_the_noise_of_the_factorial(order):
    """Both parts of a task, after the permutation that the same generator draws first."""
    pixels = np.random.default_rng(0).random((9, 16, 3), dtype=np.float32)
    train, test = (
        Part(pixels[part], np.zeros(len(pixels[part]), int)) for part in (slice(5), slice(5, 9))
    )
    task = Task(
        name="toy", kind="pixels", target="class", outputs=2, train=train, test=test, noise_inputs=7
    )
    found = vary(task, order, "post", np.random.default_rng(3))
    rng = np.random.default_rng(3)
    if order == "permuted":
        rng.permutation(16)
    noise = Noise(rng, 9, 7 * 3)
    for part, indices in ((found.train, torch.arange(5)), (found.test, torch.arange(5, 9))):
        expected = torch.from_numpy(part.inputs[:, 16:])
        assert torch.equal(noise.rows(indices).view(-1, 7, 3), expected)


def test_reading_a_generator_draws_nothing_and_another_kind_is_refused():
    rng = np.random.default_rng(0)
    Noise(rng, 3, 4).rows(torch.arange(3))
    assert rng.random() == np.random.default_rng(0).random()
    with pytest.raises(ValueError, match="expected a generator over PCG64, got Philox"):
        Noise(np.random.Generator(np.random.Philox(0)), 3, 4)
