"""Images whose rows are at the beginning, throughout or at the end of a sequence of noise.

The locations differ only in the distance of the rows from the end of the sequence. Length and
content of the sequences are the same. So the task separates remembering over time from recognizing
the image.
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
    """Make sequences of the rows of gray images among steps of noise.

    Parameters
    ----------
    data : Task
        Square images with one channel. Their pixels are standardized to mean 0 and standard
        deviation 1 over the training split.
    rng : numpy.random.Generator
        Source of the noise, which is drawn once per sequence.
    time_steps : int
        Length T of a sequence, at least the number of rows.
    location : {"beginning", "everywhere", "end"}
        Location of the rows: the first steps, evenly spaced steps, or the last steps.
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

    return replace(data.standardized().map(place_rows), kind="series")


def row_steps(rows: int, time_steps: int, location: Location) -> np.ndarray:
    """Return the time steps of an image's rows.

    Parameters
    ----------
    rows : int
        Number of rows.
    time_steps : int
        Length T of the sequence.
    location : {"beginning", "everywhere", "end"}

    Returns
    -------
    numpy.ndarray
        Time steps from 0, (rows,).
    """
    if location == "beginning":
        return np.arange(rows)
    if location == "end":
        return np.arange(time_steps - rows, time_steps)
    return np.linspace(0, time_steps - 1, rows).round().astype(int)
