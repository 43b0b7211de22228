"""Real-valued series, whole or with only some of their time steps."""

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
    centred: bool = False,  # data seeds depend on this spelling, see study.tasks
) -> Task:
    """Select time steps of real-valued series.

    Parameters
    ----------
    data : Task
        The data set.
    rng : numpy.random.Generator
        Draws the steps to keep if `keep` is ``random``.
    every : int
        Keep every n-th step, starting with the first.
    keep : {"last", "random"}
        Which of the remaining steps to keep if `share` is below 1: the last ones, or random ones in
        their order, drawn once per sequence.
    share : float
        Fraction of the remaining steps to keep.
    centred : bool
        Whether to subtract the mean of the training targets from all targets, which does not change
        errors. Without it, an output layer that starts at zero must first learn the mean, such as
        ninety beats per minute.

    Returns
    -------
    Task
        Series (n, T', p) with T' = `share` * T / `every`, rounded.

    Raises
    ------
    ValueError
        The inputs are not real-valued series; or `centred` is set and the targets are classes.
    """
    data.check("series", "class", "value")
    data = data.map_inputs(lambda inputs: inputs[:, ::every])
    length = data.train.time_steps
    steps = max(1, round(share * length))
    if centred:
        data.check("series", "value")
        mean = data.train.targets.mean(axis=0)
        data = data.map(lambda split: replace(split, targets=split.targets - mean))

    def select(inputs: np.ndarray) -> np.ndarray:
        if keep == "last":
            return inputs[:, -steps:]
        selected = []
        for sequence in inputs:
            kept = np.sort(rng.choice(length, steps, replace=False))
            selected.append(sequence[kept])
        return np.stack(selected)

    if steps == length:
        return data
    return data.map_inputs(select)
