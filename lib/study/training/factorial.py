"""The factorial experiment: every architecture at every task, and what happens to its gradients.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 1.4 and
Table 1.2. An attempt is one treatment and a replicate. Its random numbers, for the permutation, the
noise, the initial weights and the order of the batches, follow from its own levels alone, so it
comes out the same whatever ran before or at the same time.

Networks start, and epochs leave out a last, smaller batch, as in the author's public program (see
`AUTHOR`).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from study.config.factorial import Factorial
from study.config.network import Network
from study.config.recipe import Group, Recipe
from study.results.factorial import ATTEMPT, MEASUREMENTS, SPLITS
from study.tasks import Task, load_prepared
from study.tasks.variations import vary
from study.training.batched import Run, train_batched
from study.training.batches import EpochBatches
from study.training.checkpoint import Checkpoint
from study.training.graphed_objective import with_graphs
from study.training.job import Arrays, Job
from study.training.loop import train
from study.training.measures import measure
from study.training.model import Model, build_model, pick_device
from study.training.objectives import make_objective
from study.training.record import Record, epoch_ends
from study.training.seeds import seeds_of, torch_seed
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
"""Fields of `Network` that the author's public program sets, besides the initial weights.

The program is libe-community-examples, folder rnn (2022). It is older than the dissertation, whose
text names none of these. Its UnICORNN reads out all four states.
"""
AUTHORS_GROUPS = {
    "exponential": (Group(names="cell.parametrizations.B.*", factor=0.1, optimiser="sgd"),)
}
"""Parameters with their own step in that program.

The matrix A of the exponential RNN takes plain steps of a tenth of the learning rate.
"""
KERAS_EPSILON = 1e-7
"""Adam's epsilon in Keras."""


def train_attempts(
    jobs: Sequence[Job], prepared: Path | None, checkpoints: Sequence[Checkpoint | None]
) -> list[Arrays]:
    """Train attempts of one shape, see `study.training.job.Experiment.train`."""
    attempts = [job.config for job in jobs]
    first = attempts[0]
    data = load_prepared(prepared / f"{first.dataset}.nc", first.train_size, first.test_size)
    return train_on(data, attempts, checkpoints, pass_size=jobs[0].pass_size)


def train_on(
    data: Task,
    attempts: Sequence[Factorial],
    checkpoints: Sequence[Checkpoint | None],
    *,
    pass_size: int = 1,
) -> list[Arrays]:
    """Train attempts of one shape on a data set.

    They use Adam, cross entropy, and batches drawn without replacement. A loss that is not finite,
    in a batch or when measured, ends its attempt as diverged.

    Parameters
    ----------
    data : Task
        The data set before it is varied.
    attempts : sequence of Factorial
        Designs with one level in every place.
    checkpoints : sequence of Checkpoint, optional
        Where the state of each is kept.
    pass_size : int
        Attempts that a vmapped pass has room for; with 1 they are trained one by one.

    Returns
    -------
    list of dict
        Variables of `study.results.factorial` by name, for each attempt.
    """
    tasks = [vary_task(attempt, data) for attempt in attempts]
    objective = make_objective("plain", data)
    runs = []
    for attempt, task, checkpoint in zip(attempts, tasks, checkpoints, strict=True):
        runs.append(_prepare_run(attempt, task, checkpoint))
    if pass_size > 1:
        states = train_batched(runs, objective, pass_size=pass_size)
    else:
        states = [
            train(
                run.model,
                run.batches,
                with_graphs(objective, run.model),
                run.recipe,
                record=run.record,
                checkpoint=run.checkpoint,
            )
            for run in runs
        ]
    return [
        _results(attempt, task, run.model, state)
        for attempt, task, run, state in zip(attempts, tasks, runs, states, strict=True)
    ]


def vary_task(attempt: Factorial, data: Task) -> Task:
    """Return an attempt's own variation of its data set.

    Parameters
    ----------
    attempt : Factorial
    data : Task
        The prepared data set.

    Returns
    -------
    Task
        Permuted, with noise, and made smaller as the attempt says.
    """
    (seed,) = seeds_of(attempt, ATTEMPT, 1)
    return vary(
        data,
        np.random.default_rng(seed),
        order=attempt.order,
        noise=attempt.noise,
        noise_inputs=attempt.noise_inputs,
        pool=attempt.pool,
        words=attempt.words,
        permutation=attempt.permutation,
        spread=attempt.spread,
        sigmoid=attempt.sigmoid,
    )


def network_of(attempt: Factorial) -> Network:
    """Return the network that an attempt trains."""
    return Network(
        cell=attempt.architecture,
        width=attempt.width,
        start="author",
        head="glorot",
        embedding_width=attempt.embedding_width,
        **AUTHOR.get(attempt.architecture, {}),
    )


def _prepare_run(attempt: Factorial, task: Task, checkpoint: Checkpoint | None) -> Run:
    """Build the model of an attempt, its batches, and what is recorded."""
    _, initial, order = seeds_of(attempt, ATTEMPT, 3)
    device = pick_device(attempt.device)
    with torch_seed(initial):
        model = build_model(task, network_of(attempt)).to(device)
    rng = np.random.default_rng(order)
    batches = EpochBatches(task.train, attempt.batch_size, rng, device, drop_last=True)
    recipe = Recipe(
        learning_rate=attempt.learning_rate,
        epochs=attempt.training_length,
        groups=AUTHORS_GROUPS.get(attempt.architecture, ()),
        options={"eps": KERAS_EPSILON},
    )
    recorded = epoch_ends(batches.steps_per_epoch, recipe.total_steps(batches.steps_per_epoch))
    record = Record(partial(_measure_splits, task, attempt), recorded)
    return Run(model, batches, recipe, record, checkpoint)


def _measure_splits(task: Task, attempt: Factorial, model: Model) -> dict[str, float]:
    """Return each measurement of each split; adjoints of zero have the norm ``-inf``."""
    values = {}
    for split in SPLITS:
        measured = measure(
            model,
            getattr(task, split),
            batch_size=attempt.probe_batch_size,
            size=attempt.probe_size,
        )
        for name, value in measured.items():
            values[f"{name} {split}"] = value
    return values


def _results(attempt: Factorial, task: Task, model: Model, state: RunState) -> Arrays:
    """Return the variables of an attempt.

    Measurements have the shape (split, epoch) and are ``nan`` for epochs that were not completed.
    """
    epochs = attempt.training_length
    measured = {}
    for name in MEASUREMENTS:
        by_split = [state.column(f"{name} {split}", epochs) for split in SPLITS]
        measured[name] = np.array(by_split)
    sizes = [len(getattr(task, split)) for split in SPLITS]
    # Without the initial state, which only some networks train.
    weights = [p for name, p in model.cell.named_parameters() if "x0" not in name]
    return measured | {
        "status": state.status,
        "epochs_completed": len(state.rows),
        "classes": max(task.outputs, 2),  # two classes may share one output
        "largest_class": np.bincount(task.test.targets).max() / len(task.test),
        "examples": [min(attempt.probe_size or size, size) for size in sizes],
        "time_steps": task.train.time_steps,
        "parameters": sum(weight.numel() for weight in weights),
    }
