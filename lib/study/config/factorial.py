"""Settings of the factorial experiment.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 1.4 and
Table 1.2.
"""

from typing import Annotated, Literal

from pydantic import Field

from study.config.design import Design
from study.config.network import Architecture
from study.config.section import Factor, LearningRate, Positive, Size

Order = Literal["sequential", "permuted"]
Noise = Literal["none", "post", "uniform"]


class Factorial(Design):
    """The design of the factorial experiment, and how its attempts are trained.

    An attempt is one treatment (a level of every factor) and a replicate. Sizes of 0 stand for all
    sequences of the data set.

    Attributes
    ----------
    architecture, width, learning_rate, training_length, dataset, order, noise : tuple
        Levels of the factors; `training_length` is in epochs.
    train_size, test_size : int
        Sequences to train and to test on.
    probe_size, probe_batch_size : int
        Number of training and of test sequences to measure after every epoch, and the batch size
        of these measurements.
    pool, words, noise_inputs, permutation, spread, sigmoid
        Variations of the data set, see `study.tasks.variations.vary`. `pool`, `words` and
        `noise_inputs` can make sequences shorter than the paper's. The others are choices in which
        the author's program differs from the paper.
    batch_size, embedding_width : int
        Sequences per training step, and dimension of the embedding.
    device : str
        ``auto``, ``cpu`` or ``cuda``.
    networks_per_pass : int
        Number of attempts in a vmapped pass. They may differ in learning rate, training length,
        order, kind of noise and replicate. The number changes results only by rounding; it is part
        of the cache key because the engine's name includes it. 0 means 50 on a GPU, and 1 on a CPU,
        where one process per core is faster.
    """

    architecture: Factor[Architecture]
    width: Factor[Positive]
    learning_rate: Factor[LearningRate]
    training_length: Factor[Positive]
    dataset: Factor[str]
    order: Factor[Order]
    noise: Factor[Noise]
    train_size: Size
    test_size: Size
    probe_size: Size
    pool: Positive = 1
    words: Size = 0
    noise_inputs: Size = 0
    permutation: Literal["attempt", "lem", "exprnn"] = "attempt"
    spread: Literal["floor", "bresenham"] = "floor"
    sigmoid: bool = False
    batch_size: Positive
    probe_batch_size: Positive
    embedding_width: Positive
    device: Literal["auto", "cpu", "cuda"] = "auto"
    networks_per_pass: Annotated[Size, Field(exclude=True)] = 1

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the prepared data sets that the jobs of the design read."""
        return self.dataset
