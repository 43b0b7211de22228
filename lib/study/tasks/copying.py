r"""The copying task: repeat ten symbols after a long pause.

A. Kag, Z. Zhang, V. Saligrama, *RNNs incrementally evolving on an equilibrium manifold*, ICLR 2020,
after S. Hochreiter and J. Schmidhuber, *Long short-term memory*, 1997. A sequence has T + 20 steps:
ten symbols out of eight, T - 1 blanks, a delimiter, ten blanks. The target is blank at all
steps but the last ten, which repeat the symbols. The best answer without memory has the cross
entropy :math:`10 \ln 8 / (T + 20)`.
"""

from functools import partial

import numpy as np

from study.tasks._registry import Count, task
from study.tasks.data import Split, Task

BLANK, SYMBOLS, LENGTH = 0, 8, 10
DELIMITER = SYMBOLS + 1
FEATURES = SYMBOLS + 2
"""Numbers of an input: a one for the blank, for each symbol, for the delimiter."""


@task
def copying(*, delay: Count) -> Task:
    """Return the copying task with a delay; see `draw_copies`.

    Parameters
    ----------
    delay
        Number of time steps T between the symbols and their recall.

    Returns
    -------
    Task
    """
    about = {"kind": "series", "target": "steps", "outputs": SYMBOLS + 1}
    draw = partial(draw_copies, delay)
    return Task(name="copying", **about, draw=draw, memoryless=memoryless(delay))


def draw_copies(delay: int, size: int, rng: np.random.Generator) -> Split:
    """Draw sequences of the copying task.

    Parameters
    ----------
    delay
        Delay T, in steps.
    size
        Number n of sequences.
    rng
        Source of randomness.

    Returns
    -------
    Split
        Inputs (n, T + 20, 10), float32, one-hot; targets (n, T + 20), int64, 0 for the blank and
        1..8 for the symbols.

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
    """Return cross entropy and accuracy, per step, of the best answer without memory.

    Parameters
    ----------
    delay
        Delay T, in steps.

    Returns
    -------
    tuple of float
        Cross entropy, in nats, and accuracy of blanks followed by ten guesses.

    Examples
    --------
    >>> [round(memoryless(T)[0], 4) for T in (200, 500)]
    [0.0945, 0.04]

    """
    steps = delay + 2 * LENGTH
    loss = LENGTH * float(np.log(SYMBOLS)) / steps
    accuracy = 1 - (LENGTH - LENGTH / SYMBOLS) / steps
    return loss, accuracy
