"""Images as sequences of pixels, in the order of a paper's program: sMNIST and psMNIST."""

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
    standardised: bool = False,  # data seeds depend on this spelling, see study.tasks
) -> Task:
    """Make sequences of pixels.

    Parameters
    ----------
    data : Task
        Square images.
    order : str
        Order of the pixels: a key of `study.tasks.permutations.PERMUTATIONS`.
    pool : int
        Images are first averaged over squares of `pool` x `pool` pixels.
    standardised : bool
        Whether to standardize inputs to mean 0 and standard deviation 1 over the training split, as
        in iRNN's paper.

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
    if standardised:
        return data.standardized()
    return data
