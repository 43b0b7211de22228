"""The six variations of a data set: two orders, three places for noise.

Dissertation, Table 1.3 and Figure 1.1. The order acts on the data's own inputs first; noise joins
them afterwards and is "generated uniformly from the range of the original input values" (section
3.3, item 6): pixels of any brightness, and any word of the vocabulary. Filling, the start of a text
and unknown words stand for no input of their own, so noise is none of them.
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
    """Return one of the six variations of a prepared data set, made smaller first where asked for.

    Images are averaged over squares of `pool` pixels a side, texts keep so many of their last
    `words`: the filling in front goes first, 0 keeps all. The generator draws the permutation, then
    each sequence's noise, once.

    Inputs stay in their order or are ``permuted``: one permutation for all sequences, of all parts.
    Each ``attempt`` draws its own, as the text says; or it is that of a program, the same for all
    attempts, see `study.tasks.permutations.PERMUTATIONS`: the dissertation's author takes
    ``exprnn``. Then noise comes after the inputs, ``post``, or is spread evenly between them,
    ``uniform``, by the rule `spread`, see `noise_places`; its length is `noise_inputs`, or 0 for
    the data set's own, 1,000 for those of the dissertation.

    With `sigmoid` two classes have one output, the log odds of class 1, as the author's program has
    it for IMDB; other data sets stay as they are.
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
    places = noise_places(length, data.noise_inputs, noise, spread)
    data = data.map_inputs(lambda inputs: _with_noise(inputs[:, moved], places, data, rng))
    two = (data.target, data.outputs) == ("class", 2)
    return replace(data, outputs=1) if sigmoid and two else data


def pooled(data: Task, pool: int) -> Task:
    """Return square images averaged over squares of `pool` pixels a side, 28 x 28 by 2 to 14 x
    14; others stay as they are by 1.
    """
    if pool == 1:
        return data
    side, channels = image_shape(data)
    if side % pool:
        raise ValueError(f"{data.name}: a side of {side} pixels is no multiple of {pool}")
    few = side // pool

    def means(inputs: np.ndarray) -> np.ndarray:
        squares = inputs.reshape(len(inputs), few, pool, few, pool, channels)
        return squares.mean((2, 4)).reshape(len(inputs), few * few, channels)

    return data.map_inputs(means)


def noise_places(length: int, noise_inputs: int, noise: str, spread: str = "floor") -> np.ndarray:
    """Return for each place of the task's sequence whether it holds noise, (T,) bool.

    Noise is spread evenly by one of two rules. ``floor``: input i of T is followed by floor(i n /
    T) - floor((i - 1) n / T) of n noise inputs, two each for the 500 and 1,000 of Table 1.3.
    ``bresenham``: the author's program, which interleaves them as
    ``more_itertools.interleave_evenly([data, noise])`` does; it begins with the longer of the two.

    >>> noise_places(2, 4, "uniform").astype(int).tolist()
    [0, 1, 1, 0, 1, 1]
    >>> noise_places(5, 2, "uniform", "bresenham").astype(int).tolist()
    [0, 0, 1, 0, 0, 1, 0]
    """
    if noise == "none":
        return np.zeros(length, bool)
    if noise == "post":
        return np.arange(length + noise_inputs) >= length
    if spread == "floor":
        return _between(np.arange(length + 1) * noise_inputs // length)
    longer, shorter = max(length, noise_inputs), min(length, noise_inputs)
    # Bresenham's error, longer // 2 - k * shorter after k of the longer, is kept from falling below
    # zero.
    behind = np.maximum(0, -((longer // 2 - np.arange(longer + 1) * shorter) // longer))
    return _between(behind) if length >= noise_inputs else ~_between(behind)


def _between(upto: np.ndarray) -> np.ndarray:
    """Return where the others lie if so many of them, `upto` (n + 1,), have come before input k
    of n, or after the last.
    """
    places = np.ones(len(upto) - 1 + upto[-1], bool)
    places[np.arange(len(upto) - 1) + upto[:-1]] = False
    return places


def _with_noise(
    inputs: np.ndarray, places: np.ndarray, data: Task, rng: np.random.Generator
) -> np.ndarray:
    """Return `inputs` where `places` is false and fresh noise where it is true."""
    if not places.any():
        return inputs
    varied = np.empty((len(inputs), len(places), *inputs.shape[2:]), inputs.dtype)
    varied[:, ~places] = inputs
    # A few rows at a time: noise for the largest tasks would need the memory of the data once more.
    for start in range(0, len(inputs), ROWS):
        rows = varied[start : start + ROWS]
        shape = (len(rows), int(places.sum()), *inputs.shape[2:])
        if data.kind == "tokens":
            rows[:, places] = rng.integers(FIRST_WORD, data.vocabulary_size, shape)
        else:
            rows[:, places] = rng.random(shape, dtype=np.float32)
    return varied
