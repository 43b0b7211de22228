r"""Figure 2.3: states and adjoints of basic RNNs trained with a growing coadjoint penalty.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.6.1: basic RNNs learn the long time gap
task of T = 40 with the penalty (2.20) at weights from 0 to 10^4; then one batch of sequences is followed through each network.

The text leaves open the width, the place t*, the initialisation, the optimiser and how long it trains. Here: an
orthogonal W and Glorot uniform R and V (TensorFlow's), Adam, fresh sequences in every step, and of the networks looked
at every `check_every` steps the most accurate one, the latest of equals, is kept: training past success can destroy it.
"""

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn
from torch.nn import functional as F

from lib.cells import make_cell
from lib.probes.adjoint import adjoint_norms
from lib.probes import Diverged
from lib.probes.coadjoint import coadjoint_loss
from lib.results.schema import COMPLETED, DIVERGED, Schema
from lib.run.params import Profile
from lib.tasks import Part
from lib.tasks.long_time_gap import CLASSES, draw_signs
from lib.training.jobs import Experiment
from lib.training.jobs.shards import Arrays
from lib.training.model import Classifier
from lib.training.seeds import seeds_of, torch_seed

NAME = "coadjoint_gaps"
RECIPE = 1
"""Raised whenever a change of the code changes results."""

_RUN = ("kappa", "replicate")
_PROBE = (*_RUN, "sequence", "time")

SCHEMA = Schema(
    "coadjoint_gaps/1",
    coordinates={
        "kappa": ("weight of the coadjoint penalty (2.20)", "1"),
        "replicate": ("replicate: initial weights and sequences of its own", "1"),
        "sequence": ("sequence followed through the trained network", "1"),
        "time": ("time t of a state, from 1", "1"),
    },
    variables={
        "state": (_PROBE, "float64", "Euclidean norm of the state x_t", "1"),
        "adjoint": (_PROBE, "float64", "log10 of the Euclidean norm of the adjoint state", "1"),
        "accuracy": (_RUN, "float64", "share of the sequences looked at classified correctly", "1"),
        "loss": (_RUN, "float64", "mean cross entropy of those sequences", "nat"),
        "penalty": (_RUN, "float64", "mean of G (2.20) on those sequences", "1"),
        "kept_step": (_RUN, "int64", "training steps of the network that was kept", "1"),
        "completed_steps": (_RUN, "int64", "training steps before the end or divergence", "1"),
        "status": (_RUN, "int64", "how training ended", "1"),
    },
)


@dataclass(frozen=True)
class Job:
    """One training; fields as in the section."""

    kappa: float
    replicate: int
    width: int
    time_steps: int
    place: int
    steps: int
    batch_size: int
    learning_rate: float
    check_every: int
    check_size: int
    probe_size: int

    def seeds(self) -> tuple[np.random.SeedSequence, ...]:
        """Return seeds of initial weights, training, checks and probe.

        They do not depend on kappa: networks under different penalties start alike and see the same.
        """
        fields = ("width", "time_steps", "place", "replicate")
        return seeds_of(self, fields, 4, experiment=NAME)

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return fresh inputs (time, batch, 1) and labels (batch,)."""
        part: Part = draw_signs(self.place, self.time_steps, size, rng)
        inputs = torch.from_numpy(part.inputs).transpose(0, 1).contiguous()
        return inputs, torch.from_numpy(part.targets)


@dataclass(frozen=True)
class Look:
    """A network at some step of its training, and how good it is."""

    step: int
    model: Classifier
    accuracy: float
    loss: float
    penalty: float


def run_job(job: Job) -> dict[str, np.ndarray]:
    """Train a network, keep the best, follow the probe through it."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    initial, training, checks, probe = job.seeds()
    model = initial_model(job, initial)
    optimiser = torch.optim.Adam(model.parameters(), lr=job.learning_rate)
    draw, check = (
        np.random.default_rng(training),
        job.draw(job.check_size, np.random.default_rng(checks)),
    )
    best = _look(job, model, 0, check)
    status, completed = COMPLETED, 0
    try:
        for completed in range(job.steps):
            u, labels = job.draw(job.batch_size, draw)
            penalised = _penalised(model, u, labels, job.kappa)
            optimiser.zero_grad()
            penalised.backward(model.parameters())
            optimiser.step()
            if (completed + 1) % job.check_every == 0:
                now = _look(job, model, completed + 1, check)
                best = now if now.accuracy >= best.accuracy else best
        completed = job.steps
    except Diverged:
        status = DIVERGED
    return {
        **_follow(best.model, *job.draw(job.probe_size, np.random.default_rng(probe))),
        "accuracy": best.accuracy,
        "loss": best.loss,
        "penalty": best.penalty,
        "kept_step": best.step,
        "completed_steps": completed,
        "status": np.asarray(status),
    }


