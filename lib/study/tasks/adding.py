r"""The adding problem: a sum of two numbers that are marked among many.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, experiment 2.4
(abridged), after S. Hochreiter and J. Schmidhuber, *Long short-term memory*, 1997:

    Input features are formed by concatenating two univariate sequences of length T. The first
    consists of elements :math:`u_t \sim \text{Unif}(0, 1)`, the second is an indicator vector,
    where two elements are marked: one uniformly at random from the positions :math:`[0, T/2]`, one
    from :math:`[T/2 + 1, T]`. The target is the sum of the two elements in the first sequence that
    have a marked position.

Elsewhere the paper counts time steps from 1, so position 0 does not exist. We use the positions
1..floor(T/2) and floor(T/2)+1..T. Every training batch consists of new sequences; the data set has
no fixed size.
"""

from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field

from study.tasks._registry import Count, task
from study.tasks.data import Split, Task

FEATURES = 2
"""Features of an input: the value and the mark."""


@task
def adding(*, time_steps: Annotated[Count, Field(ge=2)]) -> Task:
    """Make the adding problem.

    Parameters
    ----------
    time_steps : int
        Length T of a sequence.

    Returns
    -------
    Task
        It draws its sequences with `draw_sums`.
    """
    draw = partial(draw_sums, time_steps)
    return Task(name="adding", kind="series", target="value", outputs=1, draw=draw)


def draw_sums(time_steps: int, size: int, rng: np.random.Generator) -> Split:
    """Draw sequences of the adding problem.

    Parameters
    ----------
    time_steps : int
        Length T of a sequence, at least 2.
    size : int
        Number n of sequences.
    rng : numpy.random.Generator

    Returns
    -------
    Split
        Inputs (n, T, 2) float32: the value, between 0 and 1, and the mark, 0 or 1. Targets (n, 1)
        float32: the sum of the two marked values.

    Examples
    --------
    >>> split = draw_sums(4, 1, np.random.default_rng(1))
    >>> split.inputs[0, :, 1].astype(int).tolist()
    [1, 0, 1, 0]
    >>> bool(split.targets[0, 0] == split.inputs[0, [0, 2], 0].sum())
    True
    """
    inputs = np.zeros((size, time_steps, FEATURES), np.float32)
    inputs[:, :, 0] = rng.random((size, time_steps), dtype=np.float32)
    middle = time_steps // 2
    sequence = np.arange(size)
    targets = np.zeros(size, np.float32)
    for low, high in ((0, middle), (middle, time_steps)):
        step = rng.integers(low, high, size)
        inputs[sequence, step, 1] = 1
        targets += inputs[sequence, step, 0]
    return Split(inputs, targets[:, None])
