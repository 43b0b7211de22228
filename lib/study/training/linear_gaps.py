r"""Experiment 2.2: which inputs a linear network emphasizes on the long time gap task.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.5. A
linear network (2.16) predicts

.. math:: \hat{y} = \sum_{t=1}^T V W^{T-t} R \, u_t + b \tag{2.17}

so the T numbers :math:`V W^{T-t} R`, its *emphasis*, contain everything that it has learned. The
networks are trained in this form, which is the same function of the same weights as the recurrence.
W is squared repeatedly, so that log2 T matrix products are enough, instead of the T products of the
recurrence. The networks of all replicates are trained together.

The paper does not say what its "standard training routines in TensorFlow" are. We use TensorFlow's
initial weights of a recurrent layer (W orthogonal, R and V Glorot uniform, biases zero; the
author's later program draws R from N(0, 1/T²)), Adam, and the logistic loss of the label.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from longrnn.probes.coadjoint import soft_orthogonality
from torch import Tensor, nn
from torch.nn import functional as F

from study.config.linear_gaps import LinearGaps
from study.config.recipe import Recipe
from study.results.schema import COMPLETED, DIVERGED
from study.tasks.long_time_gap import draw_signs
from study.training.batches import Batch, GeneratedBatches
from study.training.checkpoint import Checkpoint
from study.training.job import Arrays, Job
from study.training.loop import train
from study.training.scores import tensors
from study.training.seeds import seeds_of, torch_seed

EXPERIMENT = "linear_gaps"


def train_linear_gaps(
    jobs: Sequence[Job], prepared: Path | None, checkpoints: Sequence[Checkpoint | None]
) -> list[Arrays]:
    """Train and measure the networks of some jobs.

    Parameters
    ----------
    jobs, prepared, checkpoints
        See `study.training.job.Experiment.train`.

    Returns
    -------
    list of dict
        As `train_networks`.
    """
    return [
        train_networks(job.config, checkpoint)
        for job, checkpoint in zip(jobs, checkpoints, strict=True)
    ]


def train_networks(config: LinearGaps, checkpoint: Checkpoint | None = None) -> Arrays:
    """Train all networks of one combination of factors together.

    Parameters
    ----------
    config : LinearGaps
        A job of the design, with one level per factor.
    checkpoint : Checkpoint, optional
        File for the state of the run.

    Returns
    -------
    dict
        ``emphasis`` (network, time), ``accuracy``, ``loss``, ``departure`` and ``status``
        (network,). The values of a network that has diverged are ``nan``.
    """
    networks = initial_networks(config)
    rngs = []
    for replicate in range(config.networks):
        _, sequences = network_seeds(config, replicate)
        rngs.append(np.random.default_rng(sequences))

    def objective(networks: Networks, u: Tensor, labels: Tensor) -> Tensor:
        losses, _ = networks.losses(u, labels)
        penalties = config.orthogonality * soft_orthogonality(networks.W)
        # Networks have separate weights, so the sum gives each network its own gradient.
        return (losses + penalties).sum()

    batches = GeneratedBatches(lambda: _draw(config, rngs, config.batch_size), *rngs)
    recipe = Recipe(learning_rate=config.learning_rate, steps=config.steps)
    # One network may diverge while the others continue, so the summed loss is not checked.
    train(networks, batches, objective, recipe, checkpoint=checkpoint, check="nothing")
    return _measure(config, networks)


class Networks(nn.Module):
    """Linear networks with one input and one output; weights have a leading axis of networks.

    Attributes
    ----------
    W, R, V, b : nn.Parameter
        Shapes (networks, d, d), (networks, d, 1), (networks, 1, d) and (networks, 1).
    """

    def __init__(self, W: Tensor, R: Tensor, V: Tensor, b: Tensor) -> None:
        super().__init__()
        self.W = nn.Parameter(W)
        self.R = nn.Parameter(R)
        self.V = nn.Parameter(V)
        self.b = nn.Parameter(b)

    def emphasis(self, time_steps: int) -> Tensor:
        """Return V W^(T-t) R for t = 1..T, equation (2.17).

        Parameters
        ----------
        time_steps : int
            T.

        Returns
        -------
        Tensor
            Shape (networks, time).
        """
        rows = self.V  # the first n of V W^0, V W^1, ..., one per row
        power = self.W  # W^n
        while rows.shape[1] < time_steps:
            rows = torch.cat([rows, rows @ power], dim=1)
            power = power @ power
        return (rows[:, :time_steps] @ self.R).squeeze(2).flip(1)

    def losses(self, u: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logistic loss and the predictions of each network.

        Parameters
        ----------
        u : Tensor
            Inputs, shape (networks, batch, time), or (1, batch, time) if all have the same.
        labels : Tensor
            0 or 1, shape (networks, batch) or (1, batch).

        Returns
        -------
        losses : Tensor
            Means over the batch, shape (networks,).
        predictions : Tensor
            Logits, shape (networks, batch).
        """
        weights = self.emphasis(u.shape[2])
        predictions = (u @ weights[:, :, None]).squeeze(2) + self.b
        each = F.binary_cross_entropy_with_logits(
            predictions, labels.expand_as(predictions), reduction="none"
        )
        return each.mean(1), predictions


