"""How long the trainings of a group would take on this machine: a pass of each network is timed, and nothing is trained."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from lib.training.model import build, pick_device, task_loss
from lib.training.row import Row
from lib.training.rows import recipe_of, row_task, source

LONG = 256
"""Time steps of a pass that is timed at most; one of more takes as much longer."""


def hours(jobs: Sequence[Row], prepared: Path | None) -> pd.DataFrame:
    """Return a line for each task of a group: its jobs, what they read, and how long they would take one after another.

    Columns ``task``, ``jobs``, ``sequence_steps`` (time steps of all sequences that are trained on, epochs counted) and ``hours``: of
    one core, or of the GPU where the rows say so. What the passes take alone, without optimiser, probes and tests.

    Raises
    ------
    ValueError
        A data set is not prepared.
    """
    lines = [(job.run, *_timed(job, prepared)) for job in jobs if job.replicate == 0]
    found = pd.DataFrame(lines, columns=("run", "task", "sequence_steps", "hours"))
    counts = pd.Series([job.run for job in jobs]).value_counts()
    found["jobs"] = found["run"].map(counts)
    found[["sequence_steps", "hours"]] = found[["sequence_steps", "hours"]].mul(
        found["jobs"], axis=0
    )
    columns = ["task", "jobs", "sequence_steps", "hours"]
    return found[columns].groupby("task", sort=False).sum().reset_index()


def _timed(row: Row, prepared: Path | None) -> tuple[str, float, float]:
    """Return a row's task, the sequence steps that a training of it reads, and its hours."""
    task, parts = row_task(row, prepared)
    device, time_steps = pick_device(row.device), parts["test"].time_steps
    batches = source(row, task, task.train, np.random.default_rng(0), device)
    total = recipe_of(row).total(batches.epoch)
    model, loss = build(task, row).to(device), task_loss(task)
    inputs, targets = (part[:, :LONG] if part.dim() > 1 else part for part in batches.next())
    taken = []
    for _ in range(3):  # the first one compiles
        begin = time.perf_counter()
        loss(model(inputs), targets).backward()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - begin)
    seconds = min(taken) * max(1.0, time_steps / LONG)
    read = row.epochs * len(task.train) if row.epochs else total * row.batch_size
    return row.task_label or task.name, float(read * time_steps), total * seconds / 3600
