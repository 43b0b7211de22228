"""Any list of networks and tasks that a profile names: what most published tables are made of.

The section ``supervised`` holds a section for each group of published experiments; a group's networks come in one dataset,
``data/results/<group>.nc``. A row of data is all that a further network takes: the task, the cell with its hyper-parameters, the
recipe. Where a text chooses by validation, so may who reads the dataset: loss and metric of every part are kept with
every record.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import xarray as xr
from pydantic import AfterValidator, Field, model_validator
from torch import Tensor

from lib.cells import cell_class, check_hyper_parameters
from lib.experiments._experiment import Architecture, Experiment
from lib.probes.state_gains import state_gains
from lib.probes.time_steps import DECADES, SCALES, counted
from lib.results.schema import COMPLETED, ResultsError, Schema
from lib.run.params import Design, Factor, LearningRate, Positive, Section, Size, Weight
from lib.tasks import Part, Task, check_task, make_task, task_module
from lib.training.batches import Batches, Epochs, Fresh
from lib.training.fit import OPTIMISERS, Group, Recipe, Record, fit
from lib.training.limits import check_memory
from lib.training.model import (
    HEADS,
    READS,
    Dropout,
    Model,
    build,
    evaluate,
    pick_device,
    task_loss,
    tensors,
)
from lib.training.resume import Resume
from lib.training.seeds import seeds, torch_seed

PARTS = ("train", "validation", "test")
STAGES = ("untrained", "trained")
GAINS = ("gain_first", "gain_last", "adjoint_first")
PROBED = 8
"""Training sequences along which gains and time steps are measured."""
_RUN = ("run",)
_TRAINING = ("run", "replicate")
_RECORD = (*_TRAINING, "record")
_SCALE = (*_TRAINING, "stage", "scale", "decade")


def _check(ds: xr.Dataset) -> None:
    done = ds["records"] > ds["record"]
    if bool((ds["step"].where(done, 0) != ds["step"]).any()):
        raise ResultsError("step: expected 0 where nothing was recorded")
    for part in ("train", "test"):
        if bool((ds[f"{part}_loss"].notnull() != done).any()):
            raise ResultsError(f"{part}_loss: expected values for exactly what was recorded")
    if bool(((ds["status"] == COMPLETED) & (ds["records"] == 0)).any()):
        raise ResultsError("records: expected some of a training that completed")


SCHEMA = Schema(
    "supervised/1",
    coordinates={
        "run": ("network, task and recipe", "1"),
        "replicate": ("replicate: initial weights and batches of its own", "1"),
        "record": ("measurement, in the order of training", "1"),
        "stage": ("before or after training", "1"),
        "scale": ("layer, or kind of time step", "1"),
        "decade": ("log10 of a time step, lower end of a class of its histogram", "1"),
    },
    variables={
        "label": (_RUN, "str", "name of the row in params.yaml", "1"),
        "task_label": (_RUN, "str", "what the task is called in tables", "1"),
        "task": (_RUN, "str", "task and its settings, as JSON", "1"),
        "substitute": (_RUN, "str", "what stands in for the publisher's data", "1"),
        "architecture": (_RUN, "str", "recurrent architecture", "1"),
        "width": (_RUN, "int64", "recurrent dimension", "1"),
        "learning_rate": (_RUN, "float64", "learning rate", "1"),
        "hyper_parameters": (_RUN, "str", "of the cell, as JSON", "1"),
        "parameters": (_RUN, "int64", "trainable numbers of the cell", "1"),
        "sequences": (_RUN, "int64", "training sequences; 0 where they are drawn", "1"),
        "test_sequences": (_RUN, "int64", "sequences tested on", "1"),
        "time_steps": (_RUN, "int64", "length of the input sequence", "step"),
        "metric": (_RUN, "str", "what a part is scored by", "1"),
        "guess_loss": (_RUN, "float64", "test loss of an answer that ignores the inputs", "1"),
        "guess_metric": (_RUN, "float64", "test metric of that answer", "1"),
        "status": (_TRAINING, "int8", "how the training ended", "1"),
        "steps": (_TRAINING, "int64", "batches trained on", "step"),
        "records": (_TRAINING, "int64", "measurements taken", "1"),
        "step": (_RECORD, "int64", "batches trained on before the measurement", "step"),
        "gain_first": (_RECORD, "float64", "log10 of the norm of dh_T/dh_1, median", "1"),
        "gain_last": (_RECORD, "float64", "log10 of the norm of dh_T/dh_(T-1), median", "1"),
        "adjoint_first": (_RECORD, "float64", "log10 of the norm of dL/dh_1, median", "1"),
        "time_step_share": (_SCALE, "float64", "share of a network's time steps of this size", "1"),
        **{
            f"{part}_{name}": (_RECORD, "float64", f"{name} on the {part} part", "1")
            for part in PARTS
            for name in ("loss", "metric")
        },
    },
    check=_check,
    unions=("status",),
)


class DropoutShares(Section):
    """Shares of numbers set to zero in training, see `lib.training.model.Dropout`."""

    input: Annotated[float, Field(ge=0, lt=1)] = 0.0
    embedding: Annotated[float, Field(ge=0, lt=1)] = 0.0
    output: Annotated[float, Field(ge=0, lt=1)] = 0.0


def _known_task(spec: dict) -> dict:
    check_task(spec)
    return spec


class Supervised(Design):
    """A row: what is trained on what, and how.

    `label` names it, and `task_label` its task, where a table has several (networks may then share their names); a row with several cells, widths or learning rates is
    one network for each. `epochs` or `steps` say how long; of `records` equally spaced measurements the last is at the end. `probe_size` training sequences are measured (0: all), and where
    the task draws its sequences `test_size` fresh ones, the same for all networks of a task. `measures` asks for more: ``gains``
    with every record (`lib.probes.state_gains`), ``time_steps`` before and after training (`lib.probes.time_steps`).
    """

    label: Factor[str]
    task_label: Factor[str] = ("",)
    task: Annotated[dict[str, Any], AfterValidator(_known_task)]
    cell: Factor[Architecture]
    width: Factor[Positive]
    learning_rate: Factor[LearningRate]
    hyper_parameters: dict[str, Any] = Field(default_factory=dict)
    start: str = "text"
    head: Literal[tuple(HEADS)] = "library"
    read: Literal[("", *READS)] = ""
    embedding_width: Size = 0
    train_initial_state: bool = False
    dropout: DropoutShares = DropoutShares()
    epochs: Size = 0
    steps: Size = 0
    records: Positive
    batch_size: Positive
    optimiser: Literal[tuple(OPTIMISERS)] = "adam"
    options: dict[str, Any] = Field(default_factory=dict)
    drops: tuple[Positive, ...] = ()
    drop_factor: Annotated[float, Field(gt=0, lt=1)] = 0.1
    clip: Weight = 0.0
    groups: tuple[Group, ...] = ()
    probe_size: Size = 0
    test_size: Size = 0
    measures: tuple[Literal["gains", "time_steps"], ...] = ()
    device: Literal["auto", "cpu", "cuda"] = "auto"

    @model_validator(mode="after")
    def _fits(self) -> "Supervised":
        for cell in self.cell:
            check_hyper_parameters(cell, self.hyper_parameters)
            if self.start not in (starts := cell_class(cell).starts):
                raise ValueError(
                    f"{cell}: expected initial weights among {', '.join(starts)}, got {self.start!r}"
                )
        if (self.epochs > 0) == (self.steps > 0):
            raise ValueError(f"expected either epochs or steps, got {self.epochs} and {self.steps}")
        return self

    @property
    def run(self) -> str:
        """The network's name in the dataset."""
        named = ", ".join(filter(None, (self.label, self.task_label)))
        return f"{named}, {self.cell}, d={self.width}, {self.learning_rate:g}"


