"""Compare an engine with a cell's reference: output, final state, every gradient."""

import pytest
import torch
from longrnn.kernels import _cuda, _cuda_kernel
from study.bench.parity import convert_case, deviations, device_of, outputs_and_gradients

NUMBA = _cuda_kernel.kernel.compiled
if _cuda.SIMULATED:  # by generators, which are faster than the threads of Numba's simulator
    from cuda_threads import in_turn

    _cuda_kernel.kernel.compiled = in_turn()

# Largest deviation from the float64 reference, relative to the tensor's largest value.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}
# Some recurrences amplify rounding: an engine's error may be this many times the reference's.
SLACK = 3

VARIANTS = [
    ("antisymmetric", {"epsilon": 0.5, "gamma": 0.2}),
    ("chrono_lstm", {"chrono": 20}),
    ("cornn", {"dt": 0.3, "gamma": 1.5, "epsilon": 3.0}),
    ("dt_lstm", {"version": 1, "dt": 0.4}),
    ("dt_lstm", {"version": 2}),
    ("fastrnn", {"phi": "relu", "eta": 0.3}),
    ("fastrnn", {"phi": "sigmoid"}),
    ("gated_antisymmetric", {"epsilon": 0.5, "gamma": 0.2}),
    ("indrnn", {"phi": "tanh"}),
    ("indrnn", {"phi": "sigmoid", "layers": 2}),
    ("indrnn", {"layers": 3}),
    ("irnn", {"form": 8, "inner_start": "previous", "phi": "tanh", "train_eta": "one"}),
    ("irnn", {"rank": 2, "alpha": 0.8, "eta": 0.3, "train_eta": "fixed"}),
    ("irnn", {"rank": 3, "form": 5, "sign": -1, "inner_steps": 1, "inner_start": "previous"}),
    ("irnn", {"inner_steps": 2, "sign": -1, "phi": "sigmoid", "eta": 0.2, "alpha": 0.7}),
    ("lem", {"clip": 0.6}),
    ("lipschitz", {"epsilon": 0.7, "beta": 0.6, "gamma": 0.1}),
    ("lem", {"clip": 0.6, "dt": 1.7}),  # some steps are clipped to 0.6, others to 1
    ("lem", {"dt": 0.3, "chrono": 100}),
    ("lem", {"single_scale": True, "dt": 0.3}),
    ("lru", {"r_min": 0.5, "r_max": 0.7, "max_phase": 1.0}),
    ("sru", {"layers": 3}),
    ("sru", {"inputs": 3, "layers": 2}),  # p = d, so the highway carries the input itself
    ("unicornn", {"layers": 3, "dt": (0.05, 0.3, 0.2)}),
    ("unicornn", {"layers": 5, "dt": 0.3, "skip": 2, "alpha": 0.0}),
    ("unicornn", {"layers": 4, "skip": 2, "dropout": 0.4}),
    ("unicornn", {"backward": "recovered"}),
    ("unicornn", {"backward": "reversible", "checkpoint": 7}),
    ("unicornn", {"backward": "reversible", "checkpoint": 1000}),
]
"""Cells with settings other than their defaults, for tests of engines and transcriptions."""
TIMED = [
    *((name, {"tau": k}) for k in (1, 3, 20) for name in ("lu_rnn", "inverse_rnn")),
    ("lu_rnn", {"tau": 3, "pivot": 0.5}),
    ("irnn", {"inner_steps": 2, "train_eta": "time", "length": 16}),
    ("irnn", {"rank": 2, "inner_start": "previous", "train_eta": "time", "length": 16}),
]
"""Cells whose step depends on the number of steps before it."""


def assert_engine_agrees(case, name, engine, use=("outputs", "state")):
    """Compare an engine with the reference in float64, as exactly as the case's type allows.

    Parameters
    ----------
    case
        A cell, its input and its initial state.
    name
        Name of the cell.
    engine
        Name of the engine.
    use
        What the loss depends on: ``outputs``, ``state``, or both.
    """
    _, u, _ = case
    device = device_of(name, engine)
    if device is None:
        pytest.skip(f"{engine} does not run on this machine")

    def run(case, engine):
        torch.manual_seed(1)  # dropout draws the same masks
        return outputs_and_gradients(*case, engine, use=use)

    expected = run(convert_case(torch.float64, *case), "reference")
    of_reference = deviations(run(case, "reference"), expected)
    of_engine = deviations(run(convert_case(device, *case), engine), expected)
    for label, deviation in of_engine.items():
        allowed = max(TOLERANCE[u.dtype], SLACK * of_reference[label])
        assert deviation <= allowed, f"{label}: {deviation:.1e} exceeds {allowed:.1e}"


def assert_bad_numbers_spread(case, engine, bad):
    """Check that a bad number in the input reaches the same outputs as in the reference.

    Parameters
    ----------
    case
        A cell, its input and its initial state.
    engine
        Name of the engine.
    bad
        NaN or infinity.
    """
    cell, u, state = case
    with torch.no_grad():
        u[2, 1, 0] = bad
    expected, expected_final = cell(u, state, engine="reference")
    outputs, final = cell(u, state, engine=engine)
    for result, truth in zip((outputs, *final), (expected, *expected_final), strict=True):
        assert torch.equal(result.isnan(), truth.isnan())
        assert torch.equal(result.isinf(), truth.isinf())
