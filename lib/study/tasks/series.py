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

    One step of so many (`every`) is kept, from the first on, and of these a `share`: the ``last``
    ones, or ``random`` ones in their order, a choice of its own for each sequence that does not
    change between epochs.

    Where targets are `centred` the mean of the training part's values is taken off all of them. It
    leaves errors and their unit as they are; without it a head that starts at zero must first climb
    to some ninety beats a minute.
    """
    data.check("series", "class", "value")
    data = data.map_inputs(lambda inputs: inputs[:, ::every])
    length = data.train.time_steps
    steps = max(1, round(share * length))
    if centred:
        data.check("series", "value")
        mean = data.train.targets.mean(axis=0)
        data = data.map(lambda part: replace(part, targets=part.targets - mean))

    def shortened(inputs: np.ndarray) -> np.ndarray:
        if keep == "last":
            return inputs[:, -steps:]
        places = (np.sort(rng.choice(length, steps, replace=False)) for _ in inputs)
        return np.stack([one[kept] for one, kept in zip(inputs, places, strict=True)])

    return data.map_inputs(shortened) if steps < length else data
