r"""Experiment 2.4: can a matrix that takes turns with its inverse add two numbers across hundreds of steps?

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.9.1, Figures 2.7 and 2.8.
What the text leaves open, and what is chosen here:

=================== =====================================================================================
optimiser           Adam, on fresh sequences in every batch; gradients are clipped
training steps      in `params.yaml`
learning rate       the text's range is 1e-4 to 1e-3, its choice for each network is not told
initial weights     the same for all, see `start`
activation          tanh, as in the other experiments
=================== =====================================================================================
"""

import copy
import math
from functools import partial
from typing import Annotated

import numpy as np
import torch
import xarray as xr
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from lib.cells import make_cell
from lib.experiments._experiment import Architecture, Experiment
from lib.probes.adjoint import adjoint_norms
from lib.probes.lyapunov import singular_values
from lib.results.schema import COMPLETED, DIVERGED, NOT_PLANNED, ResultsError, Schema
from lib.run.params import Design, Factor, LearningRate, Positive
from lib.tasks.adding import FEATURES, draw_sums, mean_input
from lib.training.batches import Fresh
from lib.training.fit import Recipe, Record, fit
from lib.training.model import Model, tensors
from lib.training.resume import Resume
from lib.training.seeds import seeds, seeds_of, torch_seed

_INTERCHANGING = ("lu_rnn", "inverse_rnn")
_SPREAD = 0.5
_STEPS_OF_A_SECOND = 20_000
"""Time steps of one batch that one core does in a second, roughly; only the estimate of the time left uses it."""

POSITIONS = tuple(round(k / 50, 2) for k in range(51))
"""Where along a sequence the adjoint states are kept, as shares of T."""
STAGES = ("untrained", "trained")
ENDS = ("largest", "smallest")
LEVELS = ("architecture", "time_steps", "learning_rate", "replicate")
"""The levels of one training, from which its random numbers follow."""


def _check(ds: xr.Dataset) -> None:
    trained = ds["status"] == COMPLETED
    for name in ("error", "adjoint", "gain"):
        over = [dim for dim in ds[name].dims if dim not in LEVELS]
        if bool((ds[name].isnull().any(over) & trained).any()):
            raise ResultsError(f"{name}: expected values wherever a training was completed")
    if bool(((ds["steps_completed"] != ds["training_steps"]) & trained).any()):
        raise ResultsError("steps_completed: expected all training steps of a completed training")
    if bool(((ds["status"] == NOT_PLANNED) != (ds["training_steps"] == 0)).any()):
        raise ResultsError("training_steps: expected some exactly where a training is planned")
    if bool((ds["error"] < 0).any()):
        raise ResultsError("error: expected mean squared errors of at least 0")


SCHEMA = Schema(
    name="adding/2",
    coordinates={
        "architecture": ("recurrent architecture", "1"),
        "time_steps": ("length of the sequences", "step"),
        "learning_rate": ("learning rate of Adam", "1"),
        "replicate": ("replicate", "1"),
        "checkpoint": ("measurement of the error, the first before training", "1"),
        "position": ("place in the sequence, as a share of its length", "1"),
        "stage": ("before or after training", "1"),
        "end": ("end of the singular values", "1"),
    },
    variables={
        "status": (LEVELS, "int8", "how the training ended", "1"),
        "training_steps": (LEVELS, "int64", "batches planned", "step"),
        "steps_completed": (LEVELS, "int64", "batches trained on", "step"),
        "parameters": (("architecture",), "int64", "parameters of the cell", "1"),
        "error": (
            (*LEVELS, "checkpoint"),
            "float64",
            "mean squared error on the test sequences",
            "1",
        ),
        "adjoint": (
            (*LEVELS, "stage", "position"),
            "float64",
            "median over sequences of log10 of the norm of the adjoint state that is read out",
            "1",
        ),
        "gain": (
            (*LEVELS, "stage", "end"),
            "float64",
            "mean over sequences of log10 of the singular values of the last 2 tau steps",
            "1",
        ),
    },
    check=_check,
    unions=("status",),
)


class Adding(Design):
    """Which networks are trained on the adding problem, and how.

    `tau` is the LU RNN's and the inverse RNN's. Gradients longer than `clip` are shortened to it. The mean squared
    error on `test_size` sequences is measured at `checkpoints` equally spaced steps, the adjoint states of `probe_size`
    sequences before and after training.
    """

    architecture: Factor[Architecture]
    time_steps: Factor[Annotated[int, Field(ge=2, le=10**6)]]
    learning_rate: Factor[LearningRate]
    training_steps: Positive
    width: Positive
    tau: Positive
    batch_size: Positive
    clip: Annotated[float, Field(gt=0, le=1e9)]
    checkpoints: Positive
    test_size: Positive
    probe_size: Positive

    @model_validator(mode="after")
    def _a_step_for_each_checkpoint(self) -> "Adding":
        if self.training_steps < self.checkpoints:
            raise ValueError(
                f"training_steps is {self.training_steps}; expected at least one step for each of the "
                f"{self.checkpoints} checkpoints"
            )
        return self


