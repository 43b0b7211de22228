"""How long the trainings of a group would take on this machine: short passes are timed for each network, and nothing is trained."""

import json
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from lib.tasks import Task
from lib.training.model import pick_device, task_loss
from lib.training.row import Row
from lib.training.rows import initial_model, recipe_of, row_task, source

SHORT, LONG = 64, 256
"""Time steps of the two passes that are timed: what a pass costs beside its steps does not grow with them."""


def hours(jobs: Sequence[Row], prepared: Path | None) -> pd.DataFrame:
    """Return a line for each task of a group: its jobs, what they read, and how long they would take one after another.

    Columns ``task``, ``jobs``, ``sequence_steps`` (time steps of all sequences that are trained on, epochs counted) and ``hours``: of
    one core, or of the GPU where the rows say so. What the passes take alone, without optimiser, probes and tests.

    Raises
    ------
    ValueError
        A data set is not prepared.
    """
    rows = []
    for _, alike in groupby(sorted(jobs, key=_tested_on), _tested_on):
        together = sorted(alike, key=lambda job: job.run)
        task, parts = row_task(together[0], prepared)
        test = parts["test"]
        for _, replicates in groupby(together, lambda job: job.run):
            trained = list(replicates)
            job, count = trained[0], len(trained)
            batches, seconds = _timed(job, task, test.time_steps)
            read = job.epochs * len(task.train) if job.epochs else batches * job.batch_size
            rows.append(
                {
                    "task": job.task_label or task.name,
                    "jobs": count,
                    "sequence_steps": count * read * test.time_steps,
                    "hours": count * batches * seconds / 3600,
                }
            )
    return pd.DataFrame(rows).groupby("task", sort=False).sum().reset_index()


def _tested_on(row: Row) -> tuple[str, int]:
    return json.dumps(row.task, sort_keys=True), row.test_draws


def _timed(job: Row, task: Task, time_steps: int) -> tuple[int, float]:
    """Return how many batches a training takes, and the seconds that a pass of one takes, there and back."""
    device = pick_device(job.device)
    batches = source(job, task, task.train, np.random.default_rng(0), device)
    model, loss = initial_model(job, task).to(device), task_loss(task)
    inputs, targets = batches.next()

    def shortest(steps: int) -> float:
        taken = []
        asked = targets[:, :steps] if task.target == "steps" else targets
        for _ in range(3):  # the first one compiles
            begin = time.perf_counter()
            loss(model(inputs[:, :steps]), asked).backward()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            taken.append(time.perf_counter() - begin)
        return min(taken)

    seconds = shortest(min(time_steps, LONG))
    if time_steps > LONG:
        a_step = max(seconds - shortest(SHORT), 0.0) / (LONG - SHORT)
        seconds += a_step * (time_steps - LONG)
    return recipe_of(job).total(batches.epoch), seconds
