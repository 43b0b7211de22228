"""Images read row by row, then noise for the rest of a long sequence: noisy MNIST and noise-padded CIFAR-10.

B. Chang et al., *AntisymmetricRNN*, ICLR 2019, whose task the later texts take over. A row's inputs are its red values, then
its green, then its blue ones. The texts disagree about the noise: LEM's and UnICORNN's programs draw one block from N(0, 1)
and put it behind every sequence, training and testing alike; UnICORNN's report says uniform; iRNN's text says independent
and Gaussian. So the block is a setting.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from lib.tasks._parts import hold_out
from lib.tasks._registry import task
from lib.tasks.data import Followed, Part, Task, load_prepared

BLOCKS = ("shared", "fresh")
LAWS = ("normal", "uniform")


@task
def rows_then_noise(
    prepared: Path,
    rng: np.random.Generator,
    *,
    dataset: str,
    time_steps: int = 1000,
    block: str = "shared",
    law: str = "normal",
    standardised: bool = False,
    train_size: int = 0,
    validation_size: int = 0,
    test_size: int = 0,
) -> Task:
    """Return images as rows, then noise.

    Parameters
    ----------
    dataset
        A data set of square images.
    time_steps
        Length T of the sequence; the texts' is 1,000.
    block
        ``shared``: one block of noise behind all sequences. ``fresh``: each has its own.
    law
        ``normal``, N(0, 1), or ``uniform``, U(0, 1).
    standardised
        Whether the images' values get mean 0 and deviation 1, over the training part, before noise is added.
    train_size, test_size
        As in `lib.tasks.data.load_prepared`.
    validation_size
        Images taken out of the training part.

    Raises
    ------
    ValueError
        Block or law is unknown, the data set has no square images, or the sequence is shorter than an image.
    """
    for what, name, known in (("block", block, BLOCKS), ("law", law, LAWS)):
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; known: {', '.join(known)}")
    data = hold_out(
        load_prepared(prepared / f"{dataset}.nc", train_size, test_size), validation_size
    )
    channels, pixels = data.features, data.train.inputs.shape[1]
    side = math.isqrt(pixels)
    if data.kind != "pixels" or side * side != pixels:
        raise ValueError(f"{dataset}: expected square images, got {data.kind} of {pixels} inputs")
    if time_steps < side:
        raise ValueError(
            f"{dataset}: expected at least {side} time steps, its rows, got {time_steps}"
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
