"""Images read row by row, then noise.

These are noisy MNIST, noise-padded CIFAR-10, and the padded images of experiment 2.3. The task is
that of B. Chang et al., *AntisymmetricRNN*, ICLR 2019, which the later papers adopt. A row's inputs
are its red values, then its green, then its blue ones. The papers disagree about the noise: LEM's
and UnICORNN's programs draw one block from N(0, 1) and append it to every sequence, in training and
testing; UnICORNN's report says uniform; iRNN's paper says independent and Gaussian. So the
block is a setting.
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
    standardised: bool = False,
) -> Task:
    """Return square images as rows, followed by noise.

    Parameters
    ----------
    data
        Square images.
    rng
        Source of the noise.
    time_steps
        Length T of a sequence; 1,000 in the papers.
    block
        Whether the noise is ``shared`` by all sequences, or ``fresh`` for each.
    law
        ``normal``, N(0, 1), or ``uniform``, U(0, 1).
    standardised
        Whether pixels get mean 0 and deviation 1 over the training split before noise is added.

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
    data = data.standardised() if standardised else data
    draw = rng.standard_normal if law == "normal" else rng.random
    shape = (time_steps - side, side * channels)
    noise = draw(shape, dtype=np.float32) if block == "shared" else None

    def padded(split: Split) -> Split:
        rows = split.inputs.reshape(-1, side, side, channels).transpose(0, 1, 3, 2)
        rows = rows.reshape(len(split), side, -1)
        if noise is not None:
            return SplitWithSharedTail(rows, noise, split.targets)
        inputs = np.empty((len(split), time_steps, side * channels), np.float32)
        inputs[:, :side] = rows
        for sequence in inputs:  # one at a time: no second array of the same size
            sequence[side:] = draw(shape, dtype=np.float32)
        return replace(split, inputs=inputs)

    return replace(data.map(padded), kind="series")


@task
def padded_rows(data: Task, rng: np.random.Generator, *, padding: Size) -> Task:
    """Return the task of the dissertation's experiment 2.3.

    Rows of gray images are followed by `padding` times as many rows of U(0, 1). The dissertation
    describes the padding in two ways. Section 2.7 appends rows of "independent standard Gaussian
    noise", experiment 2.3 "iid Unif(0, 1) noise"; we follow the experiment. It says that the total
    length is a multiple of the number of rows (Pad2x has T = 56), the design that the
    appended length is (Pad4x appends 112 to 28, so T = 140); we follow the design, in which Pad0x
    is the image alone.

    Parameters
    ----------
    data
        Square images of one channel.
    rng
        Source of the noise.
    padding
        Noise rows per image row.

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
