"""Images read row by row, with rows of noise behind them (dissertation, experiment 2.3).

The text describes the padding twice, and not alike. Section 2.7 appends rows of "independent standard Gaussian noise",
experiment 2.3 "iid Unif(0, 1) noise": the experiment's own statement is followed. Experiment 2.3 says that the whole
length is a multiple of the number of rows (Pad2x has T = 56), the design that the appended rows are (Pad4x
appends 112 to 28, so T = 140): the design is followed, with which Pad0x is the image alone.
"""

import numpy as np

from lib.tasks._registry import Size, task
from lib.tasks.data import Task, image_shape


@task
def padded_rows(data: Task, rng: np.random.Generator, *, padding: Size) -> Task:
    """Return the images of a data set row by row with rows of noise behind them, see `pad_rows`."""
    return pad_rows(data, padding, rng)


def pad_rows(data: Task, padding: int, rng: np.random.Generator) -> Task:
    """Return the task of experiment 2.3 that a set of square images, (n, side * side, 1) pixels, becomes.

    Inputs (n, (1 + padding) * side, side): the rows of the image, then `padding` times as many of U(0, 1), drawn once for each
    sequence, part by part.
    """
    if padding < 0:
        raise ValueError(f"expected a padding of 0 or more times the image's rows, got {padding}")
    side = image_side(data)

    def padded(images: np.ndarray) -> np.ndarray:
        inputs = np.empty((len(images), (1 + padding) * side, side), np.float32)
        inputs[:, :side] = images.reshape(-1, side, side)
        for sequence in inputs:  # one at a time: no second array of the same size
            rng.random(out=sequence[side:], dtype=np.float32)
        return inputs

    return data.map_inputs(padded)


def image_side(data: Task) -> int:
    """Return the rows of the square images in `data`; raises `ValueError` where there are none of one channel."""
    side, channels = image_shape(data)
    if channels != 1:
        raise ValueError(f"{data.name}: expected images of one channel, got {channels}")
    return side