def network_seeds(config: LinearGaps, replicate: int) -> tuple[np.random.SeedSequence, ...]:
    """Return the seeds of a network: for its initial weights, and for its training sequences.

    The seeds don't depend on the penalty, so networks with and without it start from equal weights
    and see the same sequences.

    Parameters
    ----------
    config : LinearGaps
        A job of the design.
    replicate : int
        Number of the network, from 0.

    Returns
    -------
    initial, sequences : numpy.random.SeedSequence
    """
    fields = ("place", "time_steps", "width")
    return seeds_of(config, fields, 2, experiment=EXPERIMENT, replicate=replicate)


def initial_networks(config: LinearGaps) -> Networks:
    """Draw the initial weights of all networks.

    Parameters
    ----------
    config : LinearGaps
        A job of the design.

    Returns
    -------
    Networks
        In float64.
    """
    count = config.networks
    width = config.width
    W = torch.empty(count, width, width, dtype=torch.float64)
    R = W.new_empty(count, width, 1)
    V = W.new_empty(count, 1, width)
    for replicate in range(count):
        initial, _ = network_seeds(config, replicate)
        with torch_seed(initial):
            nn.init.orthogonal_(W[replicate])
            nn.init.xavier_uniform_(R[replicate])
            nn.init.xavier_uniform_(V[replicate])
    return Networks(W, R, V, W.new_zeros(count, 1))


def _draw(config: LinearGaps, rngs: Sequence[np.random.Generator], size: int) -> Batch:
    """Draw sequences from each generator: inputs (rngs, batch, time), labels (rngs, batch)."""
    drawn = [tensors(draw_signs(config.place, config.time_steps, size, rng)) for rng in rngs]
    inputs = torch.stack([inputs for inputs, _ in drawn]).double()
    labels = torch.stack([labels for _, labels in drawn]).double()
    return inputs.squeeze(3), labels


def _measure(config: LinearGaps, networks: Networks) -> Arrays:
    """Measure all networks on one test set.

    A network has diverged if one of its measurements is not finite.
    """
    (test,) = seeds_of(config, ("place", "time_steps"), 1, experiment=EXPERIMENT)
    u, labels = _draw(config, [np.random.default_rng(test)], config.test_size)
    with torch.no_grad():
        losses, predictions = networks.losses(u, labels)
        measured = {
            "emphasis": networks.emphasis(config.time_steps),
            "accuracy": ((predictions > 0) == (labels > 0)).double().mean(1),
            "loss": losses,
            "departure": (soft_orthogonality(networks.W) / 2).sqrt(),
        }
    arrays = {name: values.numpy() for name, values in measured.items()}
    completed = np.ones(config.networks, bool)
    for values in arrays.values():
        completed &= np.isfinite(values).reshape(config.networks, -1).all(1)
    for values in arrays.values():
        values[~completed] = np.nan
    return arrays | {"status": np.where(completed, COMPLETED, DIVERGED)}
