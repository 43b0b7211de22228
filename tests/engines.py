"""Hold an engine to a cell's reference: output, final state and every gradient, each by name."""

import pytest
import torch

from lib import kernels
from lib.bench.parity import deviations, device_of, doubled, everything, moved, random_case

# Largest deviation from the float64 reference, relative to the largest value of the tensor compared.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}
# Some recurrences amplify rounding: an engine may lose this many times what the reference loses in the same type.
SLACK = 3

VARIANTS = [
    ("antisymmetric", {"epsilon": 0.5, "gamma": 0.2}),
    ("chrono_lstm", {"chrono": 20}),
    ("cornn", {"implicit": True, "dt": 0.3}),
    ("dt_lstm", {"version": 1, "dt": 0.4}),
    ("exponential", {"trivialization": "static"}),
    ("fastgrnn", {"rank_U": 2, "rank_W": 1}),
    ("fastrnn", {"phi": "relu"}),
    ("fastrnn", {"phi": "sigmoid"}),
    ("gated_antisymmetric", {"epsilon": 0.5, "gamma": 0.2}),
    ("indrnn", {"phi": "tanh"}),
    ("indrnn", {"phi": "sigmoid", "layers": 2}),
    ("indrnn", {"layers": 3, "bound": 0.5}),
    ("irnn", {"form": 8, "inner_start": "previous", "phi": "tanh", "train_eta": "one"}),
    ("irnn", {"rank": 2, "alpha": 0.8, "eta": 0.3, "train_eta": "fixed"}),
    ("irnn", {"rank": 3, "form": 5, "sign": -1, "inner_steps": 1, "inner_start": "previous"}),
    ("irnn", {"inner_steps": 2, "sign": -1, "phi": "sigmoid", "eta": 0.2}),
    ("lem", {"clip": 0.6}),
    ("lipschitz", {"epsilon": 0.7, "beta": 0.6}),
    ("lem", {"clip": 0.6, "dt": 1.7}),
    ("lem", {"single_scale": True, "dt": 0.3}),
    ("sru", {"layers": 3, "highway_bias": -1.0}),
    ("sru", {"inputs": 3, "layers": 2}),  # of the width 3 its highway carries the input itself
    ("unicornn", {"layers": 3, "dt": (0.05, 0.3, 0.2)}),
    ("unicornn", {"layers": 5, "dt": 0.3, "skip": 2, "alpha": 0.0}),
    ("unicornn", {"backward": "recovered"}),
    ("unicornn", {"backward": "reversible", "checkpoint": 7}),
    ("unicornn", {"backward": "reversible", "checkpoint": 1000}),
]
"""Cells away from their defaults, for engines that must know about it."""


def by_engine(cell, *more):
    """Return a parameter (cell, engine, *more) for every engine of a cell; those that need a GPU are marked so."""
    return [
        pytest.param(
            cell,
            engine,
            *more,
            id="-".join(map(str, (cell, engine, *more))),
            marks=() if device_of(cell, engine, torch.float32) == "cpu" else pytest.mark.gpu,
        )
        for engine in kernels.engine_names(cell)[1:]
    ]


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


def irnn_whose_sequences_stand_at_different_rounds(**variant):
    """Return a case whose step sizes depend on the rounds that each sequence has done."""
    cell, u, (h, _) = random_case("irnn", 5, 3, 5, train_eta="time", length=8, **variant)
    with torch.no_grad():
        cell.eta.uniform_(0, 0.5)
    done = torch.tensor([0.0, 3, 1], dtype=h.dtype)[:, None].expand_as(h).clone()
    return cell, u, (h, done.requires_grad_())


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


def assert_it_differentiates_once_and_what_is_asked(name, engine):
    """Frozen weights get no gradient and the input the same; a derivative of the gradient is refused."""
    cell, u, state = random_case(name, 4, 2, 3)
    expected = torch.autograd.grad(cell(u, state, engine="reference")[0].sum(), u)[0]
    outputs, _ = cell(u, state, engine=engine)
    (gradient,) = torch.autograd.grad(outputs.square().sum(), u, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        gradient.sum().backward()
    u.grad = None
    cell.requires_grad_(False)
    cell(u, state, engine=engine)[0].sum().backward()
    assert all(parameter.grad is None for parameter in cell.parameters())
    torch.testing.assert_close(u.grad, expected)


def assert_masks_are_those_of_the_reference(case, engine):
    """In training an engine and the reference draw the same masks from the same seed, and the masks matter."""
    cell, u, state = case
    found = []
    for name, seed in [("reference", 1), (engine, 1), (engine, 2)]:
        torch.manual_seed(seed)
        found.append(everything(cell.train(), u, state, name))
    expected, same, others = found
    assert max(deviations(same, expected).values()) < TOLERANCE[u.dtype]
    assert deviations(others, expected)["outputs"] > 0.01
