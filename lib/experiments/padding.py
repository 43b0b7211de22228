r"""Experiment 2.3: which way of training still learns when noise separates an image from the end of its sequence?

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.7, with the sweep of appendix A3.2.

The methods of Table 2.1, each one objective:

=============== ======== ===================================================================================
method          network  what a step minimises
=============== ======== ===================================================================================
``adjoint``     RNN      the cross entropy F, by backpropagation
``coadjoint``   RNN      :math:`F + \kappa G`, G the scaled variance of the adjoints' norms (2.20)
``constrained`` RNN      :math:`F + \beta (\|W'W - I\|_2^2 + \|WW' - I\|_2^2)`
``lstm``        LSTM     F
``reservoir``   RNN      F, over the output layer alone
``fixed_w``     RNN      F, over all but W
``linear``      linear   F; not in the text, see the notebook of Table 2.2
=============== ======== ===================================================================================

What the text leaves open, and what is chosen here:

===================== ==================================================================================
optimiser             Adam in batches of 32, as in section 3.3; the learning rates are in `params.yaml`
epochs                in `params.yaml`
initial weights       TensorFlow's for recurrent layers, see `initialise`; the first state of the RNNs is
                      trained from zero, as in the author's public research code
input weights         a factor, see `initialise`; from N(0, 1/T) in that code
activation            tanh, as in theorem 2.1; the linear RNN of definition 2.3 is trained beside it
kappa                 one weight for the table, in `params.yaml`; the sweep shows the others
weight of the soft    in `params.yaml`
orthogonal penalty
reservoir             two, as in that code: nothing but the output layer is trained, or all but W
accuracy              after the last epoch, on the test part
===================== ==================================================================================

Two sets of attempts share the dataset. The attempts behind Table 2.2 have the dimensions `ATTEMPT`; the sweep over kappa behind
Figure A2 has the dimensions `SWEEP`, one data set and width, and variables that begin with ``sweep_``. Table 2.2 is no full
grid: the status of what it does not have is "not planned".
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import xarray as xr
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from lib.cells import Cell, make_cell
from lib.experiments._experiment import Experiment
from lib.probes.coadjoint import coadjoint_loss, soft_orthogonality
from lib.results.schema import COMPLETED, DIVERGED, ResultsError, Schema
from lib.run.params import Design, Factor, LearningRate, Positive, Size, Weight
from lib.tasks import Part, Task, make_task
from lib.tasks.data import load_prepared
from lib.tasks.padded_rows import image_side
from lib.training.batches import Epochs
from lib.training.fit import Objective, Recipe, Record, every_epoch, fit
from lib.training.measure import measure
from lib.training.model import Model, evaluate, task_loss
from lib.training.resume import Resume
from lib.training.seeds import seeds_of, torch_seed

CELLS = {
    "adjoint": "rnn",
    "coadjoint": "rnn",
    "constrained": "rnn",
    "lstm": "lstm",
    "reservoir": "rnn",
    "fixed_w": "rnn",
    "linear": "linear_rnn",
}
"""The cell that each method trains: Table 2.1 of the dissertation, and the linear RNN trained like `adjoint`."""

_COST = {
    "adjoint": 1,
    "coadjoint": 2,
    "constrained": 1,
    "lstm": 3,
    "reservoir": 0.1,
    "fixed_w": 1,
    "linear": 2,
}
"""Time of one step, about, relative to backpropagation: for the order of the jobs alone."""

ADJOINT_BATCH = 128
"""Sequences whose adjoint states are measured at once."""

SPLITS = ("train", "test")
ATTEMPT = ("dataset", "padding", "method", "width", "input_scale", "replicate")
SWEEP = ("sweep_padding", "initialisation", "kappa", "sweep_replicate")

_COORDINATES = {
    "dataset": ("data set", "1"),
    "padding": ("rows of noise as a multiple of the image's rows", "1"),
    "method": ("network and way of training", "1"),
    "width": ("recurrent dimension", "1"),
    "input_scale": ("how large the input weights of the RNNs begin", "1"),
    "replicate": ("replicate: noise, initial weights and batches of its own", "1"),
    "sweep_padding": ("rows of noise as a multiple of the image's rows, in the sweep", "1"),
    "initialisation": ("how the recurrent weights are drawn, in the sweep", "1"),
    "kappa": ("weight of the coadjoint penalty, in the sweep", "1"),
    "sweep_replicate": ("replicate, in the sweep", "1"),
    "split": ("part of the data set", "1"),
    "epoch": ("training epochs completed", "epoch"),
}


def _measured(prefix: str, dims: tuple[str, ...]) -> dict[str, tuple]:
    each = (*dims, "split", "epoch")
    return {
        f"{prefix}epochs_completed": (dims, "int32", "epochs with finite measurements", "epoch"),
        f"{prefix}loss": (each, "float64", "mean cross entropy", "nat"),
        f"{prefix}accuracy": (each, "float64", "classification accuracy", "1"),
        f"{prefix}adjoint_first": (
            dims,
            "float64",
            "log10 of summed norms of lambda_1 after training, test sequences, full state",
            "1",
        ),
        f"{prefix}adjoint_last": (dims, "float64", "the same of lambda_T", "1"),
    }


_VARIABLES = {
    "status": (ATTEMPT, "int8", "how the attempt ended", "1"),
    **_measured("", ATTEMPT),
    "sweep_status": (SWEEP, "int8", "how the attempt of the sweep ended", "1"),
    **_measured("sweep_", SWEEP),
    "examples": (("dataset", "split"), "int64", "number of sequences", "1"),
    "time_steps": (("dataset", "padding"), "int64", "length of the input sequence", "step"),
    "largest_class": (("dataset",), "float64", "share of the largest class, test part", "1"),
    "first_class": (("dataset",), "float64", "share of the first class, test part", "1"),
}
MEASURED = tuple(_measured("", ATTEMPT))
"""Names of what an attempt measures; in the sweep they begin with ``sweep_``."""


def _check(ds: xr.Dataset) -> None:
    for prefix in ("", "sweep_"):
        status, done = ds[f"{prefix}status"], ds[f"{prefix}epochs_completed"]
        if bool(((status == COMPLETED) & (done != ds.sizes["epoch"])).any()):
            raise ResultsError(f"{prefix}epochs_completed: expected all epochs where completed")
        if bool((~status.isin((COMPLETED, DIVERGED)) & (done > 0)).any()):
            raise ResultsError(f"{prefix}epochs_completed: expected 0 where nothing ran")
        for name in ("loss", "accuracy"):
            if bool((ds[prefix + name].notnull() != (ds["epoch"] <= done)).any()):
                raise ResultsError(f"{prefix}{name}: expected values for the epochs completed only")
        for name in ("adjoint_first", "adjoint_last"):
            if bool((ds[prefix + name].notnull() != (status == COMPLETED)).any()):
                raise ResultsError(
                    f"{prefix}{name}: expected values where completed, and only there"
                )
        accuracy = ds[f"{prefix}accuracy"]
        if bool(((accuracy < 0) | (accuracy > 1)).any()):
            raise ResultsError(f"{prefix}accuracy: expected values between 0 and 1")


SCHEMA = Schema("padding/3", _COORDINATES, _VARIABLES, _check, unions=("status",))


class Padding(Design):
    """Experiment 2.3 of the dissertation and its appendix A3.2.

    `kappa` weighs the penalty of the method ``coadjoint``, `orthogonality` that of ``constrained``; `input_scale` says how
    the input weights of the RNNs begin. In a `sweep` the method is ``coadjoint`` (``adjoint`` at kappa = 0). Sizes of 0 mean
    "all of the data set"; `probe_size` training sequences are measured after every epoch, and the adjoint states of
    `adjoint_size` test sequences at the end.
    """

    dataset: Factor[str]
    padding: Factor[Annotated[int, Field(ge=0, le=1000)]]
    method: Factor[Literal[tuple(CELLS)]] = ("coadjoint",)
    width: Factor[Positive]
    initialisation: Factor[Literal["orthogonal", "glorot"]] = ("orthogonal",)
    kappa: Factor[Weight]
    sweep: Factor[bool] = (False,)
    orthogonality: Weight
    input_scale: Factor[Literal["1/T", "0.01", "0.1", "1"]] = ("1/T",)
    learning_rates: dict[Literal[tuple(CELLS)], LearningRate]
    epochs: Positive
    batch_size: Positive
    train_size: Size
    test_size: Size
    probe_size: Size
    adjoint_size: Positive

    @model_validator(mode="after")
    def _every_method_has_a_rate(self) -> "Padding":
        used = {"adjoint", "coadjoint"}.union(self.method)
        if missing := sorted(used - set(self.learning_rates)):
            raise ValueError(f"expected a learning rate for the method {missing[0]!r}, got none")
        return self

    @property
    def sweep_padding(self) -> int:
        """The job's padding, as the sweep's dimension."""
        return self.padding

    @property
    def sweep_replicate(self) -> int:
        """The job's replicate, as the sweep's dimension."""
        return self.replicate


def plan(designs: Sequence[Padding]) -> list[Padding]:
    """Return every job; where the sweep's kappa is 0, and where the method knows no kappa, it is plain backpropagation."""
    jobs = [job for design in designs for job in design.jobs()]
    return [
        job.at(method="adjoint", replicate=job.replicate) if job.sweep and not job.kappa else job
        for job in jobs
    ]


