"""Images whose rows stand at the beginning, everywhere or at the end of a sequence of noise.

The content of a sequence and its length are always the same; only how far the information lies from
the end differs. So the task separates what a network must carry through time from what it must
recognise.
"""

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from study.config.section import Positive
from study.tasks._registry import task
from study.tasks.data import Split, Task, image_shape

Location = Literal["beginning", "everywhere", "end"]
Deviation = Annotated[float, Field(ge=0, le=100)]


@task
def located_rows(
    data: Task,
    rng: np.random.Generator,
    *,
    time_steps: Positive,
    location: Location,
    noise: Deviation = 0.5,
) -> Task:
    """Return grey images as rows among steps of noise.

    Parameters
    ----------
    data : Task
        Square images of one channel. Their pixels are standardised to mean 0 and deviation 1 over
        the training split.
    rng : numpy.random.Generator
        Source of the noise, which is drawn once per sequence.
    time_steps : int
        Length T of a sequence, at least the number of rows.
    location : {"beginning", "everywhere", "end"}
        Where the rows stand: in the first steps, spread evenly, or in the last steps.
    noise : float
        Standard deviation of the Gaussian noise in all other steps.

    Returns
    -------
    Task
        Sequences (n, T, row length) with the image's class.

    Raises
    ------
    ValueError
        The images have several channels, or more rows than there are time steps.

    """
    side, channels = image_shape(data)
    if channels != 1:
        raise ValueError(f"{data.name}: expected images of one channel, got {channels}")
    if time_steps < side:
        raise ValueError(
            f"{data.name}: expected at least {side} time steps, one for each row, got {time_steps}"
        )
    steps = row_steps(side, time_steps, location)

    def place_rows(split: Split) -> Split:
        shape = (len(split), time_steps, side)
        inputs = rng.standard_normal(shape, dtype=np.float32) * np.float32(noise)
        inputs[:, steps] = split.inputs.reshape(-1, side, side)
        return replace(split, inputs=inputs)

    return replace(data.standardised().map(place_rows), kind="series")


def row_steps(rows: int, time_steps: int, location: Location) -> np.ndarray:
    """Return the time steps, counted from 0, at which the rows of an image stand, (rows,)."""
    if location == "beginning":
        return np.arange(rows)
    if location == "end":
        return np.arange(time_steps - rows, time_steps)
    return np.linspace(0, time_steps - 1, rows).round().astype(int)
