"""The factorial experiment: every architecture at every task, and what happens to its gradients.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 1.4 and Table 1.2. An attempt is
one treatment and a replicate. Its random numbers, for the permutation, the noise, the initial weights and the order of the
batches, follow from its own levels alone, so it comes out the same whatever ran beside it.

Networks start, and epochs leave out a last, smaller batch, as in the author's public program (see `AUTHOR`).
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from study.config.network import Architecture, Network
from study.config.recipe import Group, Recipe
from study.config.section import Factor, LearningRate, Positive, Size
from study.results.factorial import ATTEMPT, FACTORIAL, MEASUREMENTS, SPLITS
from study.tasks import Task, load_prepared
from study.tasks.variations import DRAWS, NOISES, ORDERS, SPREADS, vary
from study.training import loop
from study.training.batched import Run, train_batched
from study.training.batches import Epochs
from study.training.checkpoint import Checkpoint
from study.training.job import Job, seeds_of, torch_seed
from study.training.measures import measure
from study.training.model import Model, build, pick_device
from study.training.objectives import make_objective
from study.training.record import Record, every_epoch
from study.training.state import RunState

AUTHOR: Mapping[str, dict[str, Any]] = {
    "antisymmetric": {
        "hyper_parameters": {"epsilon": 0.01, "gamma": 0.01},
        "train_initial_state": True,
    },
    "lipschitz": {
        "hyper_parameters": {"beta": 0.75, "gamma": 0.001, "epsilon": 0.03},
        "train_initial_state": True,
    },
    "exponential": {"train_initial_state": True},
    "unicornn": {"hyper_parameters": {"layers": 2, "dt": 0.03, "alpha": 0.9}, "read": "all"},
}
"""What the author's public program, libe-community-examples, folder rnn (2022), sets of a network beside its weights
(`study.training.model.Network`). It is older than the dissertation, whose text names none of it. Its UnICORNN reads all four states out."""
AUTHORS_GROUPS = {
    "exponential": (Group(names="cell.parametrizations.B.*", factor=0.1, optimiser="sgd"),)
}
"""In that program the matrix A of the exponential RNN takes plain steps of a tenth of the learning rate."""


class Factorial(Job):
    """The design (Table 1.2), and how its attempts are trained.

    Sizes of 0 mean "all of the data set"; `probe_size` sequences of either split are measured after an epoch. `pool`, `words`
    and `noise_inputs` make the tasks shorter than the text's; `permutation`, `spread` and `sigmoid` make them as the author's program does
    where it differs from the text, see `study.tasks.variations.vary`.

    Attempts that differ in learning rate, length, order, kind of noise and replicate alone are trained `together` in one pass, at most so
    many. This changes their last digits, by rounding, and is part of no result but of the engine's name. 0 is `PLACES` on a
    GPU and 1 on a CPU, where one process per core is faster.
    """

    section: ClassVar = "factorial"
    held: ClassVar = FACTORIAL
    architecture: Factor[Architecture]
    width: Factor[Positive]
    learning_rate: Factor[LearningRate]
    training_length: Factor[Positive]
    dataset: Factor[str]
    order: Factor[Literal[ORDERS]]
    noise: Factor[Literal[NOISES]]
    train_size: Size
    test_size: Size
    probe_size: Size
    pool: Positive = 1
    words: Size = 0
    noise_inputs: Size = 0
    permutation: Literal[DRAWS] = "attempt"
    spread: Literal[SPREADS] = "floor"
    sigmoid: bool = False
    batch_size: Positive
    probe_batch_size: Positive
    embedding_width: Positive
    device: Literal["auto", "cpu", "cuda"] = "auto"
    together: Annotated[Size, Field(exclude=True)] = 1

    cells = property(lambda job: (job.architecture,))
    datasets = property(lambda job: (job.dataset,))
    size = property(lambda job: job.training_length * (3 if job.noise != "none" else 1))

    @property
    def title(self) -> str:
        return (
            f"{self.architecture} {self.width} on {self.dataset} {self.order} {self.noise}, rate {self.learning_rate}, "
            f"{self.training_length} epochs, replicate {self.replicate + 1}"
        )

    @property
    def places(self) -> int:
        """How many attempts share a pass; raises `ValueError` for networks that cannot."""
        places = self.together or (PLACES if self.on == "cuda" else 1)
        if places > 1 and self.on == "cpu" and self.width % ALIGNED:
            raise ValueError(
                f"expected a width that is a multiple of {ALIGNED} side by side on a CPU, got {self.width}; take such a width, or "
                "train one by one"
            )
        return places

    @property
    def batch_key(self) -> str:
        varying = ("learning_rate", "training_length", "order", "replicate")
        shared = {name: value for name, value in self.values().items() if name not in varying}
        # Either kind of noise is as long.
        return json.dumps(shared | {"noise": self.noise != "none"}, sort_keys=True)

    @staticmethod
    def compute_together(
        jobs: Sequence["Factorial"], prepared: Path, checkpoints: Sequence[Checkpoint | None]
    ) -> list[dict[str, np.ndarray]]:
        one = jobs[0]
        data = load_prepared(prepared / f"{one.dataset}.nc", one.train_size, one.test_size)
        return train(jobs, data, checkpoints)

    def varied(self, data: Task) -> Task:
        """Return the attempt's own variation of its data set."""
        (seed,) = seeds_of(self, ATTEMPT, 1)
        names = ("order", "noise", "noise_inputs", "pool", "words", "permutation", "spread")
        settings = {name: getattr(self, name) for name in (*names, "sigmoid")}
        return vary(data, np.random.default_rng(seed), **settings)

    @property
    def inner(self) -> dict[str, list]:
        return {"split": list(SPLITS), "epoch": list(range(1, max(self.training_length) + 1))}


