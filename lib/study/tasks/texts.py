"""Texts as sequences of tokens, padded in front, or at the end as in UnICORNN's program."""

from dataclasses import replace
from typing import Literal

import numpy as np

from study.config.section import Size
from study.tasks._registry import task
from study.tasks.data import Task
from study.tasks.prepared import PAD


@task
def texts(
    data: Task,
    *,
    words: Size = 0,
    filling: Literal["front", "behind"] = "front",
    vectors: str = "",
) -> Task:
    """Keep the last words of texts, and choose where short texts are padded.

    Parameters
    ----------
    data : Task
        Texts with one target each.
    words : int
        Number of tokens to keep from the end of each text; 0 for all.
    filling : {"front", "behind"}
        Whether padding comes before a short text, so that the last inputs are words, or after it,
        so that the network's state is read after the padding.
    vectors : str
        Name of the data set's word vectors that an embedding starts from; empty for none.

    Returns
    -------
    Task

    Raises
    ------
    ValueError
        The inputs are not texts, or the data set does not have these word vectors.
    """
    data.check("tokens", "class", "value")
    if vectors and vectors not in data.word_vectors:
        known = ", ".join(sorted(data.word_vectors)) or "none"
        raise ValueError(f"{data.name} has no vectors {vectors!r}; it has {known}")

    def select(inputs: np.ndarray) -> np.ndarray:
        inputs = inputs[:, -words:]
        if filling == "front":
            return inputs
        padding_last = np.argsort(inputs == PAD, axis=1, kind="stable")
        return np.take_along_axis(inputs, padding_last, axis=1)

    return replace(data.map_inputs(select), vectors=data.word_vectors.get(vectors))
