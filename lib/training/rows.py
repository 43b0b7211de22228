"""Everything that is a row is trained here: a network on a task by a recipe, measured on the way, and the dataset that comes of a group."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from lib.cells import cell_class
from lib.probes.adjoint import adjoint_norms
from lib.probes.lyapunov import singular_values
from lib.probes.state_gains import state_gains
from lib.probes.time_steps import DECADES, SCALES, counted
from lib.results.rows import ENDS, MEASURED, POSITIONS, STAGES, factors, schema
from lib.results.schema import COMPLETED, DIVERGED
from lib.tasks import Part, Task, make_task, task_draws
from lib.training.batches import Batches, Epochs, Fresh
from lib.training.experiment import Experiment
from lib.training.fit import Group, Recipe, Record, fit, grouped
from lib.training.limits import check_memory
from lib.training.measure import measure
from lib.training.model import Model, build, evaluate, likeliest, pick_device, task_loss, tensors
from lib.training.objectives import WEIGHTS, class_losses, last_states, objective, penalised
from lib.training.resume import Resume
from lib.training.row import Row, coordinates
from lib.training.seeds import seeds, torch_seed

_COUNTING = ("lu_rnn", "inverse_rnn")
"""Cells whose second state counts steps and is no memory."""


def run(row: Row, prepared: Path | None, resume: Resume) -> dict[str, np.ndarray]:
    """Train one network; return its variables of `lib.results.rows`.

    Networks that share a task see the same sequences in the same order, and where they are of one shape start alike. A loss, a gradient or
    a measurement that is not finite ends the training as diverged; what was recorded is kept.
    """
    task, parts = row_task(row, prepared)
    test = parts["test"]
    spec = {"task": row.task, "replicate": row.replicate}
    (order,) = seeds(spec, 1)
    (initial,) = seeds(spec | {"cell": row.cell, "width": row.width}, 1)
    device = pick_device(row.device)
    with torch_seed(initial):
        model = build(task, row)
        layers = getattr(model.cell, "layers", 1)
        check_memory(task, test.time_steps, row.batch_size, row.width * layers, device)
        model = model.to(device)
        trained, seen = _frozen_states(row, model, task, parts)
        batches = source(row, task, seen["train"], np.random.default_rng(order), device)
        recipe = recipe_of(row)
        total = recipe.total(batches.epoch)
        first = 0 if row.first_record else 1
        probe = Probe(row, task, model, parts["train"], test, device)
        before, _ = _measured(probe)
        done = fit(
            trained,
            batches,
            recipe,
            objective(row.objective, task, getattr(row, WEIGHTS[row.objective] or "kappa") or 0.0),
            Record(
                lambda trained: _scores(row, trained, task, seen) | probe.record(),
                [total * k // row.records for k in range(first, row.records + 1)],
                keep=_merit(row, task, seen),
                # Without a bound no loss is below it.
                stop=lambda one: row.stop_below and one["validation_loss"] < row.stop_below,
            ),
            finite="gradients" if row.objective == "coadjoint" else "loss",
            resume=resume,
        )
        after, sound = _measured(probe) if done.status == COMPLETED else ({}, True)
        if not sound:
            done.status = DIVERGED
        kept = {}
        if done.kept is not None:
            trained.load_state_dict(done.kept[1])
            kept = {"sequence_score": sequence_scores(trained, task, seen["test"])} | probe.follow()
    columns = [name for name in (done.rows[0] if done.rows else ()) if name != "step"]
    loss, metric = task.guess(test)
    return {
        "status": done.status,
        "steps": done.steps,
        "records": len(done.rows),
        "step": np.array([one["step"] for one in done.rows], np.int64),
        **{name: np.array(done.column(name, 0)) for name in columns},
        **_stages(before, after),
        **kept,
        "parameters": sum(p.numel() for p in model.cell.parameters()),
        "sequences": 0 if task.train is None else len(task.train),
        "test_sequences": len(test),
        "time_steps": test.time_steps,
        "substitute": np.array(task.substitute),
        "metric": np.array(row.metric or task.metric),
        "guess_loss": loss,
        "guess_metric": loss if row.metric else metric,
    }


def row_task(row: Row, prepared: Path | None) -> tuple[Task, dict[str, Part]]:
    """Return a row's task and what its networks are recorded on; both depend on the task alone.

    Where sequences are drawn they are all alike: the test's stand for the training's too.
    """
    task_seed, test_seed, validation_seed = seeds({"task": row.task}, 3)
    task = make_task(row.task, prepared, np.random.default_rng(task_seed))
    parts = {"test": task.test, "validation": task.validation, "train": task.train}
    if task.test is None:
        parts["test"] = task.draw(row.test_draws, np.random.default_rng(test_seed))
        if row.validation_draws:
            rng = np.random.default_rng(validation_seed)
            parts["validation"] = task.draw(row.validation_draws, rng)
    if task.train is None:
        parts["train"] = parts["test"]
    else:
        parts["train"] = task.train.take(slice(row.probe_size or None))
    return task, {name: part for name, part in parts.items() if part is not None}


def source(
    row: Row, task: Task, train: Part, rng: np.random.Generator, device: torch.device
) -> Batches:
    """Return where a row's batches come from."""
    if task.train is None:
        return Fresh(lambda: tensors(task.draw(row.batch_size, rng), device), rng)
    return Epochs(train, row.batch_size, rng, device)


