r"""The copying task: repeat ten symbols after a long pause.

A. Kag, Z. Zhang, V. Saligrama, *RNNs incrementally evolving on an equilibrium manifold*, ICLR 2020,
after S. Hochreiter and J. Schmidhuber, *Long short-term memory*, 1997. A sequence has T + 20 steps:
ten symbols, each one of eight, then T - 1 blanks, a delimiter, and ten blanks. The target is blank
at all steps except the last ten, where it repeats the symbols. The best prediction without memory
has the cross entropy :math:`10 \ln 8 / (T + 20)`.
"""

from functools import partial

import numpy as np

from study.tasks._registry import Count, task
from study.tasks.data import Split, Task

SYMBOLS = 8
"""Number of different symbols, which are coded as 1..8."""
LENGTH = 10
"""Number of symbols to remember."""
BLANK = 0
DELIMITER = SYMBOLS + 1
FEATURES = SYMBOLS + 2
"""Features of an input, which is one-hot: the blank, the symbols and the delimiter."""


@task
def copying(*, delay: Count) -> Task:
    """Make the copying task.

    Parameters
    ----------
    delay : int
        Number of time steps T between the symbols and their recall.

    Returns
    -------
    Task
        It draws its sequences with `draw_copies`.
    """
    return Task(
        name="copying",
        kind="series",
        target="steps",
        outputs=SYMBOLS + 1,
        draw=partial(draw_copies, delay),
        memoryless=memoryless(delay),
    )


def draw_copies(delay: int, size: int, rng: np.random.Generator) -> Split:
    """Draw sequences of the copying task.

    Parameters
    ----------
    delay : int
        Delay T in time steps.
    size : int
        Number n of sequences.
    rng : numpy.random.Generator

    Returns
    -------
    Split
        Inputs (n, T + 20, 10) float32, one-hot. Targets (n, T + 20) int64: 0 for the blank and 1..8
        for the symbols.

    Examples
    --------
    >>> split = draw_copies(3, 1, np.random.default_rng(0))
    >>> split.inputs[0].argmax(axis=1).tolist()
    [7, 6, 5, 3, 3, 1, 1, 1, 2, 7, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    >>> split.targets[0].tolist()
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 6, 5, 3, 3, 1, 1, 1, 2, 7]
    """
    symbols = rng.integers(1, SYMBOLS + 1, (size, LENGTH))
    steps = np.full((size, delay + 2 * LENGTH), BLANK)
    steps[:, :LENGTH] = symbols
    steps[:, LENGTH + delay - 1] = DELIMITER
    targets = np.full_like(steps, BLANK)
    targets[:, -LENGTH:] = symbols
    return Split(np.eye(FEATURES, dtype=np.float32)[steps], targets)


def memoryless(delay: int) -> tuple[float, float]:
    """Return the scores of the best prediction without memory: blanks, then ten random symbols.

    Parameters
    ----------
    delay : int
        Delay T in time steps.

    Returns
    -------
    cross_entropy : float
        Mean over time steps, in nats.
    accuracy : float
        Fraction of time steps.

    Examples
    --------
    >>> [round(memoryless(T)[0], 4) for T in (200, 500)]
    [0.0945, 0.04]
    """
    steps = delay + 2 * LENGTH
    loss = LENGTH * float(np.log(SYMBOLS)) / steps
    accuracy = 1 - (LENGTH - LENGTH / SYMBOLS) / steps
    return loss, accuracy
