"""The six variations of a data set in the factorial experiment: two orders, three kinds of noise.

Dissertation, Table 1.3 and Figure 1.1. Inputs are permuted first. Noise is added afterwards and is
"generated uniformly from the range of the original input values" (section 3.3.1, item 6): pixels of
any brightness, or any word of the vocabulary, but never the tokens for padding, the start of a text
or an unknown word.
"""

from dataclasses import replace

import numpy as np

from study.config.factorial import Noise, Order
from study.tasks.data import Task, image_shape
from study.tasks.permutations import PERMUTATIONS
from study.tasks.prepared import FIRST_WORD

ROWS = 4096
"""Number of sequences to which noise is added at a time."""


def vary(
    data: Task,
    rng: np.random.Generator,
    *,
    order: Order = "sequential",
    noise: Noise = "none",
    noise_inputs: int = 0,
    pool: int = 1,
    words: int = 0,
    permutation: str = "attempt",
    spread: str = "floor",
    sigmoid: bool = False,
) -> Task:
    """Make one of the six variations of a prepared data set.

    Parameters
    ----------
    data : Task
        The data set.
    rng : numpy.random.Generator
        Draws the permutation, and then the noise of each sequence, once.
    order : str
        ``sequential``, or ``permuted``: one permutation for all sequences of all splits.
    noise : str
        ``none``; ``post``, after the inputs; or ``uniform``, evenly between the inputs.
    noise_inputs : int
        Length of the noise; 0 for that of the data set, which is 1,000 in the dissertation.
    pool : int
        Images are first averaged over squares of `pool` x `pool` pixels.
    words : int
        Number of tokens to keep from the end of each text, before noise is added; 0 for all.
    permutation : str
        ``attempt`` if each attempt draws its own, as the dissertation says. Otherwise a key of
        `study.tasks.permutations.PERMUTATIONS`, the same for all attempts; the dissertation's
        author uses ``exprnn``.
    spread : str
        How ``uniform`` noise is distributed, see `noise_mask`.
    sigmoid : bool
        Whether two classes have one output, the log odds of class 1, as in the author's program for
        IMDB. Data sets with more classes are not affected.

    Returns
    -------
    Task

    Raises
    ------
    ValueError
        Noise is requested for series, or the settings do not fit the data.
    """
    if data.kind == "series" and noise != "none":
        raise ValueError(
            f"{data.name}: noise is not defined for series of values; set noise to none"
        )
    if data.kind == "pixels":
        data = pooled(data, pool)
    elif words:
        data.check("tokens", "class")
        data = data.map_inputs(lambda inputs: inputs[:, -words:])
    data = replace(data, noise_inputs=noise_inputs or data.noise_inputs)
    length = data.train.time_steps
    if order == "permuted":
        draw_permutation = rng.permutation
        if permutation != "attempt":
            draw_permutation = PERMUTATIONS[permutation]
        new_order = draw_permutation(length)
    else:
        new_order = slice(None)
    is_noise = noise_mask(length, data.noise_inputs, noise, spread)
    data = data.map_inputs(lambda inputs: _add_noise(inputs[:, new_order], is_noise, data, rng))
    if sigmoid and data.target == "class" and data.outputs == 2:
        return replace(data, outputs=1)
    return data


def pooled(data: Task, pool: int) -> Task:
    """Average images over squares of pixels, for example from 28 x 28 to 14 x 14.

    Parameters
    ----------
    data : Task
        Square images; anything if `pool` is 1.
    pool : int
        Side of the squares in pixels.

    Returns
    -------
    Task
        Images with `pool` squared times fewer pixels.

    Raises
    ------
    ValueError
        The images are not square, or their side is not a multiple of `pool`.
    """
    if pool == 1:
        return data
    side, channels = image_shape(data)
    if side % pool:
        raise ValueError(
            f"{data.name}: a side of {side} pixels is not a multiple of {pool}; choose a pool that "
            "divides it"
        )
    new_side = side // pool

    def means(inputs: np.ndarray) -> np.ndarray:
        squares = inputs.reshape(len(inputs), new_side, pool, new_side, pool, channels)
        return squares.mean((2, 4)).reshape(len(inputs), new_side * new_side, channels)

    return data.map_inputs(means)


def noise_mask(length: int, noise_inputs: int, noise: Noise, spread: str = "floor") -> np.ndarray:
    """Return which inputs of a sequence with noise are noise.

    Parameters
    ----------
    length : int
        Number T of inputs of the data.
    noise_inputs : int
        Number n of noise inputs.
    noise : str
        ``none``, ``post`` or ``uniform``.
    spread : str
        How ``uniform`` noise is distributed. ``floor``: input i of T is followed by
        floor(i n / T) - floor((i - 1) n / T) noise inputs; for the 500 and 1,000 of Table 1.3 these
        are two each. ``bresenham``: as in the author's program, which interleaves data and noise
        like ``more_itertools.interleave_evenly([data, noise])`` and begins with the longer one.

    Returns
    -------
    numpy.ndarray
        Whether each input is noise, (T + n,) bool; (T,) without noise.

    Examples
    --------
    >>> noise_mask(2, 4, "uniform").astype(int).tolist()
    [0, 1, 1, 0, 1, 1]
    >>> noise_mask(5, 2, "uniform", "bresenham").astype(int).tolist()
    [0, 0, 1, 0, 0, 1, 0]
    """
    if noise == "none":
        return np.zeros(length, bool)
    if noise == "post":
        return np.arange(length + noise_inputs) >= length
    if spread == "floor":
        return _between(np.arange(length + 1) * noise_inputs // length)
    longer = max(length, noise_inputs)
    shorter = min(length, noise_inputs)
    # Bresenham's algorithm: after k elements of the longer part, the error is
    # longer // 2 - k * shorter. Whenever it would be negative, an element of the shorter part is
    # inserted.
    inserted = np.maximum(0, -((longer // 2 - np.arange(longer + 1) * shorter) // longer))
    if length >= noise_inputs:
        return _between(inserted)
    return ~_between(inserted)


def _between(inserted: np.ndarray) -> np.ndarray:
    """Return which elements of a sequence are inserted ones.

    `inserted`, (n + 1,), has the number of inserted elements before each of the n other elements,
    and at the end their total number.
    """
    elements = len(inserted) - 1
    is_inserted = np.ones(elements + inserted[-1], bool)
    is_inserted[np.arange(elements) + inserted[:-1]] = False
    return is_inserted


def _add_noise(
    inputs: np.ndarray, is_noise: np.ndarray, data: Task, rng: np.random.Generator
) -> np.ndarray:
    """Return `inputs` with new noise inserted wherever `is_noise` is true."""
    if not is_noise.any():
        return inputs
    varied = np.empty((len(inputs), len(is_noise), *inputs.shape[2:]), inputs.dtype)
    varied[:, ~is_noise] = inputs
    # Not all sequences at once, because their noise would need as much memory as the data.
    for start in range(0, len(inputs), ROWS):
        rows = varied[start : start + ROWS]
        shape = (len(rows), int(is_noise.sum()), *inputs.shape[2:])
        if data.kind == "tokens":
            rows[:, is_noise] = rng.integers(FIRST_WORD, data.vocabulary_size, shape)
        else:
            rows[:, is_noise] = rng.random(shape, dtype=np.float32)
    return varied
