"""The factorial experiment: every architecture at every task, and what happens to its gradients.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 1.4 and Table 1.2. An attempt is
one treatment and a replicate. Its random numbers, for the permutation, the noise, the initial weights and the order of the
batches, follow from its own levels alone, so it comes out the same whatever ran beside it.

How networks start is a choice: ``author`` is what the author's public program does (see `AUTHOR`), ``text`` what the papers of the
cells say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
import xarray as xr

from lib.cells import make_cell
from lib.results.factorial import ATTEMPT, FACTORIAL, MEASUREMENTS, SPLITS
from lib.run.params import Factor, LearningRate, Positive, Size
from lib.tasks import Task, load_prepared
from lib.tasks.variations import (
    DRAWS,
    NOISES,
    ORDERS,
    SPREADS,
    one_output,
    smaller,
    time_steps,
    vary,
)
from lib.training.batches import Epochs
from lib.training.experiment import Experiment, join
from lib.training.fit import (
    Group,
    Objective,
    Recipe,
    Record,
    Training,
    every_epoch,
    fit,
    fit_together,
)
from lib.training.job import Architecture, Job
from lib.training.limits import check_copies
from lib.training.measure import measure
from lib.training.model import Model, build, pick_device, task_loss
from lib.training.outcome import Fit
from lib.training.resume import Resume
from lib.training.seeds import seeds_of, torch_seed
from lib.training.together import check_width


@dataclass(frozen=True)
class Start:
    """What a way to start sets beside the weights of a cell."""

    hyper_parameters: Mapping[str, object] = field(default_factory=dict)
    read: str = "last"
    train_initial_state: bool = False
    groups: tuple[Group, ...] = ()


AUTHOR = MappingProxyType(
    {
        "antisymmetric": Start({"epsilon": 0.01, "gamma": 0.01}, train_initial_state=True),
        "lipschitz": Start(
            {"beta": 0.75, "gamma": 0.001, "epsilon": 0.03}, train_initial_state=True
        ),
        "exponential": Start(
            train_initial_state=True,
            groups=(Group(names="cell.parametrizations.B.*", factor=0.1, optimiser="sgd"),),
        ),
        "unicornn": Start({"layers": 2, "dt": 0.03, "alpha": 0.9}, read="all"),
    }
)
"""Constants of the author's public program, libe-community-examples, folder rnn (2022). It is older than the dissertation, whose text
names none of them. Its UnICORNN reads all four states out; the matrix A of its exponential RNN takes plain steps of a tenth of
the learning rate."""


class Factorial(Job):
    """The design (Table 1.2), and how its attempts are trained.

    Sizes of 0 mean "all of the data set"; `probe_size` sequences of either split are measured after an epoch. `pool`, `words`
    and `noise_inputs` make the tasks shorter than the text's; `permutation`, `spread` and `sigmoid` make them as the author's program does
    where it differs from the text, see `lib.tasks.variations.vary`. With `drop_last` the last, smaller batch of an epoch is left out, as
    that program does.

    Attempts that differ in learning rate, length, order, kind of noise and replicate alone are trained `together` in one pass, at most so
    many. This changes their last digits, by rounding, and is part of no result but of the engine's name. 0 is `PLACES` on a
    GPU and 1 on a CPU, where one process per core is faster.
    """

    architecture: Factor[Architecture]
    width: Factor[Positive]
    learning_rate: Factor[LearningRate]
    training_length: Factor[Positive]
    dataset: Factor[str]
    order: Factor[Literal[ORDERS]]
    noise: Factor[Literal[NOISES]]
    start: Literal["text", "author"] = "text"
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
    drop_last: bool = False
    probe_batch_size: Positive
    embedding_width: Positive
    device: Literal["auto", "cpu", "cuda"] = "auto"
    together: Size = 1

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in super().values().items() if name != "together"}

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.architecture,)

    @property
    def datasets(self) -> tuple[str, ...]:
        return (self.dataset,)

    @property
    def modules(self) -> tuple[str, ...]:
        return ("lib.tasks.variations",)

    @property
    def size(self) -> float:
        return self.training_length * (3 if self.noise != "none" else 1)

    @property
    def title(self) -> str:
        return (
            f"{self.architecture} {self.width} on {self.dataset} {self.order} {self.noise}, rate {self.learning_rate}, "
            f"{self.training_length} epochs, replicate {self.replicate + 1}"
        )

    @property
    def jobs_in_a_call(self) -> int:
        """How many attempts share a pass; raises `ValueError` for networks that cannot."""
        device = pick_device(self.device).type
        places = self.together or (PLACES if device == "cuda" else 1)
        if places > 1:
            check_width(self.width, device)
        return places

    def batch_key(self) -> dict[str, Any]:
        varying = ("learning_rate", "training_length", "order", "replicate")
        shared = {name: value for name, value in self.values().items() if name not in varying}
        return shared | {"noise": self.noise != "none"}  # either kind is as long


PLACES = 50
"""Attempts in a pass on a GPU: half of those that differ in rate, order and replicate in the published design, whose states of 2,024
steps at width 256 take some 30 GB."""


def run(job: Factorial, prepared: Path, resume: Resume) -> dict[str, np.ndarray]:
    """Train and measure one attempt, see `train`."""
    return train(job, _data(job, prepared), resume)


def run_together(
    asked: Sequence[tuple[Factorial, Path]], resumes: Sequence[Resume]
) -> list[Mapping[str, Any] | Exception]:
    """Train and measure attempts side by side: of each what `run` returns, or the error that ended it."""
    return train_together([job for job, _ in asked], _data(*asked[0]), resumes)


def train_together(
    jobs: Sequence[Factorial], data: Task, resumes: Sequence[Resume | None]
) -> list[Mapping[str, Any] | Exception]:
    """Train attempts of one shape on a data set that is not yet varied, each as `train` does but in one pass.

    Raises
    ------
    ValueError
        Their networks cannot share a pass, see `lib.training.together`, or their data do not fit the memory.
    """
    own = [job for job in jobs if job.order != "sequential" or job.noise != "none"]
    longer = time_steps(data, jobs[0].noise) / time_steps(data, "none")
    check_copies(data, len(own) * longer)
    trainings = [_training(job, data, resume) for job, resume in zip(jobs, resumes, strict=True)]
    found = fit_together(trainings, _objective(data), pass_size=jobs[0].jobs_in_a_call)
    return [
        done if isinstance(done, Exception) else _measurements(job, data, done)
        for job, done in zip(jobs, found, strict=True)
    ]


def train(job: Factorial, data: Task, resume: Resume | None = None) -> dict[str, np.ndarray]:
    """Train one attempt on a data set that is not yet varied.

    Adam, cross entropy, batches drawn without replacement. A loss that is not finite, in a batch or when measured, ends the
    attempt: status, epochs completed and their measurements are kept.

    Returns
    -------
    dict
        ``status``, ``epochs_completed``, and each of `MEASUREMENTS`, (split, epoch), ``nan`` where an epoch was not completed.
    """
    training = _training(job, data, resume)
    done = fit(
        training.model,
        training.batches,
        training.recipe,
        _objective(data),
        training.record,
        resume=resume,
    )
    return _measurements(job, data, done)


def _training(job: Factorial, data: Task, resume: Resume | None) -> Training:
    variation, initial, order = seeds_of(job, ATTEMPT, 3)
    rng = np.random.default_rng(variation)
    task = vary(
        data,
        rng,
        order=job.order,
        noise=job.noise,
        permutation=job.permutation,
        spread=job.spread,
    )
    device = pick_device(job.device)
    with torch_seed(initial):
        model = initial_model(job, task).to(device)
    rng = np.random.default_rng(order)
    batches = Epochs(task.train, job.batch_size, rng, device, drop_last=job.drop_last)
    recipe = Recipe(
        learning_rate=job.learning_rate,
        epochs=job.training_length,
        groups=_start(job).groups,
        options={"eps": 1e-7} if job.start == "author" else {},  # Keras's
    )
    record = Record(partial(_measure_splits, task, job), every_epoch(recipe, batches))
    return Training(model=model, batches=batches, recipe=recipe, record=record, resume=resume)


def _objective(data: Task) -> Objective:
    loss = task_loss(data)
    return lambda model, inputs, targets: loss(model(inputs), targets)


def _measurements(job: Factorial, data: Task, done: Fit) -> dict[str, np.ndarray]:
    found = {
        name: np.array([done.column(f"{name} {split}", job.training_length) for split in SPLITS])
        for name in MEASUREMENTS
    }
    about = _about(job, data)
    return {"status": done.status, "epochs_completed": len(done.rows), **found, **about}


def initial_model(job: Factorial, task: Task) -> Model:
    """Return an untrained network, drawn from torch's generator."""
    start = _start(job)
    return build(
        task,
        job.architecture,
        job.width,
        hyper_parameters=start.hyper_parameters,
        start=job.start,
        read=start.read,
        head="glorot" if job.start == "author" else "library",
        embedding_width=job.embedding_width,
        train_initial_state=start.train_initial_state,
    )


