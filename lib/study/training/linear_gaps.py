r"""Experiment 2.2: which inputs does a linear network emphasise on the long time gap task?

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.5. A linear network (2.16) predicts

.. math:: \hat{y} = \sum_{t=1}^T V W^{T-t} R \, u_t + b \tag{2.17}

so all that it has learned lies in the T numbers :math:`V W^{T-t} R`, its *emphasis*. It is trained here in this form, which is the
same function of the same weights: the powers of W are doubled, log2 T products where the recurrence takes T,
and the networks of all replicates run side by side.

The text leaves open what "standard training routines in TensorFlow" are. Here: TensorFlow's initial weights for a
recurrent layer (W orthogonal, R and V Glorot uniform, biases zero; the author's later program draws R from N(0, 1/T²)), Adam, and the logistic
loss of the label.
"""

from typing import ClassVar, Literal

import numpy as np
import torch
from longrnn.probes.coadjoint import soft_orthogonality
from pydantic import model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from study.config.recipe import Recipe
from study.config.section import Factor, LearningRate, Positive, PositiveDraws, Weight
from study.results.linear_gaps import LINEAR_GAPS
from study.results.schema import COMPLETED, DIVERGED
from study.tasks.long_time_gap import draw_signs
from study.training.batches import Fresh
from study.training.checkpoint import Checkpoint
from study.training.job import Job, seeds_of, torch_seed
from study.training.loop import train
from study.training.scores import tensors


class LinearGaps(Job):
    """Experiment 2.2 of the dissertation and its appendix A3.1.

    `place` are the deciding inputs t*, `orthogonality` the weights of the soft orthogonal penalty (0 is
    training without it). The networks of one combination, `networks` of them, are trained side by side.
    """

    section: ClassVar = "linear_gaps"
    held: ClassVar = LINEAR_GAPS
    replicates: Literal[1] = 1  # `networks` says how many there are
    place: Factor[Positive]
    orthogonality: Factor[Weight]
    width: Positive
    time_steps: Positive
    networks: Positive
    steps: Positive
    batch_size: Positive
    learning_rate: LearningRate
    test_size: PositiveDraws

    size = property(lambda job: job.steps * job.networks)
    title = property(lambda job: f"t* = {job.place}, orthogonality {job.orthogonality:g}")

    @model_validator(mode="after")
    def _places_inside(self) -> "LinearGaps":
        if max(self.place) > self.time_steps:
            raise ValueError(
                f"expected places among 1..{self.time_steps}, the time steps, got {max(self.place)}"
            )
        return self

    def compute(self, prepared: None, checkpoint: Checkpoint) -> dict[str, np.ndarray]:
        """Train the networks of a job side by side; a diverged one keeps ``nan`` and its status."""
        networks = initial_networks(self)
        draws = [np.random.default_rng(seeds(self, k)[1]) for k in range(self.networks)]

        def objective(networks: Networks, u: Tensor, labels: Tensor) -> Tensor:
            loss, _ = networks.losses(u, labels)
            penalised = loss + self.orthogonality * soft_orthogonality(networks.W)
            return penalised.sum()  # the networks do not meet: each has its own weights

        batches = Fresh(lambda: _sequences(self, draws, self.batch_size), *draws)
        recipe = Recipe(learning_rate=self.learning_rate, steps=self.steps)
        train(networks, batches, objective, recipe, checkpoint=checkpoint, check="nothing")
        return _measure(self, networks)

    @property
    def inner(self) -> dict[str, list]:
        times = list(range(1, self.time_steps + 1))
        return {"replicate": list(range(self.networks)), "time": times}


class Networks(nn.Module):
    """Linear networks with one input and one output, their weights along a leading axis: W (runs, d, d), R (runs, d, 1), V (runs, 1, d), b (runs, 1)."""

    def __init__(self, W: Tensor, R: Tensor, V: Tensor, b: Tensor) -> None:
        super().__init__()
        self.W, self.R, self.V, self.b = map(nn.Parameter, (W, R, V, b))

    def emphasis(self, time_steps: int) -> Tensor:
        """Return V W^(T-t) R for t = 1..T, (runs, time) (2.17)."""
        rows, power = self.V, self.W  # the rows V W^0, V W^1, .., and W to their number
        while rows.shape[1] < time_steps:
            rows, power = torch.cat([rows, rows @ power], dim=1), power @ power
        return (rows[:, :time_steps] @ self.R).squeeze(2).flip(1)

    def losses(self, u: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean logistic loss, (runs,), and the predictions, (runs, batch), on inputs (runs, batch, time) and labels, 0 or 1, (runs, batch).

        Where all networks see the same, (1, batch, time) and (1, batch) do.
        """
        weights = self.emphasis(u.shape[2])
        predictions = (u @ weights[:, :, None]).squeeze(2) + self.b
        each = F.binary_cross_entropy_with_logits(
            predictions, labels.expand_as(predictions), reduction="none"
        )
        return each.mean(1), predictions


def seeds(job: LinearGaps, replicate: int) -> tuple[np.random.SeedSequence, ...]:
    """Return seeds of initial weights and of training sequences.

    They do not depend on the penalty: networks with and without it start alike and see the same.
    """
    return seeds_of(
        job, ("place", "time_steps", "width"), 2, experiment=job.section, replicate=replicate
    )


def initial_networks(job: LinearGaps) -> Networks:
    """Draw the initial weights of all networks, float64."""
    W = torch.empty(job.networks, job.width, job.width, dtype=torch.float64)
    R, V = W.new_empty(job.networks, job.width, 1), W.new_empty(job.networks, 1, job.width)
    for replicate in range(job.networks):
        with torch_seed(seeds(job, replicate)[0]):
            nn.init.orthogonal_(W[replicate])
            nn.init.xavier_uniform_(R[replicate])
            nn.init.xavier_uniform_(V[replicate])
    return Networks(W, R, V, W.new_zeros(job.networks, 1))


def _sequences(job: LinearGaps, draws: list[np.random.Generator], size: int) -> tuple:
    """Return fresh sequences, one set for each generator: (runs, batch, time) and labels (runs, batch)."""
    parts = [tensors(draw_signs(job.place, job.time_steps, size, draw)) for draw in draws]
    inputs, labels = (torch.stack(part).double() for part in zip(*parts, strict=True))
    return inputs.squeeze(3), labels


def _measure(job: LinearGaps, networks: Networks) -> dict[str, np.ndarray]:
    # One test set for all networks of a task.
    (test,) = seeds_of(job, ("place", "time_steps"), 1, experiment=job.section)
    u, labels = _sequences(job, [np.random.default_rng(test)], job.test_size)
    with torch.no_grad():
        loss, predictions = networks.losses(u, labels)
        measured = {
            "emphasis": networks.emphasis(job.time_steps),
            "accuracy": ((predictions > 0) == (labels > 0)).double().mean(1),
            "loss": loss,
            "departure": (soft_orthogonality(networks.W) / 2).sqrt(),
        }
    arrays = {name: part.numpy() for name, part in measured.items()}
    finite = [np.isfinite(part).reshape(len(loss), -1).all(1) for part in arrays.values()]
    ended = np.all(finite, axis=0)
    for part in arrays.values():
        part[~ended] = np.nan
    return arrays | {"status": np.where(ended, COMPLETED, DIVERGED)}
