"""The six variations of a data set: two orders, three places for noise.

Dissertation, Table 1.3 and Figure 1.1. The order acts on the data's own inputs first; noise joins them
afterwards and is "generated uniformly from the range of the original input values" (section 3.3, item
6): pixels of any brightness, and any word of the vocabulary (see `TaskData.noise_range`).
"""

from dataclasses import replace

import numpy as np

from lib.run.params import NOISES, ORDERS
from lib.tasks.data import Sequences, TaskData

ROWS = 4096


def time_steps(data: TaskData, noise: str) -> int:
    """Return the length of the input sequence, T or T plus the noise inputs."""
    _check("noise", noise, NOISES)
    return data.train.inputs.shape[1] + (0 if noise == "none" else data.noise_inputs)


def vary(data: TaskData, order: str, noise: str, rng: np.random.Generator) -> TaskData:
    """Return the task that `order` and `noise` make of a data set.

    Parameters
    ----------
    data
        The data set, or a part of it.
    order
        ``sequential``, or ``permuted``: one permutation for all sequences, of both splits.
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

    def varied(part: Sequences) -> Sequences:
        inputs = part.inputs if permutation is None else part.inputs[:, permutation]
        return replace(part, inputs=_with_noise(inputs, places, data, rng))

    return replace(data, train=varied(data.train), test=varied(data.test))


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
    inputs: np.ndarray, places: np.ndarray, data: TaskData, rng: np.random.Generator
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