def identity(job: Padding) -> dict:
    """Return what a job's results depend on: weights that its method does not use are no part of it."""
    said = job.values()
    del said["sweep"], said["learning_rates"]
    return said | {
        "kappa": job.kappa if job.method == "coadjoint" else 0.0,
        "orthogonality": job.orthogonality if job.method == "constrained" else 0.0,
        "input_scale": "1" if job.method == "lstm" else job.input_scale,
        "learning_rate": job.learning_rates[job.method],
    }


def seeds(job: Padding) -> tuple[np.random.SeedSequence, ...]:
    """Return independent seeds: the noise, the initial weights, the batches.

    They depend on neither the method nor kappa: the methods of one replicate see the same sequences in the
    same order, and where they train the same network it starts from the same weights.
    """
    return seeds_of(job, ("dataset", "padding", "width", "replicate"), 3, experiment="padding")


def run(job: Padding, prepared: Path, resume: Resume) -> dict[str, np.ndarray]:
    """Train and measure one attempt.

    Returns
    -------
    dict
        ``status`` and ``epochs_completed``; ``loss`` and ``accuracy``, (split, epoch), ``nan`` where an epoch was not
        completed; ``adjoint_first`` and ``adjoint_last`` of the trained network, ``nan`` if it diverged.

    Notes
    -----
    Adam and the cross entropy, batches drawn without replacement. A loss, a penalty or a
    gradient that is not finite ends the attempt; what it measured before is kept.
    """
    spec = {
        "task": "padded_rows",
        **{name: getattr(job, name) for name in ("dataset", "padding", "train_size", "test_size")},
    }
    return train(job, make_task(spec, prepared, np.random.default_rng(seeds(job)[0])), resume)


