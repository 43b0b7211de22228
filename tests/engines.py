"""Hold an engine to a cell's reference: output, final state and every gradient, each by name."""

import pytest
import torch

from lib.bench.parity import converted, deviations, device_of, everything
from lib.kernels import _cuda

NUMBA = _cuda.kernel.compiled
if _cuda.SIMULATED:  # by generators, which are faster than the threads of Numba's simulator
    from cuda_threads import in_turn

    _cuda.kernel.compiled = in_turn()

# Largest deviation from the float64 reference, relative to the largest value of the tensor compared.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}
# Some recurrences amplify rounding: an engine may lose this many times what the reference loses in the same type.
SLACK = 3


def assert_engine_agrees(case, name, engine, use=("outputs", "state")):
    """Hold an engine to the reference in float64, and to what that one loses in the case's type."""
    _, u, _ = case
    device = device_of(name, engine)
    if device is None:
        pytest.skip(f"{engine} does not run on this machine")

    def run(case, by):
        torch.manual_seed(1)  # dropout draws the same masks
        return everything(*case, by, use=use)

    expected = run(converted(torch.float64, *case), "reference")
    own = deviations(run(case, "reference"), expected)
    found = deviations(run(converted(device, *case), engine), expected)
    for label, deviation in found.items():
        allowed = max(TOLERANCE[u.dtype], SLACK * own[label])
        assert deviation <= allowed, f"{label}: {deviation:.1e} exceeds {allowed:.1e}"


def assert_bad_numbers_spread(case, engine, bad):
    """Hold an engine to the reference where the input has a bad number: it arrives in the same places."""
    cell, u, state = case
    with torch.no_grad():
        u[2, 1, 0] = bad
    expected, expected_final = cell(u, state, engine="reference")
    outputs, final = cell(u, state, engine=engine)
    for found, truth in zip((outputs, *final), (expected, *expected_final), strict=True):
        assert torch.equal(found.isnan(), truth.isnan())
        assert torch.equal(found.isinf(), truth.isinf())
