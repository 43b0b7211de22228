"""Images read pixel by pixel in the order of a text's program: sMNIST and psMNIST."""

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
    """Return images as sequences of pixels, averaged over squares of `pool` pixels a side first.

    The `order` is a permutation by the program that it is from, see
    `study.tasks.permutations.PERMUTATIONS`. Where they are `standardised` all inputs get the mean 0
    and the deviation 1 of the training part, as iRNN's text has it.
    """
    data = pooled(data, pool)
    places = PERMUTATIONS[order](data.train.time_steps)
    data = data.map_inputs(lambda inputs: inputs[:, places])
    return data.standardised() if standardised else data
