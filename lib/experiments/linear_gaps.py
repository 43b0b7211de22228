r"""Experiment 2.2: which inputs does a linear network emphasise on the long time gap task?

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.5. A linear network (2.16) predicts

.. math:: \hat{y} = \sum_{t=1}^T V W^{T-t} R \, u_t + b \tag{2.17}

so all that it has learned lies in the T numbers :math:`V W^{T-t} R`, its *emphasis*. It is trained here in this form, which is the
same function of the same weights: the powers of W are doubled, log2 T products where the recurrence takes T,
and the networks of all replicates run side by side.

The text leaves open what "standard training routines in TensorFlow" are. Here: TensorFlow's initial weights for a
recurrent layer (W orthogonal, R and V Glorot uniform, biases zero), Adam, and the logistic loss of the label.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn
from torch.nn import functional as F

from lib.probes.coadjoint import soft_orthogonality
from lib.results.schema import COMPLETED, DIVERGED, Schema
from lib.run.params import Profile
from lib.tasks.long_time_gap import draw_signs
from lib.training.jobs import Experiment
from lib.training.jobs.shards import Arrays
from lib.training.seeds import seeds_of, torch_seed

NAME = "linear_gaps"
RECIPE = 1
"""Raised whenever a change of the code changes results."""

_RUN = ("place", "orthogonality", "replicate")

SCHEMA = Schema(
    "linear_gaps/1",
    coordinates={
        "place": ("deciding input t* of the task", "1"),
        "orthogonality": ("weight of the soft orthogonal penalty", "1"),
        "replicate": ("replicate: initial weights and sequences of its own", "1"),
        "time": ("time t of an input, from 1", "1"),
    },
    variables={
        "emphasis": ((*_RUN, "time"), "float64", "V W^(T-t) R of (2.17)", "1"),
        "accuracy": (_RUN, "float64", "share of test sequences classified correctly", "1"),
        "loss": (_RUN, "float64", "mean logistic loss on the test sequences", "nat"),
        "departure": (_RUN, "float64", "Frobenius norm of W'W - I", "1"),
        "status": (_RUN, "int64", "how training ended", "1"),
    },
)


class Networks(NamedTuple):
    """Weights of several linear networks with one input and one output, a leading axis `runs`."""

    W: Tensor  # (runs, d, d)
    R: Tensor  # (runs, d, 1)
    V: Tensor  # (runs, 1, d)
    b: Tensor  # (runs, 1)


@dataclass(frozen=True)
class Job:
    """The replicates of one task and one weight of the penalty; fields as in the section."""

    place: int
    orthogonality: float
    width: int
    time_steps: int
    replicates: int
    steps: int
    batch_size: int
    learning_rate: float
    test_size: int

    def replicate_seeds(self, replicate: int) -> tuple[np.random.SeedSequence, ...]:
        """Return seeds of initial weights and of training sequences.

        They do not depend on the penalty: networks with and without it start alike and see the same.
        """
        fields = ("place", "time_steps", "width")
        return seeds_of(self, fields, 2, experiment=NAME, replicate=replicate)


def emphasis(networks: Networks, time_steps: int) -> Tensor:
    """Return V W^(T-t) R for t = 1..T, (runs, time) (2.17)."""
    rows, power = networks.V, networks.W  # the rows V W^0, V W^1, .., and W to their number
    while rows.shape[1] < time_steps:
        rows, power = torch.cat([rows, rows @ power], dim=1), power @ power
    return (rows[:, :time_steps] @ networks.R).squeeze(2).flip(1)


def initial_networks(job: Job) -> Networks:
    """Draw the initial weights of all replicates, float64."""
    W = torch.empty(job.replicates, job.width, job.width, dtype=torch.float64)
    R, V = W.new_empty(job.replicates, job.width, 1), W.new_empty(job.replicates, 1, job.width)
    for replicate in range(job.replicates):
        with torch_seed(job.replicate_seeds(replicate)[0]):
            nn.init.orthogonal_(W[replicate])
            nn.init.xavier_uniform_(R[replicate])
            nn.init.xavier_uniform_(V[replicate])
    weights = Networks(W, R, V, W.new_zeros(job.replicates, 1))
    return Networks(*(weight.requires_grad_() for weight in weights))


def losses(networks: Networks, u: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean logistic loss and the predictions of networks on sequences.

    Parameters
    ----------
    u : (runs, batch, time) or (1, batch, time)
        Inputs.
    labels : (runs, batch) or (1, batch)
        0 or 1.

    Returns
    -------
    loss : (runs,)
    predictions : (runs, batch)
    """
    weights = emphasis(networks, u.shape[2])
    predictions = (u @ weights[:, :, None]).squeeze(2) + networks.b
    each = F.binary_cross_entropy_with_logits(
        predictions, labels.expand_as(predictions), reduction="none"
    )
    return each.mean(1), predictions


