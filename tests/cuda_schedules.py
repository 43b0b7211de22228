"""The barriers of the GPU kernels, by hostile schedules; `test_cuda.py` runs this file in a process of its own.

Between two barriers the threads of a block run one after another here, the first or the last ahead of all others: what one thread reads
of another's, or writes over it, on the wrong side of a barrier is then wrong in the result.
"""

import pytest
import torch
from cuda_threads import FIRST_AHEAD, LAST_AHEAD, in_turn

from lib.bench.parity import deviations, everything, random_case
from lib.kernels import _cuda

assert _cuda.SIMULATED

CASES = [
    *((name, {"epsilon": 0.5}) for name in ("antisymmetric", "lipschitz")),
    *((name, {}) for name in ("cornn", "lem", "rnn")),
    *(("irnn", special) for special in ({}, {"form": 8})),
]


@pytest.mark.parametrize("order", [FIRST_AHEAD, LAST_AHEAD])
@pytest.mark.parametrize(("name", "special"), CASES)
def test_every_schedule_gives_the_reference(name, special, order, monkeypatch):
    monkeypatch.setattr(_cuda.Kernel, "compiled", in_turn(order))
    case = random_case(name, 3, 2, 3, torch.float64, **special)
    found = deviations(everything(*case, "numba-cuda"), everything(*case, "reference"))
    assert all(value < 1e-12 for value in found.values()), found  # nor is one no number
