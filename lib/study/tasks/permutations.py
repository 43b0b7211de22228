"""Permutations as torch draws them, without torch: data that follow from a seed must not follow
from a version.
"""

import numpy as np


def torch_permutation(length: int, seed: int) -> np.ndarray:
    """Return what ``torch.manual_seed(seed); torch.randperm(length)`` gives on the CPU.

    Mersenne Twister, 32 bits a draw; the i-th number changes places with the one at i + draw mod
    (length - i).

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
"""Orders of so many inputs by the program that they are from: ``lem``'s is also UnICORNN's,
``exprnn``'s also that of the dissertation's author. iRNN's, "seed 42" of an unnamed library,
cannot be known.
"""
