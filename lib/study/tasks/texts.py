"""Texts that are read to their end, or through the filling behind them as UnICORNN's program
reads them.
"""

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

    Of a text the last tokens are kept, so many `words`; 0 keeps all that are prepared. Shorter
    texts are filled in ``front``, so that what is read last is text, or ``behind``, so that the
    state is read out after the filling. `vectors` is the name of the data set's vectors that an
    embedding starts from; empty for none.
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
