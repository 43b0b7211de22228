"""Hold an engine to a cell's reference: output, final state and every gradient, each by name."""

import copy

import pytest
import torch

from lib import kernels
from lib.cells import make_cell

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


def a_case(name, T, batch, hidden, dtype=torch.float64, inputs=2, **hyper_parameters):
    """Return a cell, an input (not contiguous) and an initial state, all asking for gradients."""
    torch.manual_seed(hidden + 100 * T)
    cell = make_cell(name, inputs, hidden, **hyper_parameters).to(dtype)
    u = torch.randn(batch, T, inputs, dtype=dtype).transpose(0, 1).requires_grad_()
    state = tuple(
        (0.5 * torch.randn(batch, hidden, dtype=dtype)).requires_grad_() for _ in range(cell.states)
    )
    with torch.no_grad():
        for label, parameter in cell.named_parameters():
            if label.split(".")[0] in ("b", "c"):  # the cells' own zeros would hide an error
                parameter += 0.1 * torch.randn_like(parameter)
    return cell, u, state


def everything(cell, u, state, engine, *, use=("outputs", "state")):
    """Run forward and backward; return outputs, final state and gradients by name, in float64.

    `use` says what the loss depends on.
    """
    outputs, final = cell(u, state, engine=engine)
    generator = torch.Generator().manual_seed(5)
    loss = outputs.new_zeros(())
    for label, tensors in {"outputs": (outputs,), "state": final}.items():
        for tensor in tensors:
            weight = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            if label in use:
                loss = loss + (weight.to(tensor) * tensor).sum()
    named = dict(cell.named_parameters()) | {"u": u}
    named |= {f"initial state {i}": part for i, part in enumerate(state)}
    # A part of the state that is read out and never read back (SRU's output) has the gradient zero.
    gradients = torch.autograd.grad(
        loss, list(named.values()), allow_unused=True, materialize_grads=True
    )
    found = {"outputs": outputs} | {f"final state {i}": part for i, part in enumerate(final)}
    found |= {f"gradient of {label}": g for label, g in zip(named, gradients, strict=True)}
    return {label: tensor.detach().double() for label, tensor in found.items()}


def deviations(found, expected):
    """Return the largest deviations by name, relative to the largest value expected."""
    assert found.keys() == expected.keys()
    scale = {label: max(truth.abs().max().item(), 1e-30) for label, truth in expected.items()}
    return {
        label: (found[label].cpu() - truth).abs().max().item() / scale[label]
        for label, truth in expected.items()
    }


def doubled(cell, u, state):
    """Return the same case in float64."""
    u, *state = (part.detach().double().requires_grad_() for part in (u, *state))
    return copy.deepcopy(cell).double(), u, tuple(state)


def device_of(cell, engine):
    """Return the device an engine runs on; skip where it needs a GPU and there is none."""
    try:
        kernels.select(cell, engine, torch.zeros(1, 1, 1))
    except ValueError as refusal:
        if not torch.cuda.is_available():
            pytest.skip(f"no GPU here: {refusal}")
        return "cuda"
    return "cpu"


def on(device, cell, u, state):
    """Move a case, its tensors leaves again."""
    if device == "cpu":
        return cell, u, state
    moved = (part.detach().to(device).requires_grad_() for part in (u, *state))
    u, *state = moved
    return cell.to(device), u, tuple(state)


def assert_engine_agrees(case, name, engine, use=("outputs", "state")):
    """Hold an engine to the reference in float64, and to what that one loses in the case's type."""
    _, u, _ = case
    expected = everything(*doubled(*case), "reference", use=use)
    own = deviations(everything(*case, "reference", use=use), expected)
    found = deviations(everything(*on(device_of(name, engine), *case), engine, use=use), expected)
    for label, deviation in found.items():
        allowed = max(TOLERANCE[u.dtype], SLACK * own[label])
        assert deviation <= allowed, f"{label}: {deviation:.1e} exceeds {allowed:.1e}"