def start(job: Adding) -> Model:
    r"""Return the network before training.

    Notes
    -----
    Input weights are uniform within :math:`\pm 1 / \sqrt{p}`, p = 2 features: large enough for tanh to bend, without which value and mark
    cannot be multiplied. The recurrent weights, for each gate of the LSTM, are rotations :math:`e^A` with Gaussian A = -A',
    by angles up to about one radian: orthogonal, as in the library that the text uses, and near enough to the identity for
    well-conditioned factors L and U without exchanges of rows. All four architectures start alike.

    The biases -R E[u] cancel the mean input. Without that the states drift to where tanh is flat within tens of
    steps, and no architecture learned T = 100 in the training steps that are affordable here. The LSTM's forget gates
    get 1 more, TensorFlow's default.
    """
    name, width = job.architecture, job.width
    hyper_parameters = {"tau": job.tau} if name in _INTERCHANGING else {}
    with torch_seed(seeds_of(job, LEVELS, 2)[0]), torch.no_grad():
        model = Model(make_cell(name, FEATURES, width, **hyper_parameters), 1)
        cell = model.cell
        cell.R.uniform_(-1, 1).div_(math.sqrt(FEATURES))
        cell.b.copy_(-cell.R @ torch.tensor(mean_input(job.time_steps)))
        blocks = [_rotation(width) for _ in range(len(cell.R) // width)]
        if name == "lu_rnn":
            cell.set_matrix(blocks[0])
        else:
            cell.W.copy_(torch.cat(blocks))
        if name == "lstm":
            cell.b[width : 2 * width] += 1
    return model


def _rotation(width: int) -> Tensor:
    """Return a random orthogonal matrix whose angles lie in about (-1, 1): a semicircle of radius 2 _SPREAD."""
    A = torch.randn(width, width, dtype=torch.float64) * _SPREAD / math.sqrt(2 * width)
    return torch.linalg.matrix_exp(A - A.T)


def run(job: Adding, prepared: None, resume: Resume) -> dict[str, np.ndarray]:
    """Train and measure one network; return the variables of `SCHEMA` that depend on the training.

    Notes
    -----
    A loss that is not finite, or a recurrent matrix that has become singular, ends the training as diverged; what was
    measured before is kept.
    """
    T, model = job.time_steps, start(job)
    # One test set for all trainings of a length.
    test = tensors(draw_sums(T, job.test_size, np.random.default_rng(seeds({"test": T}, 1)[0])))
    train_seed = seeds_of(job, LEVELS, 2)[1]
    ends = {"untrained": _nothing(), "trained": _nothing()}
    status, steps, errors = DIVERGED, 0, [math.nan] * (job.checkpoints + 1)
    try:
        ends["untrained"] = _ends(model, job, test)
        done = fit(
            model,
            Fresh(partial(draw_sums, T), job.batch_size, np.random.default_rng(train_seed)),
            Recipe(learning_rate=job.learning_rate, steps=job.training_steps, clip=job.clip),
            lambda model, inputs, sums: F.mse_loss(model(inputs), sums),
            Record(
                partial(_error, test),
                [job.training_steps * k // job.checkpoints for k in range(job.checkpoints + 1)],
            ),
            resume=resume,
        )
        steps, errors = done.steps, done.column("error", job.checkpoints + 1)
        if done.status == COMPLETED:
            ends["trained"] = _ends(model, job, test)
            status = COMPLETED
    except ArithmeticError:  # a matrix without an inverse, where it is measured
        pass
    return {
        "status": status,
        "training_steps": job.training_steps,
        "steps_completed": steps,
        "parameters": sum(p.numel() for p in model.cell.parameters()),
        "error": np.array(errors),
        **{name: np.stack([ends[stage][name] for stage in STAGES]) for name in _nothing()},
    }


@torch.no_grad()
def _error(test: tuple[Tensor, Tensor], model: Model) -> dict[str, float]:
    """Return the mean squared error on the test sequences; one that is not finite is a divergence."""
    error = F.mse_loss(model(test[0]), test[1]).item()
    return {"error": error if math.isfinite(error) else math.nan}


def _nothing() -> dict[str, np.ndarray]:
    return {"adjoint": np.full(len(POSITIONS), np.nan), "gain": np.full(len(ENDS), np.nan)}


def _ends(model: Model, job: Adding, test: tuple[Tensor, Tensor]) -> dict[str, list[float]]:
    """Return the adjoint norms and the gain of the first test sequences."""
    inputs, sums = (part[: job.probe_size] for part in test)
    u, sums = model.drive(inputs), sums.double()
    output = copy.deepcopy(model.output).double().requires_grad_(False)

    def loss(x: Tensor) -> Tensor:
        return F.mse_loss(output(x), sums, reduction="sum")

    T = job.time_steps
    times = [max(1, round(position * T)) for position in POSITIONS]
    norms = adjoint_norms(model.cell, u, loss, times=times)
    by_time = dict(zip(norms.times, norms.readout.median(dim=1).values.tolist(), strict=True))
    # The count of steps of the LU RNN and the inverse RNN is no memory.
    parts = (0,) if job.architecture in _INTERCHANGING else None
    stretch = min(2 * job.tau, T)
    values = singular_values(model.cell, u, parts=parts, start=T - stretch).log10()
    return {
        "adjoint": [by_time[t] for t in times],
        "gain": [values[:, end].mean().item() for end in (0, -1)],
    }


EXPERIMENT = Experiment(
    name="adding",
    design=Adding,
    schema=SCHEMA,
    run=run,
    cells=lambda job: (job.architecture,),
    modules=lambda job: ("lib.tasks.adding",),
    levels=lambda designs: {
        "checkpoint": list(range(designs[0].checkpoints + 1)),
        "position": list(POSITIONS),
        "stage": list(STAGES),
        "end": list(ENDS),
    },
    size=lambda job: (
        (4 if job.architecture == "lstm" else 1)
        * job.time_steps
        * job.training_steps
        / _STEPS_OF_A_SECOND
    ),
    title=lambda job: (
        f"{job.architecture} at T={job.time_steps}, learning rate {job.learning_rate:g}"
    ),
)
