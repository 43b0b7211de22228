"""The barriers of the GPU kernels, by hostile schedules; `test_cuda.py` runs this file in a process of its own.

Between two barriers the threads of a block run one after another here, the first or the last ahead of all others: what one thread reads
of another's, or writes over it, on the wrong side of a barrier is then wrong in the result.
"""

import sys

import numpy as np
import pytest
import torch
from cuda_threads import FIRST_AHEAD, LAST_AHEAD, in_turn, parsed

from lib import kernels
from lib.bench.parity import deviations, everything, random_case
from lib.kernels import _cuda

assert _cuda.SIMULATED

CASES = {
    "antisymmetric": [{"epsilon": 0.5}],
    "cornn": [{}],
    "irnn": [{}, {"form": 8}],
    "lem": [{}],
    "lipschitz": [{"epsilon": 0.5}],
    "rnn": [{}],
}


def deviation(name, order, left_out, monkeypatch, T=3, **special):
    """Return how far outputs and gradients are from the reference; what is no number is infinitely far."""
    monkeypatch.setattr(_cuda.Kernel, "compiled", in_turn(order, left_out))
    case = random_case(name, T, 2, 3, torch.float64, **special)
    found = deviations(everything(*case, "numba-cuda"), everything(*case, "reference"))
    return max(np.inf if np.isnan(value) else value for value in found.values())


def barriers():
    for name in CASES:
        module = sys.modules[kernels.module_of(name, "numba-cuda")]
        for kernel in ("_forward", "_backward"):
            _, count = parsed(getattr(module, kernel))
            yield from ((name, kernel, number) for number in range(count))


@pytest.mark.parametrize("order", [FIRST_AHEAD, LAST_AHEAD])
@pytest.mark.parametrize("name", CASES)
def test_with_all_barriers_every_schedule_gives_the_reference(name, order, monkeypatch):
    for special in CASES[name]:
        assert deviation(name, order, ("", None), monkeypatch, **special) < 1e-12


@pytest.mark.parametrize(("name", "kernel", "number"), list(barriers()))
def test_without_a_barrier_a_schedule_gives_a_wrong_result(name, kernel, number, monkeypatch):
    assert any(
        deviation(name, order, (kernel, number), monkeypatch, **special) > 1e-6
        for special in CASES[name]
        for order in (FIRST_AHEAD, LAST_AHEAD)
    )
