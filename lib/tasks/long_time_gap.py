r"""The long time gap tasks LTG: remember one sign among signs that mean nothing.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, experiment 2.2 and section 3.3.2:

    The input sequence is a Rademacher series of length T, i.e. each :math:`u_t` is an independent random variable taking
    the value +1 or -1 with probability 1/2, and the label corresponds to :math:`\operatorname{sign}(u_{t^*})` for a
    pre-specified sequence location :math:`t^*`.

The text writes LTG23 for :math:`t^* = 23` and varies T. There is no set of given size: sequences are drawn as they are
needed, and with 2^T of them a test set is disjoint from the training's for all practical purposes.
"""

import numpy as np

from lib.tasks.data import Sequences

CLASSES = 2
"""Labels K: 0 for a negative sign, 1 for a positive one."""


def long_time_gap(place: int, time_steps: int, size: int, rng: np.random.Generator) -> Sequences:
    """Draw sequences of the task LTG`place`.

    Parameters
    ----------
    place
        Location t* of the input that decides, 1..T as in the text (the first input is u_1).
    time_steps
        Length T of a sequence.
    size
        Number n of sequences.
    rng
        Draws them; the same generator gives different sequences at the next call.

    Returns
    -------
    Sequences
        Inputs (n, T, 1), float32, -1 or +1; labels (n,), int64, 0 where u_t* is -1 and 1 where it is +1.

    Raises
    ------
    ValueError
        The place lies outside the sequence, or a size is not positive.

    Examples
    --------
    >>> part = long_time_gap(2, 3, 4, np.random.default_rng(1))
    >>> part.inputs[:, :, 0].astype(int).tolist()
    [[1, 1, -1], [-1, 1, 1], [-1, 1, -1], [1, -1, 1]]
    >>> part.labels.tolist()
    [1, 1, 1, 0]
    """
    for label, value in (("time_steps", time_steps), ("size", size)):
        if value < 1:
            raise ValueError(f"long time gap: expected a positive {label}, got {value}")
    if not 1 <= place <= time_steps:
        raise ValueError(
            f"long time gap: expected the deciding input among 1..{time_steps}, got {place}"
        )
    signs = 2 * rng.integers(0, 2, (size, time_steps, 1), dtype=np.int8) - 1
    labels = signs[:, place - 1, 0] > 0
    return Sequences(signs.astype(np.float32), labels.astype(np.int64))