def train(job: Padding, task: Task, resume: Resume | None = None) -> dict[str, np.ndarray]:
    """Do what `run` does, on a task in memory."""
    _, initial, order = seeds(job)
    with torch_seed(initial):
        model = initial_model(job, task)
    seen = task.map(lambda part: last_states(model, part)) if job.method == "reservoir" else task
    trained = model.output if job.method == "reservoir" else model
    batches = Epochs(seen.train, job.batch_size, np.random.default_rng(order))
    recipe = Recipe(learning_rate=job.learning_rates[job.method], epochs=job.epochs)
    probe = seen.train.take(slice(job.probe_size or None))

    def score(model: nn.Module) -> dict[str, float]:
        scores = {"train": evaluate(model, seen, probe), "test": evaluate(model, seen, seen.test)}
        return {
            f"{name} {split}": value
            for split, both in scores.items()
            for name, value in zip(("loss", "accuracy"), both, strict=True)
        }

    done = fit(
        trained,
        batches,
        recipe,
        objective(job, seen),
        Record(score, every_epoch(recipe, batches)),
        finite="gradients" if job.method == "coadjoint" else "loss",
        resume=resume,
    )
    ends = {"adjoint_first": math.nan, "adjoint_last": math.nan}
    if done.status == COMPLETED:
        found = measure(model, task.test, batch_size=ADJOINT_BATCH, size=job.adjoint_size)
        ends = {name: found[f"{name}_full"] for name in ends}
    if any(math.isnan(value) for value in ends.values()):
        done.status, ends = DIVERGED, dict.fromkeys(ends, math.nan)
    return {
        "status": done.status,
        "epochs_completed": len(done.rows),
        **{
            name: np.array([done.column(f"{name} {split}", job.epochs) for split in SPLITS])
            for name in ("loss", "accuracy")
        },
        **ends,
    }


def initial_model(job: Padding, task: Task) -> Model:
    """Return the network that the job's method trains, its weights drawn from torch's generator."""
    model = Model(make_cell(CELLS[job.method], task.features, job.width), task.outputs)
    scale = "1" if job.method == "lstm" else job.input_scale
    initialise(model.cell, job.initialisation, scale, task.train.inputs.shape[1])
    if job.method != "lstm":
        model.cell.train_initial_state()
    if job.method == "fixed_w":
        model.cell.W.requires_grad_(False)
    nn.init.xavier_uniform_(model.output.weight)
    nn.init.zeros_(model.output.bias)
    return model


