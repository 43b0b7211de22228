"""Images read row by row, then noise: noisy MNIST, noise-padded CIFAR-10, and the padded images
of experiment 2.3.

B. Chang et al., *AntisymmetricRNN*, ICLR 2019, whose task the later texts take over. A row's inputs
are its red values, then its green, then its blue ones. The texts disagree about the noise: LEM's
and UnICORNN's programs draw one block from N(0, 1) and put it behind every sequence, training and
testing alike; UnICORNN's report says uniform; iRNN's text says independent and Gaussian. So the
block is a setting.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from study.config.section import Positive, Size
from study.tasks._registry import task
from study.tasks.data import Followed, Part, Task, image_shape


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
    """Return square images as rows, then noise: T = `time_steps` in all, the texts' 1,000.

    The block of noise is ``shared`` by all sequences, or ``fresh`` for each; its law is ``normal``,
    N(0, 1), or ``uniform``, U(0, 1). Where images are `standardised` their values get mean 0 and
    deviation 1, over the training part, before noise is added.
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

    def padded(part: Part) -> Part:
        rows = part.inputs.reshape(-1, side, side, channels).transpose(0, 1, 3, 2)
        rows = rows.reshape(len(part), side, -1)
        if noise is not None:
            return Followed(rows, noise, part.targets)
        inputs = np.empty((len(part), time_steps, side * channels), np.float32)
        inputs[:, :side] = rows
        for sequence in inputs:  # one at a time: no second array of the same size
            sequence[side:] = draw(shape, dtype=np.float32)
        return replace(part, inputs=inputs)

    return replace(data.map(padded), kind="series")


@task
def padded_rows(data: Task, rng: np.random.Generator, *, padding: Size) -> Task:
    """Return the task of the dissertation's experiment 2.3: rows of grey images, then `padding`
    times as many of U(0, 1).

    The text describes the padding twice, and not alike. Section 2.7 appends rows of "independent
    standard Gaussian noise", experiment 2.3 "iid Unif(0, 1) noise": the experiment's own statement
    is followed. Experiment 2.3 says that the whole length is a multiple of the number of rows
    (Pad2x has T = 56), the design that the appended rows are (Pad4x appends 112 to 28, so T = 140):
    the design is followed, with which Pad0x is the image alone.
    """
    side, channels = image_shape(data)
    if channels != 1:
        raise ValueError(f"{data.name}: expected images of one channel, got {channels}")
    time_steps = (1 + padding) * side
    made = rows_then_noise(data, rng, time_steps=time_steps, block="fresh", law="uniform")
    return replace(made, kind=data.kind)
