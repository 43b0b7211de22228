"""Images read pixel by pixel in the order of a text's program: sMNIST and psMNIST."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from lib.tasks._parts import hold_out
from lib.tasks._registry import task
from lib.tasks.data import Part, Task, load_prepared
from lib.tasks.permutations import permutation
from lib.tasks.variations import smaller


@task
def pixels(
    prepared: Path,
    rng: np.random.Generator,
    *,
    dataset: str,
    order: str = "none",
    pool: int = 1,
    standardised: bool = False,
    train_size: int = 0,
    validation_size: int = 0,
    test_size: int = 0,
) -> Task:
    """Return images as sequences of pixels.

    Parameters
    ----------
    dataset
        A data set of images.
    order
        Permutation by the program that it is from, see `lib.tasks.permutations.PERMUTATIONS`.
    pool
        Images are averaged over squares of so many pixels a side first.
    standardised
        Whether all inputs get the mean 0 and the deviation 1 of the training part, as iRNN's text has it.
    train_size, test_size
        As in `lib.tasks.data.load_prepared`.
    validation_size
        Images taken out of the training part.
    """
    data = smaller(load_prepared(prepared / f"{dataset}.nc", train_size, test_size), pool)
    data = hold_out(data, validation_size)
    places = permutation(order, data.train.inputs.shape[1])
    data = data.map(lambda part: replace(part, inputs=part.inputs[:, places]))
    if not standardised:
        return data
    mean, deviation = data.train.inputs.mean(), data.train.inputs.std()

    def scaled(part: Part) -> Part:
        return replace(part, inputs=(part.inputs - mean) / deviation)

    return replace(data.map(scaled), kind="series")
