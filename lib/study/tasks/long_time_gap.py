r"""The long time gap tasks (LTG): remember one sign among irrelevant signs.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, experiment 2.2
(abridged) and section 3.3.2:

    The input sequence is a Rademacher series of length T, i.e. each :math:`u_t` is an independent
    random variable taking the value +1 or -1 with probability 1/2, and the label corresponds to
    :math:`\operatorname{sign}(u_{t^*})` for a pre-specified sequence location :math:`t^*`.

The paper writes LTG23 for :math:`t^* = 23` and varies T. Every training batch consists of new
sequences. There are 2^T different sequences, so a test sequence practically never appears in
training.
"""

from functools import partial

import numpy as np

from study.config.section import Positive
from study.tasks._registry import Count, task
from study.tasks.data import Split, Task


@task
def long_time_gap(*, place: Positive, time_steps: Count) -> Task:
    """Make the long time gap task LTG`place`.

    Parameters
    ----------
    place : int
        Time t* of the input that decides the label, 1..T.
    time_steps : int
        Length T of a sequence.

    Returns
    -------
    Task
        It draws its sequences with `draw_signs`.

    Raises
    ------
    ValueError
        `place` is after the end of the sequence.
    """
    if place > time_steps:
        raise ValueError(
            f"long time gap: expected place in 1..{time_steps}, the time steps, got {place}"
        )
    draw = partial(draw_signs, place, time_steps)
    return Task(name=f"LTG{place}", kind="series", target="class", outputs=2, draw=draw)


def draw_signs(place: int, time_steps: int, size: int, rng: np.random.Generator) -> Split:
    """Draw sequences of a long time gap task.

    Parameters
    ----------
    place : int
        Time t* of the input that decides the label, 1..T as in the paper (the first input is u_1).
    time_steps : int
        Length T of a sequence.
    size : int
        Number n of sequences.
    rng : numpy.random.Generator

    Returns
    -------
    Split
        Inputs (n, T, 1) float32: -1 or +1. Labels (n,) int64: 0 if u_t* is -1, and 1 if it is +1.

    Examples
    --------
    >>> split = draw_signs(2, 3, 4, np.random.default_rng(1))
    >>> split.inputs[:, :, 0].astype(int).tolist()
    [[1, 1, -1], [-1, 1, 1], [-1, 1, -1], [1, -1, 1]]
    >>> split.targets.tolist()
    [1, 1, 1, 0]
    """
    signs = 2 * rng.integers(0, 2, (size, time_steps, 1), dtype=np.int8) - 1
    labels = signs[:, place - 1, 0] > 0
    return Split(signs.astype(np.float32), labels.astype(np.int64))