def run_job(job: Job) -> dict[str, np.ndarray]:
    """Train the replicates of a job side by side; a diverged one keeps ``nan`` and its status."""
    torch.set_num_threads(1)
    networks = initial_networks(job)
    optimiser = torch.optim.Adam(networks, lr=job.learning_rate)
    draws = [np.random.default_rng(job.replicate_seeds(k)[1]) for k in range(job.replicates)]
    for _ in range(job.steps):
        u, labels = _sequences(job, draws, job.batch_size)
        loss, _ = losses(networks, u, labels)
        penalised = loss + job.orthogonality * soft_orthogonality(networks.W)
        optimiser.zero_grad()
        penalised.sum().backward()  # the replicates do not meet: each has its own weights
        optimiser.step()
    return _measure(job, networks)


def _sequences(job: Job, draws: list[np.random.Generator], size: int) -> tuple[Tensor, Tensor]:
    """Return fresh sequences, one set for each generator: (runs, batch, time) and labels (runs, batch)."""
    parts = [draw_signs(job.place, job.time_steps, size, draw) for draw in draws]
    inputs = np.stack([part.inputs[:, :, 0] for part in parts])
    labels = np.stack([part.targets for part in parts])
    return torch.from_numpy(inputs).double(), torch.from_numpy(labels).double()


def _measure(job: Job, networks: Networks) -> dict[str, np.ndarray]:
    # One test set for all networks of a task.
    (test,) = seeds_of(job, ("place", "time_steps"), 1, experiment=NAME)
    u, labels = _sequences(job, [np.random.default_rng(test)], job.test_size)
    with torch.no_grad():
        loss, predictions = losses(networks, u, labels)
        measured = {
            "emphasis": emphasis(networks, job.time_steps),
            "accuracy": ((predictions > 0) == (labels > 0)).double().mean(1),
            "loss": loss,
            "departure": (soft_orthogonality(networks.W) / 2).sqrt(),
        }
    finite = torch.stack(
        [part.reshape(len(loss), -1).isfinite().all(1) for part in measured.values()]
    )
    ended = finite.all(0)
    arrays = {name: part.numpy() for name, part in measured.items()}
    for part in arrays.values():
        part[~ended.numpy()] = math.nan
    return arrays | {"status": np.where(ended.numpy(), COMPLETED, DIVERGED)}


def plan(profile: Profile) -> list[Job]:
    """Return the jobs of a profile."""
    section = profile.linear_gaps.model_dump(exclude={"places", "orthogonality"})
    return [
        Job(place=place, orthogonality=weight, **section)
        for place in profile.linear_gaps.places
        for weight in profile.linear_gaps.orthogonality
    ]


def join(profile_name: str, profile: Profile, found: Mapping[Job, Arrays]) -> xr.Dataset:
    """Return the results of all jobs as one validated dataset of `SCHEMA`."""
    section = profile.linear_gaps
    levels = {
        "place": list(section.places),
        "orthogonality": list(section.orthogonality),
        "replicate": list(range(section.replicates)),
        "time": list(range(1, section.time_steps + 1)),
    }
    shared = {k: v for k, v in asdict(next(iter(found))).items() if k not in levels}
    settings = {"recipe": RECIPE, **shared}
    ds = SCHEMA.empty(levels, profile=profile_name, settings=settings)
    for job, arrays in found.items():
        at = {"place": job.place, "orthogonality": job.orthogonality}
        for name in SCHEMA.variables:
            ds[name].loc[at] = arrays[name]
    return SCHEMA.validate(ds)


LINEAR_GAPS = Experiment(
    name=NAME,
    recipe=RECIPE,
    plan=plan,
    run=run_job,
    join=join,
    work=lambda job: job.steps * job.replicates,
    describe=lambda job: f"t* = {job.place}, orthogonality {job.orthogonality:g}",
)