def _start(job: Factorial) -> Start:
    return AUTHOR.get(job.architecture, Start()) if job.start == "author" else Start()


def _data(design: Factorial, prepared: Path) -> Task:
    """Return a data set in the size that the design asks for."""
    path = prepared / f"{design.dataset}.nc"
    data = load_prepared(path, design.train_size, design.test_size)
    pictures = data.kind == "pixels"
    short = smaller(data, design.pool if pictures else 1, 0 if pictures else design.words)
    sized = replace(short, noise_inputs=design.noise_inputs or data.noise_inputs)
    return one_output(sized) if design.sigmoid else sized


def _measure_splits(task: Task, job: Factorial, model: Model) -> dict[str, float]:
    """Return each measurement of each split; anything undefined is ``nan``, an adjoint of zero ``-inf``."""
    found = {}
    for split in SPLITS:
        part = getattr(task, split)
        for name, value in measure(
            model, part, batch_size=job.probe_batch_size, size=job.probe_size
        ).items():
            found[f"{name} {split}"] = value
    return found


def _about(job: Factorial, data: Task) -> dict[str, Any]:
    """Return what follows from the data set: labels, sizes, sequence length, parameter count."""
    features = job.embedding_width if data.kind == "tokens" else data.features
    with torch.random.fork_rng(devices=()):  # its weights are counted, and never used
        cell = make_cell(job.architecture, features, job.width, **_start(job).hyper_parameters)
    return {
        "classes": max(data.outputs, 2),  # two classes may have one output
        "largest_class": np.bincount(data.test.targets).max() / len(data.test),
        "examples": [
            min(job.probe_size or len(part), len(part)) for part in (data.train, data.test)
        ],
        "time_steps": time_steps(data, job.noise),
        "parameters": sum(parameter.numel() for parameter in cell.parameters()),
    }


def dataset(
    profile: str, settings: dict, designs: Sequence[Factorial], results: Sequence[Mapping]
) -> xr.Dataset:
    """Return the attempts of a design as one dataset of `lib.results.factorial`."""
    longest = max(max(design.training_length) for design in designs)
    levels = {"split": list(SPLITS), "epoch": list(range(1, longest + 1))}
    jobs = [job for design in designs for job in design.jobs()]
    ds = join(FACTORIAL, levels, jobs, results, profile=profile, settings=settings)
    return FACTORIAL.validate(ds)


EXPERIMENT = Experiment(
    name="factorial",
    design=Factorial,
    schema=lambda ds: FACTORIAL,
    dataset=dataset,
    run=run,
    run_together=run_together,
)
