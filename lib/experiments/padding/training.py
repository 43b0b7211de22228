"""One attempt of experiment 2.3: from a job's levels to what it measured."""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from lib.experiments.factorial.training import measure
from lib.experiments.padding.methods import (
    evaluate,
    initial_model,
    reservoir_features,
    training_step,
)
from lib.probes import Diverged
from lib.results.schema import COMPLETED, DIVERGED
from lib.tasks import Part, Task, load_prepared
from lib.tasks.padded_rows import pad_rows
from lib.training.seeds import seeds_of, torch_seed

RECIPE = 1
"""Raised whenever a change to training or measuring changes results."""

ADJOINT_BATCH = 128
"""Sequences whose adjoint states are measured at once."""


@dataclass(frozen=True)
class Job:
    """One training attempt, with all that its result depends on.

    Attributes
    ----------
    dataset, padding, method, width, initialisation, kappa, replicate
        Its levels; kappa is 0 but for the coadjoint method, `orthogonality` but for ``constrained``.
    learning_rate .. adjoint_size
        As in `lib.run.params.padding.PaddingSection`.
    prepared
        SHA-256 of the prepared data set.
    engines
        What runs the cell, and its adjoints.
    """

    dataset: str
    padding: int
    method: str
    width: int
    initialisation: str
    kappa: float
    replicate: int
    orthogonality: float
    input_scale: float
    learning_rate: float
    epochs: int
    batch_size: int
    train_size: int
    test_size: int
    probe_size: int
    adjoint_size: int
    prepared: str
    engines: tuple[str, ...]

    def seeds(self) -> tuple[np.random.SeedSequence, ...]:
        """Return independent seeds: the noise, the initial weights, the batches.

        They depend on neither the method nor kappa: the methods of one replicate see the same sequences in the
        same order, and where they train the same network it starts from the same weights.
        """
        fields = ("dataset", "padding", "width", "replicate")
        return seeds_of(self, fields, 3, experiment="padding")

    def __str__(self) -> str:
        weight = f", kappa {self.kappa:g}" if self.method == "coadjoint" else ""
        return f"{self.method} {self.width} on {self.dataset} {self.padding}x{weight}"


def run_job(job: Job, prepared: Path) -> dict[str, np.ndarray]:
    """Train and measure one attempt; runs in a worker.

    Parameters
    ----------
    job
        The attempt.
    prepared
        Folder of the prepared data sets.

    Returns
    -------
    dict
        ``status`` and ``epochs_completed``; ``loss`` and ``accuracy``, (split, epoch), ``nan`` where an epoch was not
        completed; ``adjoint_first`` and ``adjoint_last`` of the trained network, ``nan`` if it diverged.

    Notes
    -----
    Adam and the cross entropy, batches drawn without replacement, one thread. A loss, a penalty or a
    gradient that is not finite ends the attempt; what it measured before is kept.
    """
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    path = prepared / f"{job.dataset}.nc"
    return train(job, _load(path, job.prepared, job.train_size, job.test_size))


def train(job: Job, data: Task) -> dict[str, np.ndarray]:
    """Do what `run_job` does, on a data set in memory."""
    noise, initial, batches = job.seeds()
    data = pad_rows(data, job.padding, np.random.default_rng(noise))
    with torch_seed(initial):
        model = initial_model(
            job.method,
            data.features,
            job.width,
            data.outputs,
            job.initialisation,
            job.input_scale,
        )
    parts = [data.train, data.test]
    if job.method == "reservoir":
        parts = [reservoir_features(model, part) for part in parts]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(trained, lr=job.learning_rate)
    step = training_step(job.method, model, kappa=job.kappa, orthogonality=job.orthogonality)
    order = np.random.default_rng(batches)
    measured = np.full((2, len(parts), job.epochs), np.nan)  # loss and accuracy

    completed = 0
    try:
        for epoch in range(job.epochs):
            _train_epoch(step, optimiser, parts[0], job.batch_size, order)
            after = [
                evaluate(job.method, model, part, size)
                for part, size in zip(parts, (job.probe_size, 0), strict=True)
            ]
            if not np.isfinite(after).all():
                raise Diverged("a measured loss is not finite")
            measured[:, :, epoch] = np.transpose(after)
            completed += 1
        first, last = _adjoints(model, data, job.adjoint_size)
        status = COMPLETED
    except Diverged:
        first = last = math.nan
        status = DIVERGED
    return {
        "status": np.array(status, np.int8),
        "epochs_completed": np.array(completed, np.int32),
        "loss": measured[0],
        "accuracy": measured[1],
        "adjoint_first": np.array(first),
        "adjoint_last": np.array(last),
    }


def _train_epoch(step, optimiser, train: Part, batch_size: int, order: np.random.Generator) -> None:
    """Pass once over the training part in a fresh order."""
    indices = order.permutation(len(train.targets))
    for start in range(0, len(indices), batch_size):
        batch = indices[start : start + batch_size]
        optimiser.zero_grad()
        step(torch.from_numpy(train.inputs[batch]), torch.from_numpy(train.targets[batch]))
        optimiser.step()


def _adjoints(model, data: Task, size: int) -> tuple[float, float]:
    """Return log10 of the summed norms of lambda_1 and lambda_T over test sequences, of the full state."""
    found = measure(model, data.test, batch_size=ADJOINT_BATCH, size=size)
    first, last = found["adjoint_first_full"], found["adjoint_last_full"]
    if math.isnan(first) or math.isnan(last):
        raise Diverged("the adjoint states of the trained network are not finite")
    return first, last


@lru_cache(maxsize=2)
def _load(path: Path, prepared_hash: str, train_size: int, test_size: int) -> Task:
    """Read a data set once for the jobs that follow each other; the hash tells a changed file."""
    return load_prepared(path, train_size, test_size)
