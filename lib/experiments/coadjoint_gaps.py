r"""Figure 2.3: states and adjoints of basic RNNs trained with a growing coadjoint penalty.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.6.1: basic RNNs learn the long time gap
task of T = 40 with the penalty (2.20) at weights from 0 to 10^4; then one batch of sequences is followed through each network.

The text leaves open the width, the place t*, the initialisation, the optimiser and how long it trains. Here: an
orthogonal W and Glorot uniform R and V (TensorFlow's), Adam, fresh sequences in every step, and of the networks looked
at every `check_every` steps the most accurate one, the latest of equals, is kept: training past success can destroy it.
"""

import copy
from functools import partial

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from lib.cells import make_cell
from lib.experiments._experiment import Experiment
from lib.probes.adjoint import adjoint_norms
from lib.probes.coadjoint import coadjoint_loss
from lib.results.schema import Schema
from lib.run.params import Design, Factor, LearningRate, Positive, Weight
from lib.tasks.long_time_gap import CLASSES, draw_signs
from lib.training.batches import Fresh
from lib.training.fit import Recipe, Record, fit
from lib.training.model import Model, tensors
from lib.training.resume import Resume
from lib.training.seeds import seeds_of, torch_seed

NAME = "coadjoint_gaps"

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


class CoadjointGaps(Design):
    """Figure 2.3 of the dissertation: basic RNNs on LTG`place`, trained by the coadjoint method.

    `kappa` are the weights of the penalty (2.20), 0 is backpropagation. Training looks at `check_size` sequences
    every `check_every` steps; `probe_size` sequences are followed through the trained network.
    """

    kappa: Factor[Weight]
    width: Positive
    time_steps: Positive
    place: Positive
    steps: Positive
    batch_size: Positive
    learning_rate: LearningRate
    check_every: Positive
    check_size: Positive
    probe_size: Positive

    @model_validator(mode="after")
    def _fits(self) -> "CoadjointGaps":
        if self.place > self.time_steps:
            raise ValueError(
                f"expected a place among 1..{self.time_steps}, the time steps, got {self.place}"
            )
        if self.steps % self.check_every:
            raise ValueError(
                f"expected steps to be a multiple of check_every={self.check_every}, got {self.steps}"
            )
        return self


def seeds(job: CoadjointGaps) -> tuple[np.random.SeedSequence, ...]:
    """Return seeds of initial weights, training, checks and probe.

    They do not depend on kappa: networks under different penalties start alike and see the same.
    """
    return seeds_of(job, ("width", "time_steps", "place", "replicate"), 4, experiment=NAME)


def run(job: CoadjointGaps, prepared: None, resume: Resume) -> dict[str, np.ndarray]:
    """Train a network, keep the best, follow the probe through it."""
    initial, training, checks, probe = seeds(job)
    draw = partial(draw_signs, job.place, job.time_steps)
    model = initial_model(job, initial)
    check = tensors(draw(job.check_size, np.random.default_rng(checks)))

    def objective(model: Model, inputs: Tensor, labels: Tensor) -> Tensor:
        return _penalised(model, inputs, labels, job.kappa).total

    done = fit(
        model,
        Fresh(draw, job.batch_size, np.random.default_rng(training)),
        Recipe(learning_rate=job.learning_rate, steps=job.steps),
        objective,
        Record(
            partial(_look, check),
            range(0, job.steps + 1, job.check_every),
            keep=lambda row: row["accuracy"],
        ),
        finite="gradients",
        resume=resume,
    )
    best, weights = done.kept
    model.load_state_dict(weights)
    return {
        **_follow(model, *tensors(draw(job.probe_size, np.random.default_rng(probe)))),
        **{name: best[name] for name in ("accuracy", "loss", "penalty")},
        "kept_step": best["step"],
        "completed_steps": done.steps,
        "status": done.status,
    }


def initial_model(job: CoadjointGaps, seed: np.random.SeedSequence) -> Model:
    """Return an untrained network with TensorFlow's initial weights."""
    with torch_seed(seed):
        model = Model(make_cell("rnn", 1, job.width), CLASSES)
        nn.init.orthogonal_(model.cell.W)
        for weight in (model.cell.R, model.output.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (model.cell.b, model.output.bias):
            nn.init.zeros_(bias)
    return model


def _losses(model: Model, labels: Tensor, x: Tensor) -> Tensor:
    return F.cross_entropy(model.output(x), labels, reduction="none")


def _penalised(model: Model, inputs: Tensor, labels: Tensor, kappa: float):
    return coadjoint_loss(
        model.cell, model.drive(inputs), partial(_losses, model, labels), kappa=kappa
    )


def _look(check: tuple[Tensor, Tensor], model: Model) -> dict[str, float]:
    """Return how good a network is, on the sequences that check it."""
    measured = _penalised(model, *check, kappa=0.0)
    with torch.no_grad():
        right = model.output(measured.last).argmax(1) == check[1]
    return {
        "accuracy": right.double().mean().item(),
        "loss": measured.loss.item(),
        "penalty": measured.penalty.item(),
    }


def _follow(model: Model, inputs: Tensor, labels: Tensor) -> dict[str, np.ndarray]:
    """Return the norms of states and adjoints, (sequence, time)."""
    model = copy.deepcopy(model).double().requires_grad_(False)
    u = model.drive(inputs.double())
    states, _ = model.cell(u)
    adjoints = adjoint_norms(model.cell, u, lambda x: _losses(model, labels, x).sum())
    return {"state": states.norm(dim=2).T.numpy(), "adjoint": adjoints.readout.T.numpy()}


EXPERIMENT = Experiment(
    name=NAME,
    design=CoadjointGaps,
    schema=SCHEMA,
    run=run,
    cells=lambda job: ("rnn", "rnn/adjoints"),
    modules=lambda job: ("lib.tasks.long_time_gap",),
    levels=lambda designs: {
        "sequence": list(range(designs[0].probe_size)),
        "time": list(range(1, designs[0].time_steps + 1)),
    },
    size=lambda job: job.steps,
    title=lambda job: f"kappa {job.kappa:g}, replicate {job.replicate}",
)
