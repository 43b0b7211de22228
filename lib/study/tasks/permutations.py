"""Permutations of the papers' programs, computed without torch.

A new version of torch may draw other numbers, but can't change data that are made here.
"""

import numpy as np


def torch_permutation(length: int, seed: int) -> np.ndarray:
    """Return the result of ``torch.manual_seed(seed); torch.randperm(length)`` on a CPU.

    The Mersenne Twister draws 32 bits for each element i, which is swapped with the element at
    i + draw mod (length - i).

    Parameters
    ----------
    length : int
        Number of elements.
    seed : int
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
"""Functions that map a length to a permutation, by the program that uses it.

UnICORNN's program uses the permutation ``lem``, and the dissertation's author uses ``exprnn``. That
of iRNN can't be reproduced: the paper says "seed 42" and does not name the library.
"""
