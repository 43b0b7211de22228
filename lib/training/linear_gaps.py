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
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from pydantic import model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from lib.probes.coadjoint import soft_orthogonality
from lib.results.schema import COMPLETED, DIVERGED, Schema
from lib.run.params import Factor, LearningRate, Positive, Weight
from lib.tasks.long_time_gap import draw_signs
from lib.training.experiment import Experiment, join
from lib.training.fit import Recipe, Record, fit
from lib.training.job import Job
from lib.training.resume import Resume
from lib.training.seeds import seeds_of, torch_seed

NAME = "linear_gaps"

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


class LinearGaps(Job):
    """Experiment 2.2 of the dissertation and its appendix A3.1.

    `place` are the deciding inputs t*, `orthogonality` the weights of the soft orthogonal penalty (0 is
    training without it). The networks of one combination, `networks` of them, are trained side by side.
    """

    place: Factor[Positive]
    orthogonality: Factor[Weight]
    width: Positive
    time_steps: Positive
    networks: Positive
    steps: Positive
    batch_size: Positive
    learning_rate: LearningRate
    test_size: Positive

    @model_validator(mode="after")
    def _places_inside(self) -> "LinearGaps":
        if max(self.place) > self.time_steps:
            raise ValueError(
                f"expected places among 1..{self.time_steps}, the time steps, got {max(self.place)}"
            )
        return self

    @property
    def size(self) -> float:
        return self.steps * self.networks

    @property
    def title(self) -> str:
        return f"t* = {self.place}, orthogonality {self.orthogonality:g}"


class Networks(NamedTuple):
    """Weights of several linear networks with one input and one output, a leading axis `runs`."""

    W: Tensor  # (runs, d, d)
    R: Tensor  # (runs, d, 1)
    V: Tensor  # (runs, 1, d)
    b: Tensor  # (runs, 1)


class Trained(nn.Module):
    """The same as a module, for an optimiser."""

    def __init__(self, networks: Networks) -> None:
        super().__init__()
        for name, weight in zip(Networks._fields, networks, strict=True):
            self.register_parameter(name, nn.Parameter(weight))

    @property
    def networks(self) -> Networks:
        return Networks(self.W, self.R, self.V, self.b)


class Side:
    """Fresh sequences for each of several networks, from a generator each: (runs, batch, time) and labels (runs, batch)."""

    epoch = 0

    def __init__(self, job: LinearGaps) -> None:
        self._job = job
        self._draws = [np.random.default_rng(seeds(job, k)[1]) for k in range(job.networks)]

    def next(self) -> tuple[Tensor, Tensor]:
        return _sequences(self._job, self._draws, self._job.batch_size)

    def state(self) -> dict:
        return {"draws": [draw.bit_generator.state for draw in self._draws]}

    def restore(self, state: dict) -> None:
        for draw, at in zip(self._draws, state["draws"], strict=True):
            draw.bit_generator.state = at


def seeds(job: LinearGaps, replicate: int) -> tuple[np.random.SeedSequence, ...]:
    """Return seeds of initial weights and of training sequences.

    They do not depend on the penalty: networks with and without it start alike and see the same.
    """
    return seeds_of(job, ("place", "time_steps", "width"), 2, experiment=NAME, replicate=replicate)


def emphasis(networks: Networks, time_steps: int) -> Tensor:
    """Return V W^(T-t) R for t = 1..T, (runs, time) (2.17)."""
    rows, power = networks.V, networks.W  # the rows V W^0, V W^1, .., and W to their number
    while rows.shape[1] < time_steps:
        rows, power = torch.cat([rows, rows @ power], dim=1), power @ power
    return (rows[:, :time_steps] @ networks.R).squeeze(2).flip(1)


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


def run(job: LinearGaps, prepared: None, resume: Resume) -> dict[str, np.ndarray]:
    """Train the networks of a job side by side; a diverged one keeps ``nan`` and its status."""
    model = Trained(initial_networks(job))

    def objective(model: Trained, u: Tensor, labels: Tensor) -> Tensor:
        loss, _ = losses(model.networks, u, labels)
        penalised = loss + job.orthogonality * soft_orthogonality(model.W)
        return penalised.sum()  # the networks do not meet: each has its own weights

    recipe = Recipe(learning_rate=job.learning_rate, steps=job.steps)
    nothing = Record(lambda model: {}, ())
    fit(model, Side(job), recipe, objective, nothing, finite="nothing", resume=resume)
    return _measure(job, model.networks)


def _sequences(
    job: LinearGaps, draws: list[np.random.Generator], size: int
) -> tuple[Tensor, Tensor]:
    """Return fresh sequences, one set for each generator: (runs, batch, time) and labels (runs, batch)."""
    parts = [draw_signs(job.place, job.time_steps, size, draw) for draw in draws]
    inputs = np.stack([part.inputs[:, :, 0] for part in parts])
    labels = np.stack([part.targets for part in parts])
    return torch.from_numpy(inputs).double(), torch.from_numpy(labels).double()


def _measure(job: LinearGaps, networks: Networks) -> dict[str, np.ndarray]:
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


def dataset(
    profile: str, settings: dict, designs: Sequence[LinearGaps], results: Sequence[Mapping]
) -> xr.Dataset:
    """Return the networks of all jobs as one dataset."""
    (design,) = designs
    levels = {
        "replicate": list(range(design.networks)),
        "time": list(range(1, design.time_steps + 1)),
    }
    shared = {"profile": profile, "settings": settings, "inner": ("replicate",)}
    return SCHEMA.validate(join(SCHEMA, levels, list(design.jobs()), results, **shared))


EXPERIMENT = Experiment(
    name=NAME, design=LinearGaps, schema=lambda ds: SCHEMA, dataset=dataset, run=run
)
