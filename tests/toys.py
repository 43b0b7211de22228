"""Things that several tests make up: a task small enough to be trained in a moment, a cell whose adjoints leave every range."""

import numpy as np

from lib.tasks import Part, Task


def toy_task(kind="pixels", n=24, steps=6):
    """Return a task of three classes without anything to learn, of pixels or of tokens."""
    rng = np.random.default_rng(0)

    def part():
        if kind == "tokens":
            return Part(rng.integers(0, 9, (n, steps)), rng.integers(0, 3, n))
        inputs = rng.random((n, steps, 1), dtype=np.float32)
        return Part(inputs, rng.integers(0, 3, n))

    vocabulary = 9 if kind == "tokens" else 0
    return Task(
        name="toy",
        kind=kind,
        target="class",
        outputs=3,
        vocabulary_size=vocabulary,
        noise_inputs=5,
        train=part(),
        test=part(),
    )


def shrink(cell, factor):
    """Multiply the recurrent matrix of a cell, and close its gates: what they keep shrinks as well."""
    weights = cell.weights()
    changed = {weights._fields[0]: factor * weights[0]}
    if cell.name in ("lstm", "gru"):
        changed["b"] = weights.b - 20
    cell.weights = lambda: weights._replace(**changed)
