"""Permutations as torch draws them, without torch.

Data that depend on a seed must not depend on a version of torch.
"""

import numpy as np


def torch_permutation(length: int, seed: int) -> np.ndarray:
    """Return what ``torch.manual_seed(seed); torch.randperm(length)`` gives on the CPU.

    It uses the Mersenne Twister, 32 bits per draw, and swaps the i-th number with the one at
    i + draw mod (length - i).

    Parameters
    ----------
    length
        Number of elements.
    seed
        Seed of torch's generator.

    Returns
    -------
    numpy.ndarray
        The permutation, (length,) int64.

    Examples
    --------
    >>> torch_permutation(784, 5544)[:5].tolist()
    [327, 72, 48, 129, 109]

    """
    draws = np.random.RandomState(seed)._bit_generator.random_raw(max(0, length - 1))
    order = np.arange(length)
    for i, draw in enumerate(draws.tolist()):
        j = i + draw % (length - i)
        order[i], order[j] = order[j], order[i]
    return order


PERMUTATIONS = {
    "none": np.arange,
    "lem": lambda length: torch_permutation(length, 5544),
    "exprnn": lambda length: np.random.RandomState(92916).permutation(length),
}
"""Functions that return an order of so many inputs, by the program they are from.

``lem``'s is also UnICORNN's, ``exprnn``'s also that of the dissertation's author. iRNN's, "seed 42"
of an unnamed library, cannot be known.
"""
