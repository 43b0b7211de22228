"""How long the trainings of a group would take on this machine: one short pass is timed for each network, and nothing is trained."""

import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from lib.experiments.supervised import (
    Supervised,
    initial_model,
    job_task,
    recipe_of,
    source,
    tested_on,
)
from lib.tasks import Task
from lib.training.model import pick_device, task_loss

STEPS = 64
"""Time steps of the pass that is timed; a longer one takes proportionally longer."""


def hours(jobs: Sequence[Supervised], prepared: Path | None) -> pd.DataFrame:
    """Return a line for each task of a group: its jobs, what they read, and how long they would take one after another.

    Parameters
    ----------
    jobs
        Networks and their replicates.
    prepared
        Folder of the prepared data sets.

    Returns
    -------
    DataFrame
        ``task``, ``jobs``, ``sequence_steps`` (time steps of all sequences that are trained on, epochs counted) and ``hours``: of
        one core, or of the GPU where the rows say so. What the passes take alone, without optimiser, probes and tests.

    Raises
    ------
    ValueError
        A data set is not prepared.
    """
    rows = []
    for _, alike in groupby(sorted(jobs, key=tested_on), tested_on):
        together = sorted(alike, key=lambda job: job.run)
        task, test = job_task(together[0], prepared)
        for _, replicates in groupby(together, lambda job: job.run):
            trained = list(replicates)
            batches, seconds = _timed(trained[0], task)
            rows.append(
                {
                    "task": trained[0].task_label or task.name,
                    "jobs": len(trained),
                    "sequence_steps": len(trained)
                    * batches
                    * trained[0].batch_size
                    * test.time_steps,
                    "hours": len(trained) * batches * seconds * test.time_steps / 3600,
                }
            )
    return pd.DataFrame(rows).groupby("task", sort=False).sum().reset_index()


def _timed(job: Supervised, task: Task) -> tuple[int, float]:
    """Return how many batches a training takes, and the seconds that a time step of one takes, there and back."""
    device = pick_device(job.device)
    batches = source(job, task, np.random.default_rng(0), device)
    model, loss = initial_model(job, task).to(device), task_loss(task)
    inputs, targets = batches.next()
    inputs = inputs[:, :STEPS]
    if task.target == "steps":
        targets = targets[:, :STEPS]
    taken = []
    for _ in range(3):  # the first one compiles
        begin = time.perf_counter()
        loss(model(inputs), targets).backward()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - begin)
    return recipe_of(job).total(batches.epoch), min(taken) / inputs.shape[1]