def initial_model(job: Job, seed: np.random.SeedSequence) -> Classifier:
    """Return an untrained network with TensorFlow's initial weights."""
    with torch_seed(seed):
        model = Classifier(make_cell("rnn", 1, job.width), CLASSES)
        nn.init.orthogonal_(model.cell.W)
        for weight in (model.cell.R, model.output.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (model.cell.b, model.output.bias):
            nn.init.zeros_(bias)
    return model


def _losses(model: Classifier, labels: Tensor, x: Tensor) -> Tensor:
    return F.cross_entropy(model.output(x), labels, reduction="none")


def _penalised(model: Classifier, u: Tensor, labels: Tensor, kappa: float):
    return coadjoint_loss(model.cell, u, partial(_losses, model, labels), kappa=kappa)


def _look(job: Job, model: Classifier, step: int, check: tuple[Tensor, Tensor]) -> Look:
    u, labels = check
    measured = _penalised(model, u, labels, kappa=0.0)
    with torch.no_grad():
        right = model.output(measured.last).argmax(1) == labels
    kept = copy.deepcopy(model).requires_grad_(False)
    accuracy = right.double().mean().item()
    return Look(step, kept, accuracy, measured.loss.item(), measured.penalty.item())


def _follow(model: Classifier, u: Tensor, labels: Tensor) -> dict[str, np.ndarray]:
    """Return the norms of states and adjoints, (sequence, time)."""
    model = copy.deepcopy(model).double()
    states, _ = model.cell(u.double())
    adjoints = adjoint_norms(model.cell, u, lambda x: _losses(model, labels, x).sum())
    return {"state": states.norm(dim=2).T.numpy(), "adjoint": adjoints.readout.T.numpy()}


def plan(profile: Profile) -> list[Job]:
    """Return the jobs of a profile."""
    section = profile.coadjoint_gaps
    rest = section.model_dump(exclude={"kappas", "replicates"})
    return [
        Job(kappa=kappa, replicate=replicate, **rest)
        for kappa in section.kappas
        for replicate in range(section.replicates)
    ]


def join(profile_name: str, profile: Profile, found: Mapping[Job, Arrays]) -> xr.Dataset:
    """Return the results of all jobs as one validated dataset of `SCHEMA`."""
    section = profile.coadjoint_gaps
    levels = {
        "kappa": list(section.kappas),
        "replicate": list(range(section.replicates)),
        "sequence": list(range(section.probe_size)),
        "time": list(range(1, section.time_steps + 1)),
    }
    shared = {k: v for k, v in asdict(next(iter(found))).items() if k not in levels}
    settings = {"recipe": RECIPE, **shared}
    ds = SCHEMA.empty(levels, profile=profile_name, settings=settings)
    for job, arrays in found.items():
        for name in SCHEMA.variables:
            ds[name].loc[{"kappa": job.kappa, "replicate": job.replicate}] = arrays[name]
    return SCHEMA.validate(ds)


COADJOINT_GAPS = Experiment(
    name=NAME,
    recipe=RECIPE,
    plan=plan,
    run=run_job,
    join=join,
    work=lambda job: job.steps,
    describe=lambda job: f"kappa {job.kappa:g}, replicate {job.replicate}",
)