def recipe_of(row: Row) -> Recipe:
    """Return how a row is trained, with the step factors of its cell's start."""
    said = {name: getattr(row, name) for name in Recipe.model_fields}
    factors_of = cell_class(row.cell).starts[row.start].step_factors
    said["groups"] += tuple(
        Group(names=f"cell.{name}", factor=factor, optimiser=row.optimiser)
        for name, factor in factors_of.items()
    )
    return Recipe(**said)


def _frozen_states(
    row: Row, model: Model, task: Task, parts: Mapping[str, Part]
) -> tuple[nn.Module, dict[str, Part]]:
    """Return what is trained and on what: of a reservoir the head alone, on the last states that the fixed network reaches."""
    seen = dict(parts) | ({} if task.train is None else {"train": task.train})
    if "cell.*" not in row.frozen or task.train is None or task.target == "steps":
        return model, seen | {"train_probe": parts["train"]}
    states = {name: last_states(model, part) for name, part in seen.items()}
    return model.output, states | {"train_probe": states["train"].take(slice(len(parts["train"])))}


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


@torch.no_grad()
def sequence_scores(
    model: nn.Module, task: Task, part: Part, *, batch_size: int = 100
) -> np.ndarray:
    """Return for each sequence the share of its targets found, or its mean squared error, float16."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    scores = []
    for start in range(0, len(part), batch_size):
        inputs, targets = tensors(part.take(slice(start, start + batch_size)), device)
        predicted = model(inputs)
        if task.classifies:
            each = (likeliest(predicted) == targets).double()
        else:
            each = (predicted - targets).double().square()
        scores.append(each.reshape(len(each), -1).mean(1))
    model.train(was_training)
    found = torch.cat(scores).cpu().numpy()
    return np.clip(found, 0, np.finfo(np.float16).max).astype(np.float16)


class Probe:
    """What is measured beside losses and metrics, as far as a row asks for it."""

    def __init__(
        self, row: Row, task: Task, model: Model, train: Part, test: Part, device: torch.device
    ) -> None:
        self._row, self._task, self._model, self._test = row, task, model, test
        measured = slice(row.measure_size or None)
        self._trained_on = tensors(train.take(measured), device)
        self._tested = tensors(test.take(measured), device)

    def _asked(self, *methods: Callable[[], dict]) -> dict:
        """Return what the methods return whose names, but for the dash, are among the row's measures."""
        return {
            name: value
            for method in methods
            if method.__name__[1:] in self._row.measures
            for name, value in method().items()
        }

    def record(self) -> dict[str, float]:
        """Return what is measured with every record."""
        return self._asked(self._gains, self._penalty)

    def ends(self) -> dict[str, np.ndarray]:
        """Return what is measured before and after training."""
        return self._asked(
            self._time_steps, self._adjoint_norms, self._adjoint_curve, self._singular_values
        )

    def follow(self) -> dict[str, np.ndarray]:
        """Return the norms of states and adjoints of the kept network, (sequence, time)."""
        return self._asked(self._trajectories)

    def _gains(self) -> dict[str, float]:
        inputs, targets = self._trained_on
        u = driven(self._model, inputs)
        return state_gains(self._model.cell, u, self._summed_loss(targets))

    def _penalty(self) -> dict[str, float]:
        all_tested = tensors(self._test, self._tested[0].device)
        return {"penalty": penalised(self._model, *all_tested, 0.0).penalty.item()}

    def _time_steps(self) -> dict[str, np.ndarray]:
        u = driven(self._model, self._trained_on[0])
        return {"time_step_share": counted(self._model.cell, u)}

    def _adjoint_norms(self) -> dict[str, np.ndarray]:
        norms = measure(self._model, self._test, batch_size=128, size=self._row.measure_size)
        return {
            f"adjoint_norm_{end}": np.array(norms[f"adjoint_{end}_full"])
            for end in ("first", "last")
        }

    def _adjoint_curve(self) -> dict[str, np.ndarray]:
        inputs, targets = self._tested
        u = driven(self._model, inputs)
        times = [max(1, round(position * len(u))) for position in POSITIONS]
        norms = adjoint_norms(self._model.cell, u, self._summed_loss(targets), times=times)
        medians = norms.readout.median(dim=1).values.tolist()
        by_time = dict(zip(norms.times, medians, strict=True))
        return {"adjoint_curve": np.array([by_time[t] for t in times])}

    def _singular_values(self) -> dict[str, np.ndarray]:
        u = driven(self._model, self._tested[0])
        parts = (0,) if self._row.cell in _COUNTING else None
        start = max(0, len(u) - (self._row.stretch or len(u)))
        values = singular_values(self._model.cell, u, parts=parts, start=start).log10()
        return {"singular_values": np.array([values[:, end].mean().item() for end in (0, -1)])}

    def _trajectories(self) -> dict[str, np.ndarray]:
        inputs, labels = self._tested
        model = copy.deepcopy(self._model).double().requires_grad_(False)
        u = model.drive(inputs.double())
        states, _ = model.cell(u)
        adjoints = adjoint_norms(model.cell, u, lambda x: class_losses(model, labels, x).sum())
        return {
            "state_norm": states.norm(dim=2).T.numpy(),
            "adjoint_norm": adjoints.readout.T.numpy(),
        }

    def _summed_loss(self, targets: Tensor) -> Callable[[Tensor], Tensor]:
        output = copy.deepcopy(self._model.output).double().requires_grad_(False)
        wide = targets.double() if targets.is_floating_point() else targets
        loss = task_loss(self._task)
        return lambda x: loss(output(x), wide) * len(x)


