"""Images read row by row, then noise for the rest of a long sequence: noisy MNIST and noise-padded CIFAR-10.

B. Chang et al., *AntisymmetricRNN*, ICLR 2019, whose task the later texts take over. A row's inputs are its red values, then
its green, then its blue ones. The texts disagree about the noise: LEM's and UnICORNN's programs draw one block from N(0, 1)
and put it behind every sequence, training and testing alike; UnICORNN's report says uniform; iRNN's text says independent
and Gaussian. So the block is a setting.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from lib.tasks._registry import Count, task
from lib.tasks.data import Followed, Part, Task, image_shape


@task
def rows_then_noise(
    data: Task,
    rng: np.random.Generator,
    *,
    time_steps: Count = 1000,
    block: Literal["shared", "fresh"] = "shared",
    law: Literal["normal", "uniform"] = "normal",
    standardised: bool = False,
) -> Task:
    """Return square images as rows, then noise.

    Parameters
    ----------
    time_steps
        Length T of the sequence; the texts' is 1,000.
    block
        ``shared``: one block of noise behind all sequences. ``fresh``: each has its own.
    law
        ``normal``, N(0, 1), or ``uniform``, U(0, 1).
    standardised
        Whether the images' values get mean 0 and deviation 1, over the training part, before noise is added.
    """
    side, channels = image_shape(data)
    if time_steps < side:
        raise ValueError(
            f"{data.name}: expected at least {side} time steps, its rows, got {time_steps}"
        )
    mean, deviation = (
        (data.train.inputs.mean(), data.train.inputs.std()) if standardised else (0.0, 1.0)
    )
    draw = rng.standard_normal if law == "normal" else rng.random
    shape = (time_steps - side, side * channels)
    noise = draw(shape, dtype=np.float32) if block == "shared" else None

    def padded(part: Part) -> Part:
        rows = part.inputs.reshape(-1, side, side, channels).transpose(0, 1, 3, 2)
        rows = (rows.reshape(len(part), side, -1) - mean) / deviation
        if noise is not None:
            return Followed(rows, noise, part.targets)
        inputs = np.empty((len(part), time_steps, side * channels), np.float32)
        inputs[:, :side] = rows
        for sequence in inputs:  # one at a time: no second array of the same size
            sequence[side:] = draw(shape, dtype=np.float32)
        return replace(part, inputs=inputs)

    return replace(data.map(padded), kind="series")
