"""The factorial experiment: every architecture on every task, with adjoint norms at every epoch.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 1.4 and
Table 1.2. An attempt is one treatment and one replicate. Its random numbers (permutation, noise,
initial weights, order of the batches) depend only on its own levels. So the results of an attempt
don't depend on which attempts ran before it or at the same time.

The initial weights are those of the author's public program (see `AUTHOR`). As in that program, the
last batch of an epoch is left out if it is smaller than the others.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from study.config.factorial import Factorial
from study.config.network import Network
from study.config.recipe import ParameterGroup, Recipe
from study.results.factorial import ATTEMPT, MEASUREMENTS, SPLITS
from study.tasks import Task, load_prepared
from study.tasks.variations import vary
from study.training.batched import Run, train_batched
from study.training.batches import EpochBatches
from study.training.checkpoint import Checkpoint
from study.training.graphed_objective import with_graphs
from study.training.job import Arrays, Job
from study.training.loop import train
from study.training.measures import measure_classifier
from study.training.model import Model, build_model, pick_device
from study.training.objectives import make_objective
from study.training.recorder import Recorder, epoch_ends
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
"""Fields of `Network` that the author's public program sets, by cell.

The program is libe-community-examples, folder rnn (2022). It is older than the dissertation, which
mentions none of these settings. The head of its UnICORNN reads all four tensors of the state.
"""
AUTHORS_GROUPS = {
    "exponential": (ParameterGroup(names="cell.parametrizations.B.*", factor=0.1, optimizer="sgd"),)
}
"""Parameter groups in that program, by cell.

The matrix A of the exponential RNN is trained by gradient descent with a tenth of the learning
rate.
"""
KERAS_EPSILON = 1e-7
"""Adam's epsilon in Keras."""


def train_attempts(
    jobs: Sequence[Job], prepared: Path | None, checkpoints: Sequence[Checkpoint | None]
) -> list[Arrays]:
    """Train attempts on one data set, whose models and batches have equal shapes.

    Parameters
    ----------
    jobs, prepared, checkpoints
        See `study.training.job.Experiment.train`.

    Returns
    -------
    list of dict
        As `train_attempts_on`.
    """
    attempts = [job.config for job in jobs]
    first = attempts[0]
    data = load_prepared(prepared / f"{first.dataset}.nc", first.train_size, first.test_size)
    return train_attempts_on(data, attempts, checkpoints, pass_size=jobs[0].pass_size)


def train_attempts_on(
    data: Task,
    attempts: Sequence[Factorial],
    checkpoints: Sequence[Checkpoint | None],
    *,
    pass_size: int = 1,
) -> list[Arrays]:
    """Train attempts whose models and batches have equal shapes on a data set.

    The optimizer is Adam, and the loss is the cross entropy. Batches are drawn without replacement.
    An attempt ends as diverged if the loss of a batch or a measured loss is not finite.

    Parameters
    ----------
    data : Task
        The data set before permutation and noise.
    attempts : sequence of Factorial
        Jobs of the design, each with one level per factor.
    checkpoints : sequence of Checkpoint, optional
        The file of each attempt's state.
    pass_size : int
        Number of attempts that a vmapped pass computes; 1 to train attempts one after another.

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
                recorder=run.recorder,
                checkpoint=run.checkpoint,
            )
            for run in runs
        ]
    return [
        _results(attempt, task, run.model, state)
        for attempt, task, run, state in zip(attempts, tasks, runs, states, strict=True)
    ]


def vary_task(attempt: Factorial, data: Task) -> Task:
    """Apply an attempt's order, noise and sizes to its data set.

    Parameters
    ----------
    attempt : Factorial
    data : Task
        The prepared data set.

    Returns
    -------
    Task
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
    """Return the settings of the network that an attempt trains.

    Parameters
    ----------
    attempt : Factorial

    Returns
    -------
    Network
    """
    return Network(
        cell=attempt.architecture,
        width=attempt.width,
        start="author",
        head="glorot",
        embedding_width=attempt.embedding_width,
        **AUTHOR.get(attempt.architecture, {}),
    )


def _prepare_run(attempt: Factorial, task: Task, checkpoint: Checkpoint | None) -> Run:
    """Build the model of an attempt, its batches, and its recorder."""
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
    recorder = Recorder(partial(_measure_splits, task, attempt), recorded)
    return Run(model, batches, recipe, recorder, checkpoint)


def _measure_splits(task: Task, attempt: Factorial, model: Model) -> dict[str, float]:
    """Return each measurement of each split; the log norm of a zero adjoint is ``-inf``."""
    values = {}
    for split in SPLITS:
        measured = measure_classifier(
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
    # Leave out the initial state, because only some networks train it.
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
