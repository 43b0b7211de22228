"""What the coadjoint method costs beside backpropagation."""

import sys

import pytest

from lib.bench import Workload
from lib.bench.coadjoint import BASELINES, METHODS, peak_arrays, training_step

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured on Linux only")

# One array of the states has 26 MB: enough to stand out from what the allocator does.
LARGE = Workload(batch=128, time_steps=500, hidden=100, inputs=28)


@pytest.mark.slow
@LINUX
def test_algorithm_2_needs_at_most_twice_the_memory_of_backpropagation():
    arrays = {method: peak_arrays(method, LARGE) for method in METHODS}
    # The states and what drives them, or what arrives at them, are there at once.
    assert arrays["backpropagation"] > 1.9
    assert arrays["Algorithm 2"] <= 2 * min(arrays[name] for name in BASELINES)
    assert arrays["Algorithm 2"] < arrays["double backward"]


@LINUX
def test_a_failing_measurement_is_not_a_number():
    with pytest.raises(RuntimeError, match="measuring the memory of 'guessing' failed"):
        peak_arrays("guessing", LARGE)


@pytest.mark.parametrize("method", METHODS)
def test_a_step_computes_finite_gradients(method):
    gradients = training_step(method, Workload(batch=3, time_steps=4, hidden=5, inputs=2))()
    assert len(gradients) >= 5  # W, R, b of the cell, or the layer's four, and the output's two
    assert all(gradient.isfinite().all() for gradient in gradients.values())
