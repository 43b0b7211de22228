"""The six variations of a data set: two orders, three places for noise.

Dissertation, Table 1.3 and Figure 1.1. The order acts on the data's own inputs first; noise joins them
afterwards and is "generated uniformly from the range of the original input values" (section 3.3, item
6): pixels of any brightness, and any word of the vocabulary (see `Task.noise_range`).
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from lib.tasks._registry import task
from lib.tasks.data import Part, Task, load_prepared

ORDERS = ("sequential", "permuted")
NOISES = ("none", "post", "uniform")
ROWS = 4096


@task
def dataset(
    prepared: Path,
    rng: np.random.Generator,
    *,
    dataset: str,
    order: str = "sequential",
    noise: str = "none",
    noise_inputs: int = 0,
    pool: int = 1,
    words: int = 0,
    train_size: int = 0,
    test_size: int = 0,
) -> Task:
    """Return one of the six variations of a prepared data set, made smaller first where asked for.

    Parameters
    ----------
    dataset
        Name of the data set.
    order, noise
        As in `vary`.
    noise_inputs
        Length of the noise; 0 is the data set's own, 1,000 for those of the dissertation.
    pool, words
        As in `smaller`.
    train_size, test_size
        As in `lib.tasks.data.load_prepared`.
    """
    data = smaller(load_prepared(prepared / f"{dataset}.nc", train_size, test_size), pool, words)
    return vary(replace(data, noise_inputs=noise_inputs or data.noise_inputs), order, noise, rng)


def smaller(data: Task, pool: int = 1, words: int = 0) -> Task:
    """Return a data set with shorter sequences: pictures of fewer pixels, texts of fewer words.

    Parameters
    ----------
    pool
        Square images are averaged over squares of so many pixels a side, 28 x 28 by 2 to 14 x 14.
    words
        Texts keep so many of their last words, the filling in front goes first; 0 keeps all.

    Raises
    ------
    ValueError
        The images' side is no multiple of `pool`, or the data set is not of the kind that is to be made smaller.
    """
    if pool > 1:
        side = math.isqrt(data.train.inputs.shape[1])
        if data.kind != "pixels" or side**2 != data.train.inputs.shape[1]:
            shape = data.train.inputs.shape
            raise ValueError(
                f"{data.name}: expected square images to pool, got inputs of shape {shape}"
            )
        if side % pool:
            raise ValueError(f"{data.name}: a side of {side} pixels is no multiple of {pool}")
        few = side // pool

        def pooled(part: Part) -> Part:
            squares = part.inputs.reshape(len(part), few, pool, few, pool, -1)
            return replace(part, inputs=squares.mean((2, 4)).reshape(len(part), few * few, -1))

        return data.map(pooled)
    if words:
        if data.kind != "tokens":
            raise ValueError(
                f"{data.name}: expected texts to keep {words} words of, got {data.kind}"
            )
        return data.map(lambda part: replace(part, inputs=part.inputs[:, -words:]))
    return data


def time_steps(data: Task, noise: str) -> int:
    """Return the length of the input sequence, T or T plus the noise inputs."""
    _check("noise", noise, NOISES)
    return data.train.inputs.shape[1] + (0 if noise == "none" else data.noise_inputs)


def vary(data: Task, order: str, noise: str, rng: np.random.Generator) -> Task:
    """Return the task that `order` and `noise` make of a data set.

    Parameters
    ----------
    data
        The data set, or a part of it.
    order
        ``sequential``, or ``permuted``: one permutation for all sequences, of all parts.
    noise
        ``none``, ``post`` (after the inputs) or ``uniform`` (spread evenly between them).
    rng
        The attempt's own generator: it draws the permutation, then each sequence's noise, once.

    Raises
    ------
    ValueError
        The order or the noise is unknown.
    """
    _check("order", order, ORDERS)
    _check("noise", noise, NOISES)
    length = data.train.inputs.shape[1]
    permutation = rng.permutation(length) if order == "permuted" else None
    places = noise_places(length, data.noise_inputs, noise)

    def varied(part: Part) -> Part:
        inputs = part.inputs if permutation is None else part.inputs[:, permutation]
        return replace(part, inputs=_with_noise(inputs, places, data, rng))

    return data.map(varied)


def noise_places(length: int, noise_inputs: int, noise: str) -> np.ndarray:
    """Return for each place of the task's sequence whether it holds noise, (T,) bool.

    Spread evenly, input i of T is followed by floor(i n / T) - floor((i - 1) n / T) of n noise inputs:
    two each for the 500 and 1,000 of Table 1.3.

    >>> noise_places(2, 4, "uniform").astype(int).tolist()
    [0, 1, 1, 0, 1, 1]
    """
    if noise == "none":
        return np.zeros(length, bool)
    if noise == "post":
        return np.arange(length + noise_inputs) >= length
    upto = np.arange(length + 1) * noise_inputs // length
    places = np.ones(length + noise_inputs, bool)
    places[np.arange(length) + upto[:-1]] = False
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
            rows[:, places] = rng.integers(*data.noise_range, shape)
        else:
            rows[:, places] = rng.random(shape, dtype=np.float32)
    return varied


def _check(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}; known: {', '.join(known)}")