@torch.no_grad()
def driven(model: Model, inputs: Tensor) -> Tensor:
    """Return what the cell reads, without dropout: measuring draws nothing that training would have drawn."""
    was_training = model.training
    found = model.eval().drive(inputs)
    model.train(was_training)
    return found


def check_network(row: Row) -> None:
    """Build a row's network as PyTorch's shapes alone, for inputs as its task draws them, or else as many as the state has numbers.

    Raises
    ------
    ValueError
        What cannot be built, or what of it cannot be trained.
    """
    if task_draws(row.task):
        task = make_task(row.task, None, np.random.default_rng(0))
    else:
        tokens, every = row.embedding_width > 0, row.read == "every"
        part = Part(
            np.zeros((1, 1) if tokens else (1, 1, row.width), int if tokens else np.float32),
            np.zeros((1, 1) if every else 1, int),
        )
        task = Task(
            name=row.task["task"],
            kind="tokens" if tokens else "series",
            target="steps" if every else "class",
            outputs=2,
            vocabulary_size=1,
            train=part,
        )
    try:
        with torch.device("meta"):
            model = build(task, row)
    except RuntimeError:  # weights whose start looks at their values
        with torch_seed(np.random.SeedSequence(0)):
            model = build(task, row)
    shape = getattr(getattr(model.cell, "W", None), "shape", ())
    if row.objective == "orthogonal" and shape != (row.width, row.width):
        raise ValueError(f"{row.cell} has no recurrent matrix W (d, d) to be kept orthogonal")
    reservoir = "cell.*" in row.frozen
    grouped(model.output if reservoir else model, recipe_of(row))


def _measured(probe: Probe) -> tuple[dict[str, np.ndarray], bool]:
    """Return what is measured now, and whether all of it is a number."""
    try:
        found = probe.ends()
    except ArithmeticError:  # such as a matrix that has become singular
        return {}, False
    unused = "time_step_share"  # of layers that a cell has not
    return found, not any(np.isnan(v).any() for name, v in found.items() if name != unused)


def _stages(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> dict:
    """Return what was measured before and after training, one above the other; ``nan`` where a training did not come to its end."""
    known = before | after
    nothing = {name: np.full_like(one, np.nan, dtype=np.float64) for name, one in known.items()}
    return {
        name: np.stack([before.get(name, nothing[name]), after.get(name, nothing[name])])
        for name in known
    }


def _levels(rows: Sequence[Row], results: Sequence[Mapping]) -> dict[str, list]:
    def longest(name: str, axis: int = 0) -> list[int]:
        sizes = [one[name].shape[axis] for one in results if name in one]
        return list(range(max(sizes, default=1)))

    return {
        "record": longest("step"),
        "stage": list(STAGES),
        "scale": list(range(SCALES)),
        "decade": DECADES[:-1].tolist(),
        "position": list(POSITIONS),
        "end": list(ENDS),
        "sequence": longest("state_norm"),
        "time": [t + 1 for t in longest("state_norm", 1)],
        "test_sequence": longest("sequence_score"),
    }


def _described(ds: xr.Dataset, rows: Sequence[Row], results: Sequence[Mapping]) -> xr.Dataset:
    """Add what the rows say of themselves, their factors as coordinates."""
    said = {
        "network": [row.network for row in rows],
        "label": [row.label for row in rows],
        "task": [row.task_label for row in rows],
        "task_settings": [json.dumps(row.task, sort_keys=True) for row in rows],
        "architecture": [row.cell for row in rows],
        "width": [row.width for row in rows],
        "learning_rate": [row.learning_rate for row in rows],
    }
    for name, values in said.items():
        ds[name].values[:] = values
    return ds.assign_coords(factors(coordinates(rows)))


ROWS = Experiment(
    name="trainings",
    run=run,
    schema=lambda rows: schema([m for m in MEASURED if any(m in row.measures for row in rows)]),
    levels=_levels,
    finish=_described,
)
