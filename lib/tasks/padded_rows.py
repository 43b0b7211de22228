"""Images read row by row, with rows of noise behind them (dissertation, experiment 2.3).

The text describes the padding twice, and not alike. Section 2.7 appends rows of "independent standard Gaussian noise",
experiment 2.3 "iid Unif(0, 1) noise": the experiment's own statement is followed. Experiment 2.3 says that the whole
length is a multiple of the number of rows (Pad2x has T = 56), the design that the appended rows are (Pad4x
appends 112 to 28, so T = 140): the design is followed, with which Pad0x is the image alone.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from lib.tasks._registry import task
from lib.tasks.data import Part, Task, load_prepared


@task
def padded_rows(
    prepared: Path,
    rng: np.random.Generator,
    *,
    dataset: str,
    padding: int,
    train_size: int = 0,
    test_size: int = 0,
) -> Task:
    """Return the images of a data set row by row with rows of noise behind them, see `pad_rows`."""
    return pad_rows(load_prepared(prepared / f"{dataset}.nc", train_size, test_size), padding, rng)


def pad_rows(data: Task, padding: int, rng: np.random.Generator) -> Task:
    """Return the task of experiment 2.3 that a set of square images becomes.

    Parameters
    ----------
    data
        Images as sequences of pixels, (n, side * side, 1), as stage 00 prepares them.
    padding
        Rows of noise, as a multiple of the image's rows; 0 appends none.
    rng
        Draws each sequence's noise, once: first for the training part, then for the test part.

    Returns
    -------
    Task
        Inputs (n, (1 + padding) * side, side): the rows of the image, then rows of U(0, 1).

    Raises
    ------
    ValueError
        The data set holds no square images of one channel, or the padding is negative.
    """
    if padding < 0:
        raise ValueError(f"expected a padding of 0 or more times the image's rows, got {padding}")
    side = image_side(data)

    def padded(part: Part) -> Part:
        inputs = np.empty((len(part.targets), (1 + padding) * side, side), np.float32)
        inputs[:, :side] = part.inputs.reshape(-1, side, side)
        for sequence in inputs:  # one at a time: no second array of the same size
            rng.random(out=sequence[side:], dtype=np.float32)
        return replace(part, inputs=inputs)

    return data.map(padded)


def image_side(data: Task) -> int:
    """Return the rows of the square images in `data`; raises `ValueError` where there are none."""
    shape = data.train.inputs.shape
    side = math.isqrt(shape[1])
    if data.kind != "pixels" or len(shape) != 3 or shape[2] != 1 or side * side != shape[1]:
        raise ValueError(
            f"{data.name}: expected square images of one channel, (n, side * side, 1) pixels, got "
            f"{data.kind} of shape {shape}; choose a data set such as mnist"
        )
    return side
