"""Everything that is a row is trained here: a network on a task by a recipe, measured on the way, and the dataset that comes of a group."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import xarray as xr
from longrnn.cells import cell_class
from longrnn.probes.coadjoint import refuse_kinks
from longrnn.probes.time_steps import DECADES, SCALES, count_time_steps
from pydantic import model_validator
from torch import nn

from study.config.measurement import Measurement
from study.config.network import Network
from study.config.recipe import WEIGHTS, Group, Recipe
from study.config.run import RunConfig
from study.config.section import Positive, checked
from study.results.factors import factors
from study.results.joined import coordinates
from study.results.rows import LEVELS, MEASURED, schema
from study.results.schema import COMPLETED, DIVERGED, Schema
from study.tasks import Part, Task, check_task, find_task, make_task
from study.training.batches import Epochs, Fresh
from study.training.checkpoint import Checkpoint
from study.training.equilibria import stability
from study.training.job import Job, Results, seeds, torch_seed
from study.training.loop import train
from study.training.measures import WITH_RECORDS, Probe
from study.training.model import Model, build, check_memory, pick_device
from study.training.objectives import make_objective
from study.training.optimizers import parameter_groups
from study.training.record import Record
from study.training.scores import evaluate, sequence_scores, tensors

_NAMES = ("run", "network", "label", "task_label")
"""What people call a row: no part of what comes of it."""
_OF_LAST = {"coadjoint", "gains", "penalty", "adjoint_curve", "trajectories"}
"""What follows the loss back from the last state alone."""
_MADE = ("task", "hyper_parameters", "start_settings")
"""Fields that hold the settings of a task, a cell and its start, which a table gives by their own names."""
WHOLE = ("drops", "groups", "frozen", "measures", "options")
"""Fields whose value is a list or has keys; in all others a list are levels, and keys name levels or tasks."""


class Row(Job, Measurement, Network, Recipe):
    """What is trained on what, and how: one network, one task and one recipe, with every level in its place.

    `epochs` or `steps` say how long; of `records` equally spaced measurements the last is at the end, and with `first_record` one is before
    training. `probe_size` training sequences are measured (0: all). Where the task draws its sequences, `test_draws` fresh ones
    test all networks of the task, and `validation_draws` validate them. A training ends, as completed, when its validation loss is
    below `stop_below`. `objective` is what a step minimises: the loss, ``coadjoint`` with weight `kappa`, ``orthogonal`` with weight
    `orthogonality`. `measures` asks for more with every record, or before and after, of `measure_size` sequences; singular values are those
    of the last `stretch` steps (0: of all).
    """

    section: ClassVar = "trainings"
    run: str = ""
    network: str
    label: str
    task_label: str
    task: dict[str, Any]
    batch_size: Positive
    device: Literal["auto", "cpu", "cuda"] = "auto"

    @classmethod
    def fields(cls) -> frozenset[str]:
        """Return the names that a table may give."""
        return frozenset(cls.model_fields) - {*_NAMES, *_MADE}

    @classmethod
    def of(cls, config: RunConfig, where: str) -> "Row":
        """Return the row of a run; raises `ParameterError` naming the place in `params.yaml`."""
        names = {"run": config.run, "label": config.label, "task_label": config.task_label}
        more = {"network": config.network_name, "replicates": config.replicates}
        return checked(cls, config.flat() | names | more, where)

    @model_validator(mode="after")
    def _fits(self) -> "Row":
        check_task(self.task)
        cell_class(self.cell).checked(self.hyper_parameters, d=self.width)
        cell_class(self.cell).checked_start(self.start, self.start_settings)
        name, draws = self.task["task"], find_task(self.task).draws
        if draws and not self.test_draws:
            raise ValueError(f"{name} draws its sequences; give test_draws, how many to test on")
        if draws and self.epochs:
            raise ValueError(f"{name} draws its sequences without end; give steps")
        if draws and self.stop_below and not self.validation_draws:
            raise ValueError("stop_below looks at the validation loss; give validation_draws")
        if self.steps and self.records > self.steps:
            raise ValueError(f"{self.records} records do not fit {self.steps} steps; ask for fewer")
        dropout = self.output_dropout or self.hyper_parameters.get("dropout")
        if self.objective == "coadjoint" and dropout:
            raise ValueError("coadjoint knows no dropout of output or layers; drop it")
        if self.read and (no_use := sorted(_OF_LAST & {self.objective, *self.measures})):
            raise ValueError(f"{no_use[0]} asks what the last state alone tells; drop read")
        return self

    def identity(self) -> dict[str, Any]:
        return {name: value for name, value in self.values().items() if name not in _NAMES}

    def levels(self) -> dict[str, Any]:
        """Return what the row says of every factor: fields, keywords of its cell, settings of its task; nothing of the others."""
        named = self.fields() - {"cell", "device"}
        return {k: v for k, v in self.values().items() if k in named} | self.settings

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of its task, its start and its cell."""
        said = self.task | self.start_settings | self.hyper_parameters
        return {name: value for name, value in said.items() if name != "task"}

    datasets = property(lambda row: (row.task["dataset"],) if "dataset" in row.task else ())
    modules = property(lambda row: (find_task(row.task).make.__module__,))
    size = property(lambda row: row.width * (row.epochs or row.steps))
    title = property(lambda row: f"{row.run}, replicate {row.replicate}")

    @property
    def cells(self) -> tuple[str, ...]:
        with_adjoints = self.objective == "coadjoint" or "penalty" in self.measures
        return (self.cell, f"{self.cell}/adjoints") if with_adjoints else (self.cell,)

    @property
    def recipe(self) -> Recipe:
        """How it is trained, with the step factors of its cell's start."""
        trained = "cell.*" not in self.frozen
        factors_of = cell_class(self.cell).starts[self.start].step_factors if trained else {}
        groups = (Group(names=f"cell.{name}", factor=factor) for name, factor in factors_of.items())
        return self.at(groups=(*self.groups, *groups))

    def compute(
        self, prepared: Path | None, checkpoint: Checkpoint | None
    ) -> dict[str, np.ndarray]:
        """Train one network; return its variables of `study.results.rows`.

        Networks that share a task see the same sequences in the same order, and where they are of one shape start alike. A loss, a gradient of the
        coadjoint objective or a measurement that is not finite ends the training as diverged; what was recorded is kept.
        """
        task, parts = row_task(self, prepared)
        _check_target(self, task)
        test = parts["test"]
        spec = {"task": self.task, "replicate": self.replicate}
        (order,) = seeds(spec, 1)
        (initial,) = seeds(spec | {"cell": self.cell, "width": self.width}, 1)
        device = pick_device(self.device)
        with torch_seed(initial):
            model = build(task, self)
            layers = getattr(model.cell, "layers", 1)
            check_memory(task, test.time_steps, self.batch_size, self.width * layers, device)
            model = model.to(device)
            trained, seen = frozen_states(self, model, task, parts)
            rng, size = np.random.default_rng(order), self.batch_size
            if task.train is None:
                batches = Fresh(lambda: tensors(task.draw(size, rng), device), rng)
            else:
                batches = Epochs(seen["train"], size, rng, device)
            total = self.recipe.total(batches.epoch)
            if self.stop_below and "validation" not in seen:
                raise ValueError(f"stop_below looks at the validation loss; {task.name} has none")
            weight = getattr(self, WEIGHTS[self.objective], 0.0)
            probe = Probe(self, task, model, parts["train"], test, device)
            before, _ = probe.ends()
            first = 0 if self.first_record else 1
            record = Record(
                lambda trained: _scores(self, trained, task, seen) | probe.asked(*WITH_RECORDS),
                [max(min(k, 1), total * k // self.records) for k in range(first, self.records + 1)],
                keep=_merit(self, task, seen),
                # Without a bound no loss is below it.
                stop=lambda one: self.stop_below and one["validation_loss"] < self.stop_below,
            )
            done = train(
                trained,
                batches,
                make_objective(self.objective, task, weight),
                self.recipe,
                record=record,
                checkpoint=checkpoint,
                check="gradients" if self.objective == "coadjoint" else "loss",
            )
            after, sound = probe.ends() if done.status == COMPLETED else ({}, True)
            if not sound:
                done.status = DIVERGED
            kept = {}
            if done.best is not None:
                trained.load_state_dict(done.best[1])
                scores = sequence_scores(trained, task, seen["test"])
                kept = {"sequence_score": scores} | probe.asked("trajectories")
        loss, metric = task.guess(test)
        return {
            "status": done.status,
            "steps": done.step,
            "records": len(done.rows),
            **{name: np.array(done.column(name)) for name in (done.rows or [{}])[0]},
            **_stages(before, after),
            **kept,
            "parameters": sum(p.numel() for p in model.cell.parameters()),
            "sequences": 0 if task.train is None else len(task.train),
            "test_sequences": len(test),
            "time_steps": test.time_steps,
            "substitute": np.array(task.substitute),
            "metric": np.array(self.metric or task.metric),
            "guess_loss": loss,
            "guess_metric": loss if self.metric else metric,
        }

    @classmethod
    def schema(cls, designs: Sequence["Row"]) -> Schema:
        return schema([m for m in MEASURED if any(m in row.measures for row in designs)])

    @classmethod
    def dimensions(cls, designs: Sequence["Row"], results: Results) -> dict[str, list]:
        def longest(name: str, axis: int = 0) -> list[int]:
            sizes = [one[name].shape[axis] for one in results if name in one]
            return list(range(max([1, *sizes])))

        return {
            **LEVELS,
            "scale": list(range(SCALES)),
            "decade": DECADES[:-1].tolist(),
            "record": longest("step"),
            "sequence": longest("state_norm"),
            "time": [t + 1 for t in longest("state_norm", 1)],
            "test_sequence": longest("sequence_score"),
        }

    @classmethod
    def finish(cls, ds: xr.Dataset, designs: Sequence["Row"], results: Results) -> xr.Dataset:
        """Add what the rows say of themselves, their factors as coordinates."""
        names = {"task": "task_label", "architecture": "cell"}
        for name in ("network", "label", "task", "architecture", "width", "learning_rate"):
            ds[name].values[:] = [getattr(row, names.get(name, name)) for row in designs]
        ds["task_settings"].values[:] = [json.dumps(row.task, sort_keys=True) for row in designs]
        return ds.assign_coords(factors(coordinates(designs)))


def row_task(row: Row, prepared: Path | None) -> tuple[Task, dict[str, Part]]:
    """Return a row's task and what its networks are recorded on; both depend on the task alone.

    Where sequences are drawn they are all alike: the test's stand for the training's too.
    """
    rng, for_test, for_validation = map(np.random.default_rng, seeds({"task": row.task}, 3))
    task = make_task(row.task, prepared, rng)
    if task.draw:
        test = task.draw(row.test_draws, for_test)
        more = row.validation_draws
        validation = task.draw(more, for_validation) if more else None
        parts = {"test": test, "validation": validation, "train": test}
    else:
        train = task.train.take(slice(row.probe_size or None))
        parts = {"test": task.test, "validation": task.validation, "train": train}
    return task, {name: part for name, part in parts.items() if part is not None}


def _head_alone(row: Row) -> bool:
    """Return whether a reservoir's head is all that is trained: nothing before the last states changes."""
    own = row.hyper_parameters.get("dropout")
    changing = row.embedding_width or row.input_dropout or row.output_dropout or own
    return "cell.*" in row.frozen and not changing


def frozen_states(
    row: Row, model: Model, task: Task, parts: Mapping[str, Part]
) -> tuple[nn.Module, dict[str, Part]]:
    """Return what is trained and on what: of a reservoir the head alone, on the last states that the fixed network reaches."""
    seen = dict(parts) | ({} if task.train is None else {"train": task.train})
    if not _head_alone(row) or task.train is None or task.target == "steps":
        return model, seen | {"train_probe": parts["train"]}
    states = {name: last_states(model, part) for name, part in seen.items()}
    return model.output, states | {"train_probe": states["train"].take(slice(len(parts["train"])))}


@torch.no_grad()
def last_states(model: Model, part: Part, batch_size: int = 500) -> Part:
    """Return the last states that a network reaches, (n, hidden), in place of the inputs: what a reservoir's head learns from."""
    taken = (part.take(slice(at, at + batch_size)) for at in range(0, len(part), batch_size))
    batches = (tensors(one, model.output.weight.device)[0] for one in taken)
    states = [model.seen(model.cell(model.eval().drive(batch))[1]) for batch in batches]
    return Part(torch.cat(states).cpu().numpy(), part.targets)


def _scores(row: Row, model: nn.Module, task: Task, seen: Mapping[str, Part]) -> dict[str, float]:
    found = {}
    for part, of in (("test", "test"), ("validation", "validation"), ("train", "train_probe")):
        if of in seen:
            loss, metric = evaluate(model, task, seen[of])
            found |= {f"{part}_loss": loss, f"{part}_metric": loss if row.metric else metric}
    return found


def _merit(row: Row, task: Task, seen: Mapping[str, Part]) -> Callable[[Mapping], tuple]:
    """Return what is largest at the record that is kept: the best validation metric's, the first of equals; else the last."""
    if "validation" not in seen:
        return lambda one: (one["step"],)
    sign = 1 if task.classifies and not row.metric else -1
    latest = 1 if "trajectories" in row.measures else -1  # the text's figure shows the latest
    return lambda one: (sign * one["validation_metric"], latest * one["step"])


def _stages(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> dict:
    """Return what was measured before and after training, one above the other; ``nan`` where a training did not come to its end."""
    nothing = {k: np.full_like(v, np.nan, dtype=float) for k, v in (before | after).items()}
    return {k: np.stack([(nothing | stage)[k] for stage in (before, after)]) for k in nothing}


def _check_target(row: Row, task: Task) -> None:
    if row.metric and task.classifies:
        raise ValueError(f"{row.metric} is a score of values, and {task.name} asks for classes")
    of_classes = {"coadjoint", "penalty", "trajectories", "adjoint_norms"}
    unable = of_classes | (_OF_LAST if task.target == "steps" else set())
    if task.target != "class" and (no_use := sorted(unable & {row.objective, *row.measures})):
        kind = "class" if no_use[0] in of_classes else "target"
        raise ValueError(f"{no_use[0]} needs a task with one {kind} a sequence, not {task.name}")


def check_network(row: Row) -> None:
    """Build a row's network, for inputs as its task draws them, or else one more than the state has numbers.

    The `ValueError` says what cannot be built, or what of it cannot be trained. What a prepared data set asks for only `Row.compute` can see.
    """
    if find_task(row.task).draws:
        task = make_task(row.task, None, np.random.default_rng(0))
        _check_target(row, task)
    else:
        tokens = row.embedding_width > 0
        inputs = np.zeros((1, 1), int) if tokens else np.zeros((1, 1, row.width + 1), np.float32)
        kind, part = "tokens" if tokens else "series", Part(inputs, np.zeros(1, int))
        task = Task(name="a", kind=kind, target="class", outputs=2, vocabulary_size=1, train=part)
    with torch_seed(np.random.SeedSequence(0)):
        model = build(task, row)
    shape = getattr(getattr(model.cell, "W", None), "shape", ())
    if row.objective == "orthogonal" and shape != (row.width, row.width):
        raise ValueError(f"{row.cell} has no recurrent matrix W (d, d) to be kept orthogonal")
    frozen, asked = "cell.*" in row.frozen, {row.objective, *row.measures}
    if row.objective == "coadjoint":
        refuse_kinks(model.cell)
    for measure, of in (("time_steps", count_time_steps), ("eigenvalues", stability)):
        if measure in asked:
            of(model.cell, torch.zeros(1, 1, model.cell.input_size))
    if frozen and (no_use := sorted(asked & {"coadjoint", "orthogonal", "penalty"})):
        raise ValueError(f"{no_use[0]} needs a cell that is trained; all of this one is frozen")
    parameter_groups(model.output if _head_alone(row) else model, row.recipe)
