"""Images read pixel by pixel in the order of a paper's program: sMNIST and psMNIST."""

from typing import Literal

from study.config.section import Positive
from study.tasks._registry import task
from study.tasks.data import Task
from study.tasks.permutations import PERMUTATIONS
from study.tasks.variations import pooled


@task
def pixels(
    data: Task,
    *,
    order: Literal[tuple(PERMUTATIONS)] = "none",
    pool: Positive = 1,
    standardised: bool = False,
) -> Task:
    """Return images as sequences of pixels.

    Parameters
    ----------
    data
        Square images.
    order
        Order in which pixels are read, by the program it is from
        (`study.tasks.permutations.PERMUTATIONS`).
    pool
        Images are first averaged over squares of so many pixels a side.
    standardised
        Whether all inputs get the mean 0 and the deviation 1 of the training split, as in iRNN's
        paper.

    Returns
    -------
    Task
        Sequences (n, pixels, channels).

    Raises
    ------
    ValueError
        The data are not square images, or their side is not a multiple of `pool`.

    """
    data = pooled(data, pool)
    order_of_pixels = PERMUTATIONS[order](data.train.time_steps)
    data = data.map_inputs(lambda inputs: inputs[:, order_of_pixels])
    return data.standardised() if standardised else data
