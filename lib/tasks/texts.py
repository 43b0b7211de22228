"""Texts that are read to their end, or through the filling behind them as UnICORNN's program reads them."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from lib.tasks._parts import hold_out
from lib.tasks._registry import task
from lib.tasks.data import Part, Task, load_prepared
from lib.tasks.prepared import PAD
from lib.tasks.word_vectors import load_vectors

FILLINGS = ("front", "behind")


@task
def texts(
    prepared: Path,
    rng: np.random.Generator,
    *,
    dataset: str,
    words: int = 0,
    filling: str = "front",
    vectors: str = "",
    train_size: int = 0,
    validation_size: int = 0,
    test_size: int = 0,
) -> Task:
    """Return a data set of texts with one target each.

    Parameters
    ----------
    dataset
        Name of the data set.
    words
        Tokens kept of a text, the last ones; 0 keeps all that are prepared.
    filling
        Where shorter texts are filled: in ``front``, so that what is read last is text, or ``behind``, so that the state is
        read out after the filling.
    vectors
        Name of the data set's vectors that an embedding starts from; empty for none.
    train_size, test_size
        As in `lib.tasks.data.load_prepared`.
    validation_size
        Texts taken out of the training part.

    Raises
    ------
    ValueError
        The filling or the vectors are unknown, or the data set holds no texts with one target each.
    """
    if filling not in FILLINGS:
        raise ValueError(f"unknown filling {filling!r}; known: {', '.join(FILLINGS)}")
    data = load_prepared(prepared / f"{dataset}.nc", train_size, test_size)
    if data.kind != "tokens" or data.target == "steps":
        raise ValueError(
            f"{dataset}: expected texts with one target each, got {data.kind} with {data.target}"
        )

    def cut(part: Part) -> Part:
        inputs = part.inputs[:, -words:]
        if filling == "behind":
            inputs = np.take_along_axis(
                inputs, np.argsort(inputs == PAD, axis=1, kind="stable"), axis=1
            )
        return replace(part, inputs=inputs)

    start = load_vectors(prepared, dataset, vectors) if vectors else None
    return replace(hold_out(data, validation_size).map(cut), vectors=start)
