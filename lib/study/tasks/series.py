"""Real series as they are prepared, or fewer of their steps."""

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from study.config.section import Positive
from study.tasks._registry import task
from study.tasks.data import Task


@task
def series(
    data: Task,
    rng: np.random.Generator,
    *,
    every: Positive = 1,
    keep: Literal["last", "random"] = "last",
    share: Annotated[float, Field(gt=0, le=1)] = 1.0,
    centred: bool = False,
) -> Task:
    """Return a data set of real series.

    Parameters
    ----------
    data
        The data set.
    rng
        Draws which steps are kept, if they are ``random``.
    every
        One step out of so many is kept, starting with the first.
    keep
        Which of these: the ``last`` ones, or ``random`` ones in their order, drawn once for each
        sequence.
    share
        Share of the steps that is kept.
    centred
        Whether the mean of the training split's targets is subtracted from all targets. Errors and
        their unit stay as they are; without it an output layer that starts at zero must first climb
        to some ninety beats per minute.

    Returns
    -------
    Task
        Series of fewer steps.

    Raises
    ------
    ValueError
        The data set holds no series.

    """
    data.check("series", "class", "value")
    data = data.map_inputs(lambda inputs: inputs[:, ::every])
    length = data.train.time_steps
    steps = max(1, round(share * length))
    if centred:
        data.check("series", "value")
        mean = data.train.targets.mean(axis=0)
        data = data.map(lambda split: replace(split, targets=split.targets - mean))

    def shortened(inputs: np.ndarray) -> np.ndarray:
        if keep == "last":
            return inputs[:, -steps:]
        shorter = []
        for sequence in inputs:
            kept = np.sort(rng.choice(length, steps, replace=False))
            shorter.append(sequence[kept])
        return np.stack(shorter)

    return data.map_inputs(shortened) if steps < length else data
