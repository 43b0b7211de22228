r"""Experiment 2.4: can a matrix that takes turns with its inverse add two numbers across hundreds of steps?

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.9.1, Figures 2.7 and 2.8.
What the text leaves open, and what is chosen here:

=================== =====================================================================================
optimiser           Adam, on fresh sequences in every batch; gradients are clipped
training steps      in `params.yaml`; a training ends early where its validation error is below `enough`
learning rate       the text's range is 1e-4 to 1e-3, its choice for each network is not told
initial weights     a factor, see `draw_weights`: those of the author's public research code by default
activation          a factor: tanh, which that code uses, or ReLU
LU RNN              W is an orthogonal matrix whose rows are ordered so that L and U need no exchanges. That
                    code keeps the order beside the factors; here the matrix in that order is W: it is
                    orthogonal as well
=================== =====================================================================================
"""

import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
import xarray as xr
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from lib.cells import Cell, State, cell_class, make_cell
from lib.cells._interchange import alternate
from lib.cells.lu_rnn import multiply, solve
from lib.experiments._experiment import Architecture, Experiment
from lib.probes.adjoint import adjoint_norms
from lib.probes.lyapunov import singular_values
from lib.results.schema import COMPLETED, DIVERGED, NOT_PLANNED, ResultsError, Schema
from lib.run.params import Design, Factor, LearningRate, Positive
from lib.tasks.adding import BASELINE, FEATURES, draw_sums, mean_input
from lib.training.batches import Fresh
from lib.training.fit import Recipe, Record, fit
from lib.training.model import Model, tensors
from lib.training.resume import Resume
from lib.training.seeds import seeds, seeds_of, torch_seed

_INTERCHANGING = ("lu_rnn", "inverse_rnn")
_SPREAD = 0.5
_STEPS_OF_A_SECOND = 10_000
"""Time steps of one batch that one core does in a second, roughly; only the estimate of the time left uses it."""

POSITIONS = tuple(round(k / 50, 2) for k in range(51))
"""Where along a sequence the adjoint states are kept, as shares of T."""
STAGES = ("untrained", "trained")
ENDS = ("largest", "smallest")
START = Literal["author", "text", "library", "identity"]
ACTIVATION = Literal["tanh", "relu"]
LEVELS = ("architecture", "time_steps", "learning_rate", "start", "activation", "replicate")
"""The levels of one training, from which its random numbers follow."""


def _check(ds: xr.Dataset) -> None:
    trained = ds["status"] == COMPLETED
    for name in ("error", "validation", "adjoint", "gain"):
        over = [dim for dim in ds[name].dims if dim not in LEVELS]
        if bool((ds[name].isnull().any(over) & trained).any()):
            raise ResultsError(f"{name}: expected values wherever a training was completed")
    short = trained & (ds["steps_completed"] < ds["training_steps"])
    if bool((short & (ds["validation"].isel(checkpoint=-1) >= ds["enough"])).any()):
        raise ResultsError(
            "steps_completed: expected all training steps of a training that had not learned enough"
        )
    if bool(((ds["status"] == NOT_PLANNED) != (ds["training_steps"] == 0)).any()):
        raise ResultsError("training_steps: expected some exactly where a training is planned")
    if bool((ds["error"] < 0).any()):
        raise ResultsError("error: expected mean squared errors of at least 0")