def initialise(cell: Cell, initialisation: str, input_scale: str, time_steps: int) -> None:
    """Draw a cell's weights as TensorFlow does, whose routines the text says it uses (experiment 2.2).

    Parameters
    ----------
    cell
        A cell with the weights W, R and b.
    initialisation
        ``orthogonal`` or ``glorot``: how W is drawn (Figure A2); the gates of an LSTM as one matrix.
    input_scale
        ``1/T``: R is normal with standard deviation one over the number of time steps, as in the author's public
        research code. A number: R is Glorot uniform times it. At 1 the noise drives tanh into saturation: whatever the
        state held of the image is gone after a few rows, and with it the gradient.
    time_steps
        Length T of the sequences.

    Notes
    -----
    Biases are zero, but for an LSTM's forget gate, where they are one.
    """
    draw = {"orthogonal": nn.init.orthogonal_, "glorot": nn.init.xavier_uniform_}[initialisation]
    draw(cell.W)
    nn.init.zeros_(cell.b)
    with torch.no_grad():
        if input_scale == "1/T":
            nn.init.normal_(cell.R, std=1 / time_steps)
        else:
            nn.init.xavier_uniform_(cell.R).mul_(float(input_scale))
        if cell.name == "lstm":
            cell.b[cell.hidden_size : 2 * cell.hidden_size] = 1  # gates in the order i f g o


def objective(job: Padding, task: Task) -> Objective:
    """Return what a step of the job's method minimises."""
    loss = task_loss(task)

    def coadjoint(model: Model, inputs: Tensor, labels: Tensor) -> Tensor:
        def losses(x: Tensor) -> Tensor:
            return F.cross_entropy(model.output(x), labels, reduction="none")

        return coadjoint_loss(model.cell, model.drive(inputs), losses, kappa=job.kappa).total

    def plain(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        return loss(model(inputs), labels)

    def constrained(model: Model, inputs: Tensor, labels: Tensor) -> Tensor:
        return plain(model, inputs, labels) + job.orthogonality * soft_orthogonality(model.cell.W)

    return {"coadjoint": coadjoint, "constrained": constrained}.get(job.method, plain)


@torch.no_grad()
def last_states(model: Model, part: Part) -> Part:
    """Return the last states that a fixed network reaches, (n, hidden), in place of the inputs: what a reservoir's head learns from."""
    pieces = torch.from_numpy(part.inputs).split(500)
    states = [model.seen(model.cell(model.drive(piece))[1]) for piece in pieces]
    return Part(torch.cat(states).numpy(), part.targets)


def _levels(designs: Sequence[Any]) -> dict[str, list]:
    table = [design for design in designs if not design.sweep[0]]
    sweep = [design for design in designs if design.sweep[0]]

    def of(chosen: Sequence[Any], name: str) -> list:
        return list(dict.fromkeys(level for design in chosen for level in getattr(design, name)))

    return {
        **{name: of(table, name) for name in ("dataset", "method", "input_scale")},
        **{name: sorted(of(table, name)) for name in ("padding", "width")},
        "replicate": list(range(max(design.replicates for design in table))),
        "sweep_padding": of(sweep, "padding"),
        **{name: of(sweep, name) for name in ("initialisation", "kappa")},
        "sweep_replicate": list(range(max(design.replicates for design in sweep))),
        "split": list(SPLITS),
        "epoch": list(range(1, designs[0].epochs + 1)),
    }


def _about(designs: Sequence[Any]) -> dict:
    """Return the weight of the table's coadjoint penalty, and what the sweep is made of."""
    sweep = next(design for design in designs if design.sweep[0])
    return {
        "kappa": designs[0].kappa[0],
        "sweep": {
            "dataset": sweep.dataset[0],
            "width": sweep.width[0],
            "initialisations": list(sweep.initialisation),
        },
    }


def _describe_data(
    ds: xr.Dataset, designs: Sequence[Any], prepared: Path, found: Sequence[Mapping]
) -> None:
    """Fill in what follows from the data sets: sizes, sequence lengths, shares of classes."""
    design = designs[0]
    for i, name in enumerate(ds["dataset"].values.tolist()):
        data = load_prepared(prepared / f"{name}.nc", design.train_size, design.test_size)
        ds["examples"].values[i] = [len(part) for part in (data.train, data.test)]
        ds["time_steps"].values[i] = (1 + ds["padding"].values) * image_side(data)
        shares = np.bincount(data.test.targets, minlength=data.outputs) / len(data.test)
        ds["largest_class"].values[i] = shares.max()
        ds["first_class"].values[i] = shares[0]


EXPERIMENT = Experiment(
    name="padding",
    design=Padding,
    schema=SCHEMA,
    run=run,
    cells=lambda job: (
        (CELLS[job.method], f"{CELLS[job.method]}/adjoints")
        if job.method == "coadjoint"
        else (CELLS[job.method],)
    ),
    datasets=lambda job: (job.dataset,),
    modules=lambda job: ("lib.tasks.padded_rows",),
    plan=plan,
    identity=identity,
    levels=_levels,
    prefix=lambda job: "sweep_" if job.sweep else "",
    fill=_describe_data,
    about=_about,
    size=lambda job: _COST[job.method] * (1 + job.padding) * job.width * job.epochs,
    title=lambda job: f"{job.method} {job.width} on {job.dataset} {job.padding}x",
)
