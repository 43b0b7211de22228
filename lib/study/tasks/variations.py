"""The six variations of a data set: two orders, three positions of noise.

Dissertation, Table 1.3 and Figure 1.1. The order acts on the data's own inputs first; noise joins
them afterwards and is "generated uniformly from the range of the original input values" (section
3.3, item 6): pixels of any brightness, and any word of the vocabulary. Noise is never padding, the
start of a text or an unknown word.
"""

from dataclasses import replace

import numpy as np

from study.tasks.data import Task, image_shape
from study.tasks.permutations import PERMUTATIONS
from study.tasks.prepared import FIRST_WORD

ORDERS = ("sequential", "permuted")
NOISES = ("none", "post", "uniform")
DRAWS = ("attempt", *(name for name in PERMUTATIONS if name != "none"))
SPREADS = ("floor", "bresenham")
ROWS = 4096


def vary(
    data: Task,
    rng: np.random.Generator,
    *,
    order: str = "sequential",
    noise: str = "none",
    noise_inputs: int = 0,
    pool: int = 1,
    words: int = 0,
    permutation: str = "attempt",
    spread: str = "floor",
    sigmoid: bool = False,
) -> Task:
    """Return one of the six variations of a prepared data set.

    Parameters
    ----------
    data
        The data set.
    rng
        Draws the permutation, then each sequence's noise, once.
    order
        ``sequential``, or ``permuted``: one permutation for all sequences of all parts.
    noise
        ``none``; ``post``, after the inputs; or ``uniform``, spread evenly between them.
    noise_inputs
        Length of the noise; 0 for the data set's own, which is 1,000 in the dissertation.
    pool
        Images are first averaged over squares of so many pixels a side.
    words
        Texts first lose all but so many last words, padding before text; 0 keeps all.
    permutation
        ``attempt``: each attempt draws its own, as the dissertation says. Otherwise the name of a
        program's, the same for all attempts (`study.tasks.permutations.PERMUTATIONS`); the
        dissertation's author uses ``exprnn``.
    spread
        Rule by which noise is spread, see `noise_mask`.
    sigmoid
        Whether two classes have one output, the log odds of class 1, as the author's program has
        it for IMDB; other data sets stay as they are.

    Returns
    -------
    Task
        The variation.

    Raises
    ------
    ValueError
        A series cannot have noise, or the settings do not fit the data.

    """
    if data.kind == "series" and noise != "none":
        raise ValueError(f"{data.name}: noise would not look like a series of values; ask for none")
    if data.kind == "pixels":
        data = pooled(data, pool)
    elif words:
        data.check("tokens", "class")
        data = data.map_inputs(lambda inputs: inputs[:, -words:])
    data = replace(data, noise_inputs=noise_inputs or data.noise_inputs)
    length = data.train.time_steps
    draw = rng.permutation if permutation == "attempt" else PERMUTATIONS[permutation]
    moved = draw(length) if order == "permuted" else slice(None)
    is_noise = noise_mask(length, data.noise_inputs, noise, spread)
    data = data.map_inputs(lambda inputs: _with_noise(inputs[:, moved], is_noise, data, rng))
    if sigmoid and data.target == "class" and data.outputs == 2:
        return replace(data, outputs=1)
    return data


def pooled(data: Task, pool: int) -> Task:
    """Return square images averaged over squares of pixels, such as 28 x 28 to 14 x 14.

    Parameters
    ----------
    data
        Square images; anything if `pool` is 1.
    pool
        Side of the squares, in pixels.

    Returns
    -------
    Task
        The smaller images.

    Raises
    ------
    ValueError
        The images are not square, or their side is not a multiple of `pool`.

    """
    if pool == 1:
        return data
    side, channels = image_shape(data)
    if side % pool:
        raise ValueError(f"{data.name}: a side of {side} pixels is not a multiple of {pool}")
    few = side // pool

    def means(inputs: np.ndarray) -> np.ndarray:
        squares = inputs.reshape(len(inputs), few, pool, few, pool, channels)
        return squares.mean((2, 4)).reshape(len(inputs), few * few, channels)

    return data.map_inputs(means)


def noise_mask(length: int, noise_inputs: int, noise: str, spread: str = "floor") -> np.ndarray:
    """Return which inputs of a varied sequence are noise.

    Parameters
    ----------
    length
        Number T of the data's own inputs.
    noise_inputs
        Number n of noise inputs.
    noise
        ``none``, ``post`` or ``uniform``.
    spread
        Rule by which uniform noise is spread. ``floor``: input i of T is followed by
        floor(i n / T) - floor((i - 1) n / T) noise inputs, two each for the 500 and 1,000 of Table
        1.3. ``bresenham``: the author's program, which interleaves them as
        ``more_itertools.interleave_evenly([data, noise])`` does; it begins with the longer of the
        two.

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
    # Bresenham's error, longer // 2 - k * shorter after k of the longer, is kept from falling below
    # zero.
    behind = np.maximum(0, -((longer // 2 - np.arange(longer + 1) * shorter) // longer))
    return _between(behind) if length >= noise_inputs else ~_between(behind)


def _between(before: np.ndarray) -> np.ndarray:
    """Return which inputs are noise if `before[k]` noise inputs precede input k of n.

    `before`, (n + 1,), ends with their total number.
    """
    inputs = len(before) - 1
    is_noise = np.ones(inputs + before[-1], bool)
    is_noise[np.arange(inputs) + before[:-1]] = False
    return is_noise


def _with_noise(
    inputs: np.ndarray, is_noise: np.ndarray, data: Task, rng: np.random.Generator
) -> np.ndarray:
    """Return `inputs` with fresh noise wherever `is_noise` is true."""
    if not is_noise.any():
        return inputs
    varied = np.empty((len(inputs), len(is_noise), *inputs.shape[2:]), inputs.dtype)
    varied[:, ~is_noise] = inputs
    # A few rows at a time: noise for the largest tasks would need the memory of the data once more.
    for start in range(0, len(inputs), ROWS):
        rows = varied[start : start + ROWS]
        shape = (len(rows), int(is_noise.sum()), *inputs.shape[2:])
        if data.kind == "tokens":
            rows[:, is_noise] = rng.integers(FIRST_WORD, data.vocabulary_size, shape)
        else:
            rows[:, is_noise] = rng.random(shape, dtype=np.float32)
    return varied
