"""Hold an engine to a cell's reference: output, final state and every gradient, each by name."""

import pytest
import torch

from lib.parity import a_case, deviations, device_of, doubled, everything, moved

__all__ = ["TOLERANCE", "VARIANTS", "a_case", "assert_engine_agrees", "deviations", "everything"]

# Largest deviation from the float64 reference, relative to the largest value of the tensor compared.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}
# Some recurrences amplify rounding: an engine may lose this many times what the reference loses in the same type.
SLACK = 3

VARIANTS = [
    ("chrono_lstm", {"chrono": 20}),
    ("indrnn", {"phi": "tanh"}),
    ("indrnn", {"phi": "sigmoid", "layers": 2}),
    ("indrnn", {"layers": 3, "bound": 0.5}),
    ("lem", {"clip": 0.6}),
    ("lem", {"clip": 0.6, "dt": 1.7}),
    ("lem", {"single_scale": True, "dt": 0.3}),
    ("sru", {"layers": 3, "highway_bias": -1.0}),
    ("unicornn", {"layers": 3, "dt": (0.05, 0.3, 0.2)}),
    ("unicornn", {"layers": 5, "dt": 0.3, "skip": 2, "alpha": 0.0}),
    ("unicornn", {"backward": "recovered"}),
    ("unicornn", {"backward": "reversible", "checkpoint": 7}),
    ("unicornn", {"backward": "reversible", "checkpoint": 1000}),
]
"""Cells away from their defaults, for engines that must know about it."""


def assert_engine_agrees(case, name, engine, use=("outputs", "state")):
    """Hold an engine to the reference in float64, and to what that one loses in the case's type."""
    _, u, _ = case
    device = device_of(name, engine, u.dtype)
    if device is None:
        pytest.skip(f"{engine} does not run on this machine")
    expected = everything(*doubled(*case), "reference", use=use)
    own = deviations(everything(*case, "reference", use=use), expected)
    found = deviations(everything(*moved(device, *case), engine, use=use), expected)
    for label, deviation in found.items():
        allowed = max(TOLERANCE[u.dtype], SLACK * own[label])
        assert deviation <= allowed, f"{label}: {deviation:.1e} exceeds {allowed:.1e}"