def run(job: Supervised, prepared: Path, resume: Resume) -> dict[str, np.ndarray]:
    """Train one network; return its variables of `SCHEMA`.

    Networks that share a task see the same sequences in the same order, and where they are of one shape start alike.
    """
    task, test = job_task(job, prepared)
    spec = {"task": job.task, "replicate": job.replicate}
    (order,) = seeds(spec, 1)
    (initial,) = seeds(spec | {"cell": job.cell, "width": job.width}, 1)
    device = pick_device(job.device)
    with torch_seed(initial):
        model = initial_model(job, task)
        layers = getattr(model.cell, "layers", 1)
        check_memory(task, test.time_steps, job.batch_size, job.width * layers, device)
        model = model.to(device)
        batches = source(job, task, np.random.default_rng(order), device)
        recipe = recipe_of(job)
        total = recipe.total(batches.epoch)
        at = [total * k // job.records for k in range(1, job.records + 1)]
        parts = {"test": test, "validation": task.validation, "train": task.train}
        if parts["train"] is not None:
            parts["train"] = parts["train"].take(slice(job.probe_size or None))
        else:  # drawn sequences are all alike
            parts["train"] = test
        loss = task_loss(task)
        probed = tensors(parts["train"].take(slice(PROBED)), device)
        scales = "time_steps" in job.measures

        def row(model: Model) -> dict[str, float]:
            gains = _gains(model, task, *probed) if "gains" in job.measures else {}
            return _scores(model, task, parts) | gains

        def shares() -> list[np.ndarray]:
            return [counted(model.cell, _driven(model, probed[0]))] if scales else []

        before = shares()
        done = fit(
            model,
            batches,
            recipe,
            lambda model, inputs, targets: loss(model(inputs), targets),
            Record(row, at),
            resume=resume,
        )
        time_steps = before + shares()
    return {
        "status": done.status,
        "steps": done.steps,
        "records": len(done.rows),
        "step": np.array([row["step"] for row in done.rows], np.int64),
        **{
            f"{part}_{name}": np.array(done.column(f"{part}_{name}", 0))
            for part, sequences in parts.items()
            if sequences is not None
            for name in ("loss", "metric")
        },
        **{name: np.array(done.column(name, 0)) for name in GAINS if "gains" in job.measures},
        **({"time_step_share": np.stack(time_steps)} if scales else {}),
    }


def _scores(model: Model, task: Task, parts: Mapping[str, Part | None]) -> dict[str, float]:
    found = {}
    for part, sequences in parts.items():
        if sequences is not None:
            loss, metric = evaluate(model, task, sequences)
            found |= {f"{part}_loss": loss, f"{part}_metric": metric}
    return found


def _gains(model: Model, task: Task, inputs: Tensor, targets: Tensor) -> dict[str, float]:
    output, loss = copy.deepcopy(model.output).double(), task_loss(task)
    wide = targets.double() if targets.is_floating_point() else targets
    return state_gains(model.cell, _driven(model, inputs), lambda x: loss(output(x), wide) * len(x))


@torch.no_grad()
def _driven(model: Model, inputs: Tensor) -> Tensor:
    """Return what the cell reads, without dropout: measuring draws nothing that training would have drawn."""
    was_training = model.training
    driven = model.eval().drive(inputs)
    model.train(was_training)
    return driven


def job_task(job: Supervised, prepared: Path | None) -> tuple[Task, Part]:
    """Return a row's task and the sequences it is tested on; both depend on the task alone."""
    task_seed, test_seed = seeds({"task": job.task}, 2)
    task = make_task(job.task, prepared, np.random.default_rng(task_seed))
    if task.test is not None:
        return task, task.test
    if not job.test_size:
        raise ValueError(f"{task.name} draws its sequences; give test_size, how many to test on")
    return task, task.draw(job.test_size, np.random.default_rng(test_seed))


def initial_model(job: Supervised, task: Task) -> Model:
    """Return an untrained network, drawn from torch's generator."""
    return build(
        task,
        job.cell,
        job.width,
        hyper_parameters=job.hyper_parameters,
        start=job.start,
        head=job.head,
        read=job.read,
        embedding_width=job.embedding_width,
        train_initial_state=job.train_initial_state,
        dropout=Dropout(**{f"{name}_dropout": share for name, share in job.dropout}),
    )


def source(job: Supervised, task: Task, rng: np.random.Generator, device: torch.device) -> Batches:
    """Return where a row's batches come from."""
    if task.train is None:
        return Fresh(task.draw, job.batch_size, rng, device)
    return Epochs(task.train, job.batch_size, rng, device)


def recipe_of(job: Supervised) -> Recipe:
    """Return how a row is trained."""
    same = (
        "learning_rate",
        "optimiser",
        "options",
        "epochs",
        "steps",
        "drops",
        "drop_factor",
        "groups",
    )
    return Recipe(
        **{name: getattr(job, name) for name in same},
        gradient_clip=job.clip,
    )


def _describe(
    ds: xr.Dataset, designs: Sequence[Any], prepared: Path | None, found: Sequence[Mapping]
) -> None:
    """Fill in what the rows say, and what follows from their tasks, each made once and only one held at a time."""
    place = {name: i for i, name in enumerate(ds["run"].values.tolist())}
    first = (job for design in designs for job in design.jobs() if job.replicate == 0)
    for _, alike in groupby(sorted(first, key=tested_on), tested_on):
        jobs = list(alike)
        task, test = job_task(jobs[0], prepared)
        loss, metric = task.guess(test)
        for job in jobs:
            said = {
                "label": job.label,
                "task_label": job.task_label,
                "task": json.dumps(job.task, sort_keys=True),
                "substitute": task.substitute,
                "architecture": job.cell,
                "width": job.width,
                "learning_rate": job.learning_rate,
                "hyper_parameters": json.dumps(job.hyper_parameters, sort_keys=True),
                "parameters": sum(p.numel() for p in initial_model(job, task).cell.parameters()),
                "sequences": 0 if task.train is None else len(task.train),
                "test_sequences": len(test),
                "time_steps": test.time_steps,
                "metric": task.metric,
                "guess_loss": loss,
                "guess_metric": metric,
            }
            for name, value in said.items():
                ds[name].values[place[job.run]] = value


def tested_on(job: Supervised) -> tuple[str, int]:
    """Return what rows share that are trained on one task and tested on the same sequences of it."""
    return json.dumps(job.task, sort_keys=True), job.test_size


def _levels(designs: Sequence[Any]) -> dict[str, list]:
    return {
        "record": list(range(max(design.records for design in designs))),
        "stage": list(STAGES),
        "scale": list(range(SCALES)),
        "decade": DECADES[:-1].tolist(),
    }


EXPERIMENT = Experiment(
    name="supervised",
    grouped=True,
    design=Supervised,
    schema=SCHEMA,
    run=run,
    cells=lambda job: (job.cell,),
    datasets=lambda job: (job.task["dataset"],) if "dataset" in job.task else (),
    modules=lambda job: (task_module(job.task),),
    levels=_levels,
    fill=_describe,
    identity=lambda job: {
        name: value for name, value in job.values().items() if name not in ("label", "task_label")
    },
    size=lambda job: job.width * (job.epochs or job.steps),
    title=lambda job: f"{job.run}, replicate {job.replicate}",
    device=lambda job: job.device,
)