SCHEMA = Schema(
    name="adding/3",
    coordinates={
        "architecture": ("recurrent architecture", "1"),
        "time_steps": ("length of the sequences", "step"),
        "learning_rate": ("learning rate of Adam", "1"),
        "start": ("initial weights", "1"),
        "activation": ("activation of the recurrence", "1"),
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
        "parameters": (
            ("architecture",),
            "int64",
            "parameters of the cell, without the first state",
            "1",
        ),
        "error": (
            (*LEVELS, "checkpoint"),
            "float64",
            "mean squared error on the test sequences; after an early end the last",
            "1",
        ),
        "validation": (
            (*LEVELS, "checkpoint"),
            "float64",
            "mean squared error on as many other sequences, which choose among settings; after an early end the last",
            "1",
        ),
        "enough": ((), "float64", "validation error below which a training ends early", "1"),
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
    errors on `test_size` test sequences and as many for validation are measured at `checkpoints` equally spaced steps, the
    adjoint states of `probe_size` sequences before and after training. A training whose validation error is below
    `enough` times the guess's at a checkpoint ends there.
    """

    architecture: Factor[Architecture]
    time_steps: Factor[Annotated[int, Field(ge=2, le=10**6)]]
    learning_rate: Factor[LearningRate]
    start: Factor[START] = ("author",)
    activation: Factor[ACTIVATION] = ("tanh",)
    training_steps: Positive
    enough: Annotated[float, Field(ge=0, le=1)]
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
        if "relu" in self.activation and (bad := set(self.architecture) - set(_RECTIFIED)):
            raise ValueError(
                f"activation is relu for {sorted(bad)[0]}; expected it for {', '.join(_RECTIFIED)} alone"
            )
        return self


def start(job: Adding) -> Model:
    """Return the network before training."""
    name, width = job.architecture, job.width
    hyper_parameters = {"tau": job.tau} if name in _INTERCHANGING else {}
    with torch_seed(seeds_of(job, LEVELS, 2)[0]):
        head = "library" if job.start == "text" else "glorot"
        model = Model(make_cell(name, FEATURES, width, **hyper_parameters), 1, head=head)
        draw_weights(model.cell, job.start, job.time_steps)
    if job.activation == "relu":
        _rectify(model.cell)
    return model


@torch.no_grad()
def draw_weights(cell: Cell, start: str, time_steps: int) -> None:
    r"""Draw a cell's initial weights from torch's generator.

    Parameters
    ----------
    cell
        With R, b and W, or the factors of W.
    start
        ``author``: R from N(0, 1/T), the standard deviation one over the length, W orthogonal, b zero, the first state
        trained from zero; an LSTM as in Keras, which that code is written in. ``library``: Keras's, W orthogonal, R
        Glorot uniform, b zero but 1 for forget gates. ``identity``: the same with W the identity (Le, Jaitly and
        Hinton 2015). ``text``: this repository's own, see the notes.
    time_steps
        Length T.

    Notes
    -----
    In ``text`` the input weights are uniform within :math:`\pm 1 / \sqrt{p}`, p = 2 features: large enough for tanh to bend,
    without which value and mark cannot be multiplied. The recurrent weights, for each gate of the LSTM, are rotations
    :math:`e^A` with Gaussian A = -A', by angles up to about one radian. The biases -R E[u] cancel the mean input:
    without that the states drift to where tanh is flat within tens of steps. The LSTM's forget gates get 1 more.

    The author's R enters long sequences at 1/T: the network starts almost linear, and an orthogonal W then carries the
    adjoint unchanged.
    """
    width = cell.hidden_size
    gates = len(cell.R) // width
    if start == "text":
        cell.R.uniform_(-1, 1).div_(math.sqrt(FEATURES))
        cell.b.copy_(-cell.R @ torch.tensor(mean_input(time_steps)))
        W = torch.cat([_rotation(width) for _ in range(gates)])
    else:
        nn.init.xavier_uniform_(cell.R)
        nn.init.zeros_(cell.b)
        W = torch.eye(width, dtype=torch.float64).repeat(gates, 1)
        if start != "identity":
            nn.init.orthogonal_(W)
        if start == "author" and cell.name != "lstm":
            cell.R.normal_().div_(time_steps)
            cell.train_initial_state()
            if cell.name in _INTERCHANGING:  # their second state counts steps
                cell.x0[1].requires_grad_(False)
    if cell.name == "lu_rnn":
        order, *_ = torch.linalg.lu(W)
        cell.set_matrix(W if start == "text" else order.T @ W)
    else:
        cell.W.copy_(W)
    if cell.name == "lstm":
        cell.b[width : 2 * width] += 1


def _relu_rnn(weights: tuple, state: State, u: Tensor) -> State:
    W, R, b = weights
    return (torch.relu(state[0] @ W.T + u @ R.T + b),)


def _relu_inverse_rnn(weights: tuple, state: State, u: Tensor) -> State:
    W, inverse, R, b, tau = weights
    x, t = state
    return torch.relu(alternate(t, tau, x @ W.T, x @ inverse.T) + u @ R.T + b), t + 1


def _relu_lu_rnn(weights: tuple, state: State, u: Tensor) -> State:
    L, U, R, b, tau = weights
    x, t = state
    return torch.relu(alternate(t, tau, multiply(L, U, x), solve(L, U, x)) + u @ R.T + b), t + 1


_RECTIFIED = {"rnn": _relu_rnn, "inverse_rnn": _relu_inverse_rnn, "lu_rnn": _relu_lu_rnn}
"""The steps (2.1) and (2.28) with ReLU in the place of tanh."""


def _rectify(cell: Cell) -> None:
    """Give a cell the activation ReLU: its step changes, and no engine but the reference knows how to run it."""
    cell.step = _RECTIFIED[cell.name]
    cell.engine_options = {"activation": "relu"}


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
    # The same sequences for all trainings of a length.
    test, validation = (
        tensors(draw_sums(T, job.test_size, np.random.default_rng(seeds({part: T}, 1)[0])))
        for part in ("test", "validation")
    )
    train_seed = seeds_of(job, LEVELS, 2)[1]
    ends = {"untrained": _nothing(), "trained": _nothing()}
    status, steps = DIVERGED, 0
    curves = {name: [math.nan] * (job.checkpoints + 1) for name in ("error", "validation")}
    try:
        ends["untrained"] = _ends(model, job, test)
        done = fit(
            model,
            Fresh(partial(draw_sums, T), job.batch_size, np.random.default_rng(train_seed)),
            Recipe(
                learning_rate=job.learning_rate, steps=job.training_steps, gradient_clip=job.clip
            ),
            lambda model, inputs, sums: F.mse_loss(model(inputs), sums),
            Record(
                lambda model: {
                    "error": _error(test, model),
                    "validation": _error(validation, model),
                },
                [job.training_steps * k // job.checkpoints for k in range(job.checkpoints + 1)],
                stop=lambda row: row["validation"] < job.enough * BASELINE,
            ),
            resume=resume,
        )
        steps = done.steps
        curves = {name: done.column(name, job.checkpoints + 1) for name in curves}
        if done.status == COMPLETED:
            ends["trained"] = _ends(model, job, test)
            status = COMPLETED
            curves = {  # the model stays as it is after an early end
                name: [done.rows[-1][name] if math.isnan(value) else value for value in values]
                for name, values in curves.items()
            }
    except ArithmeticError:  # a matrix without an inverse, where it is measured
        pass
    return {
        "status": status,
        "training_steps": job.training_steps,
        "steps_completed": steps,
        "parameters": sum(
            p.numel() for name, p in model.cell.named_parameters() if not name.startswith("x0")
        ),
        **{name: np.array(values) for name, values in curves.items()},
        **{name: np.stack([ends[stage][name] for stage in STAGES]) for name in _nothing()},
    }


@torch.no_grad()
def _error(part: tuple[Tensor, Tensor], model: Model) -> float:
    """Return the mean squared error on sequences; one that is not finite is a divergence."""
    error = F.mse_loss(model(part[0]), part[1]).item()
    return error if math.isfinite(error) else math.nan


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


def _add_rule(ds: xr.Dataset, designs: Sequence[Any], prepared: None, found: object) -> None:
    """Add the validation error at which trainings end."""
    ds["enough"] = ds["enough"].copy(data=designs[0].enough * BASELINE)


def _cost(job: Adding) -> float:
    """Return about how many seconds one core takes."""
    slow = 4 if job.architecture == "lstm" else 3 if job.activation == "relu" else 1
    return slow * job.time_steps * job.training_steps / _STEPS_OF_A_SECOND


EXPERIMENT = Experiment(
    name="adding",
    design=Adding,
    schema=SCHEMA,
    run=run,
    # The engines of a tanh network know no other activation.
    cells=lambda job: (job.architecture + ("/relu" if job.activation == "relu" else ""),),
    modules=lambda job: ("lib.tasks.adding", cell_class(job.architecture).__module__),
    levels=lambda designs: {
        "checkpoint": list(range(designs[0].checkpoints + 1)),
        "position": list(POSITIONS),
        "stage": list(STAGES),
        "end": list(ENDS),
    },
    fill=_add_rule,
    size=_cost,
    title=lambda job: (
        f"{job.architecture} at T={job.time_steps}, learning rate {job.learning_rate:g}, {job.activation}, "
        f"start {job.start}"
    ),
)
