"""Texts that are read to their end, or through the padding behind them as in UnICORNN's program."""

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
    """Return a data set of texts with one target each.

    Parameters
    ----------
    data
        The data set.
    words
        Number of last tokens that are kept; 0 keeps all that are prepared.
    filling
        Where shorter texts are padded: in ``front``, so that what is read last is text, or
        ``behind``, so that the state is read out after the padding.
    vectors
        Name of the data set's word vectors that an embedding starts from; empty for none.

    Returns
    -------
    Task
        The texts.

    Raises
    ------
    ValueError
        The data set holds no texts, or has no such vectors.

    """
    data.check("tokens", "class", "value")
    if vectors and vectors not in data.word_vectors:
        known = ", ".join(sorted(data.word_vectors)) or "none"
        raise ValueError(f"{data.name} has no vectors {vectors!r}; it has {known}")

    def cut(inputs: np.ndarray) -> np.ndarray:
        inputs = inputs[:, -words:]
        if filling == "front":
            return inputs
        behind = np.argsort(inputs == PAD, axis=1, kind="stable")
        return np.take_along_axis(inputs, behind, axis=1)

    return replace(data.map_inputs(cut), vectors=data.word_vectors.get(vectors))
