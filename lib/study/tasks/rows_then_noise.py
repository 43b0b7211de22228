"""Images as sequences of rows, followed by noise.

These are noisy MNIST, noise-padded CIFAR-10, and the padded images of experiment 2.3. B. Chang et
al., *AntisymmetricRNN*, ICLR 2019, introduced the task, and the later papers adopt it. The inputs
of a time step are the red, then the green, then the blue values of one row.

The papers disagree about the noise, so `block` and `law` are settings. LEM's and UnICORNN's
programs draw one block from N(0, 1) and append it to all training and test sequences. UnICORNN's
paper says that the noise is uniform. iRNN's paper says that it is independent and Gaussian.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from study.config.section import Positive, Size
from study.tasks._registry import task
from study.tasks.data import Split, SplitWithSharedTail, Task, image_shape


@task
def rows_then_noise(
    data: Task,
    rng: np.random.Generator,
    *,
    time_steps: Positive = 1000,
    block: Literal["shared", "fresh"] = "shared",
    law: Literal["normal", "uniform"] = "normal",
    standardised: bool = False,  # data seeds depend on this spelling, see study.tasks
) -> Task:
    """Make sequences of image rows followed by noise.

    Parameters
    ----------
    data : Task
        Square images.
    rng : numpy.random.Generator
        Source of the noise.
    time_steps : int
        Length T of a sequence; 1,000 in the papers.
    block : {"shared", "fresh"}
        Whether all sequences have the same noise, or each its own.
    law : {"normal", "uniform"}
        Distribution of the noise: N(0, 1) or U(0, 1).
    standardised : bool
        Whether to standardize pixels to mean 0 and standard deviation 1 over the training split
        before noise is added.

    Returns
    -------
    Task
        Sequences (n, T, row length * channels).

    Raises
    ------
    ValueError
        The images are not square, or have more rows than there are time steps.
    """
    side, channels = image_shape(data)
    if time_steps < side:
        raise ValueError(
            f"{data.name}: expected at least {side} time steps, its rows, got {time_steps}"
        )
    if standardised:
        data = data.standardized()
    noise_shape = (time_steps - side, side * channels)

    def draw_noise() -> np.ndarray:
        if law == "normal":
            return rng.standard_normal(noise_shape, dtype=np.float32)
        return rng.random(noise_shape, dtype=np.float32)

    def rows_of(split: Split) -> np.ndarray:
        images = split.inputs.reshape(-1, side, side, channels)
        return images.transpose(0, 1, 3, 2).reshape(len(split), side, -1)

    if block == "shared":
        noise = draw_noise()
        padded = data.map(lambda split: SplitWithSharedTail(rows_of(split), noise, split.targets))
        return replace(padded, kind="series")

    def with_fresh_noise(split: Split) -> Split:
        inputs = np.empty((len(split), time_steps, side * channels), np.float32)
        inputs[:, :side] = rows_of(split)
        for sequence in inputs:  # one at a time, to avoid a second array of the same size
            sequence[side:] = draw_noise()
        return replace(split, inputs=inputs)

    return replace(data.map(with_fresh_noise), kind="series")


@task
def padded_rows(data: Task, rng: np.random.Generator, *, padding: Size) -> Task:
    """Make the task of the dissertation's experiment 2.3.

    Rows of gray images are followed by `padding` times as many rows of noise from U(0, 1).

    The dissertation contradicts itself twice. Section 2.7 appends "independent standard Gaussian
    noise", and experiment 2.3 "iid Unif(0, 1) noise"; we follow the experiment. For images of 28
    rows, Pad2x has T = 56, so the 2 in its name is the total length in images. Pad4x appends 112
    rows, so T = 140 and the 4 is the appended length. We follow the latter, so that Pad0x is the
    image alone.

    Parameters
    ----------
    data : Task
        Square images with one channel.
    rng : numpy.random.Generator
        Source of the noise.
    padding : int
        Rows of noise per row of the image.

    Returns
    -------
    Task
        Sequences (n, (1 + padding) * side, side).

    Raises
    ------
    ValueError
        The images are not square, or have several channels.
    """
    side, channels = image_shape(data)
    if channels != 1:
        raise ValueError(f"{data.name}: expected images of one channel, got {channels}")
    time_steps = (1 + padding) * side
    padded = rows_then_noise(data, rng, time_steps=time_steps, block="fresh", law="uniform")
    return replace(padded, kind=data.kind)
