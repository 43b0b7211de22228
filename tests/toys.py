"""Things that several tests make up: a task small enough to be trained in a moment, a cell whose adjoints leave every range."""

import numpy as np
import torch

from lib.tasks import Part, Task


def toy_task(kind="pixels", n=24, steps=6, target="class"):
    """Return a task of three classes, or values, without anything to learn, of pixels or of tokens."""
    rng = np.random.default_rng(0)

    def part():
        tokens = kind == "tokens"
        inputs = rng.integers(0, 9, (n, steps)) if tokens else rng.random((n, steps, 1), np.float32)
        if target == "value":
            return Part(inputs, rng.random((n, 3), np.float32))
        return Part(inputs, rng.integers(0, 3, (n, steps) if target == "steps" else n))

    sizes = {"outputs": 3, "vocabulary_size": 9 if kind == "tokens" else 0, "noise_inputs": 5}
    return Task(name="toy", kind=kind, target=target, **sizes, train=part(), test=part())


def weights(model):
    """Return all parameters of a model as one vector."""
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def norm(model):
    """Return what a test records of a model."""
    return {"norm": sum(p.double().square().sum().item() for p in model.parameters())}


def shrink(cell, factor):
    """Multiply the recurrent matrix of a cell, and close its gates: what they keep shrinks as well."""
    weights = cell.weights()
    changed = {weights._fields[0]: factor * weights[0]}
    if cell.name in ("lstm", "gru"):
        changed["b"] = weights.b - 20
    cell.weights = lambda: weights._replace(**changed)