PLACES = 50
"""Attempts in a pass on a GPU: half of those that differ in rate, order and replicate in the published design, whose states of 2,024
steps at width 256 take some 30 GB."""
ALIGNED = 16
"""Numbers of whose multiple the recurrent dimension is on a CPU: a library rounds a product by where in memory its matrices begin."""


def train(
    jobs: Sequence[Factorial], data: Task, checkpoints: Sequence[Checkpoint | None]
) -> list[dict[str, np.ndarray]]:
    """Train attempts of one shape on a data set that is not yet varied: one, or in one pass where it has several places.

    Adam, cross entropy, batches drawn without replacement. A loss that is not finite, in a batch or when measured, ends its
    attempt: status, epochs completed and their measurements are kept, see `_measurements`.
    """
    tasks = [job.varied(data) for job in jobs]
    runs = list(map(_run, jobs, tasks, checkpoints))
    objective = make_objective("plain", data)
    if jobs[0].places > 1:
        states = train_batched(runs, objective, pass_size=jobs[0].places)
    else:
        states = [
            loop.train(
                run.model,
                run.batches,
                objective,
                run.recipe,
                record=run.record,
                checkpoint=run.checkpoint,
            )
            for run in runs
        ]
    return list(map(_measurements, jobs, tasks, runs, states))


def _run(job: Factorial, task: Task, checkpoint: Checkpoint | None) -> Run:
    _, initial, order = seeds_of(job, ATTEMPT, 3)
    device = pick_device(job.device)
    with torch_seed(initial):
        model = build(task, network(job)).to(device)
    rng = np.random.default_rng(order)
    batches = Epochs(task.train, job.batch_size, rng, device, drop_last=True)
    recipe = Recipe(
        learning_rate=job.learning_rate,
        epochs=job.training_length,
        groups=AUTHORS_GROUPS.get(job.architecture, ()),
        options={"eps": 1e-7},  # Keras's
    )
    recorded = every_epoch(batches.epoch, recipe.total(batches.epoch))
    record = Record(partial(_measure_splits, task, job), recorded)
    return Run(model, batches, recipe, record, checkpoint)


def network(job: Factorial) -> Network:
    """Return what an attempt trains."""
    return Network(
        cell=job.architecture,
        width=job.width,
        start="author",
        head="glorot",
        embedding_width=job.embedding_width,
        **AUTHOR.get(job.architecture, {}),
    )


def _measure_splits(task: Task, job: Factorial, model: Model) -> dict[str, float]:
    """Return each measurement of each split; anything undefined is ``nan``, an adjoint of zero ``-inf``."""
    sizes = {"batch_size": job.probe_batch_size, "size": job.probe_size}
    return {
        f"{name} {split}": value
        for split in SPLITS
        for name, value in measure(model, getattr(task, split), **sizes).items()
    }


def _measurements(job: Factorial, task: Task, run: Run, done: RunState) -> dict[str, np.ndarray]:
    """Return what came of an attempt: each of `MEASUREMENTS`, (split, epoch), ``nan`` where an epoch was not completed.

    And what follows from its task: labels, sizes, sequence length, parameter count.
    """
    column, length = done.column, job.training_length
    measured = {
        name: np.array([column(f"{name} {split}", length) for split in SPLITS])
        for name in MEASUREMENTS
    }
    sizes = [len(getattr(task, split)) for split in SPLITS]
    # Without the initial state, which only some ways to start train.
    weights = [p for name, p in run.model.cell.named_parameters() if "x0" not in name]
    return measured | {
        "status": done.status,
        "epochs_completed": len(done.rows),
        "classes": max(task.outputs, 2),  # two classes may have one output
        "largest_class": np.bincount(task.test.targets).max() / len(task.test),
        "examples": [min(job.probe_size or size, size) for size in sizes],
        "time_steps": task.train.time_steps,
        "parameters": sum(p.numel() for p in weights),
    }
