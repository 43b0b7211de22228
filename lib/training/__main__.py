"""Check `params.yaml` and print what a profile asks for: ``python -m lib.training [PROFILE] [--hours]``.

With ``--hours`` nothing is trained either, but a short pass of every network is timed: what its trainings would take on this
machine, one after another.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from torch.utils.benchmark import Timer

from lib.probes.scores import task_loss
from lib.run.params import read_params
from lib.training.model import build, pick_device
from lib.training.profile import load_profile
from lib.training.rows import Row, row_task, source

LONG = 256
"""Time steps of a pass that is timed at most; one of more takes as much longer."""


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each dataset, with its number of jobs, or for each task of a group; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lib.training", description=main.__doc__)
    parser.add_argument("profile", nargs="?", help="its name; by default that of params.yaml")
    parser.add_argument("--hours", action="store_true", help="time a pass of each network")
    parser.add_argument("--prepared", type=Path, default="data/prepared", help="folder of the data")
    options = parser.parse_args(arguments)
    try:
        profile = load_profile(options.profile or read_params()["profile"])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    status = 0
    print(f"profile {profile.name}, data sets {', '.join(profile.datasets)}")
    for name, designs in profile.designs.items():
        print(f"{name:16} {sum(design.planned for design in designs):6} jobs", flush=True)
        if not options.hours or not isinstance(designs[0], Row):
            continue
        try:
            for row in hours(designs, options.prepared).itertuples():
                said = f"{row.sequence_steps:14.3g} sequence steps {row.hours:10.2f} h"
                print(f"  {row.Index:28} {row.jobs:4} jobs {said}", flush=True)
        except ValueError as error:  # a data set that is missing hides no other group
            print(f"  {error}", file=sys.stderr)
            status = 2
    return status


def hours(rows: Sequence[Row], prepared: Path) -> pd.DataFrame:
    """Return a line for each task of a group, by its label: its jobs, what they read, and how long they would take one after another.

    Columns ``jobs``, ``sequence_steps`` (time steps of all sequences that are trained on, epochs counted) and ``hours``: of one core, or of
    the GPU where the rows say so. What the passes take alone, without optimiser, probes and tests.

    Raises `ValueError` where a data set is not prepared.
    """
    lines = [(row.task_label, row.replicates, *_timed(row, prepared)) for row in rows]
    found = pd.DataFrame(lines, columns=("task", "jobs", "sequence_steps", "hours"))
    return found.groupby("task", sort=False).sum()


def _timed(row: Row, prepared: Path) -> tuple[float, float]:
    """Return the sequence steps that the trainings of a row read, and their hours."""
    task, parts = row_task(row, prepared)
    device, time_steps = pick_device(row.device), parts["test"].time_steps
    batches = source(row, task, task.train, np.random.default_rng(0), device)
    total = row.recipe.total(batches.epoch)
    model, loss = build(task, row).to(device), task_loss(task)
    inputs, targets = (part[:, :LONG] if part.dim() > 1 else part for part in batches.next())
    timer = Timer("step()", globals={"step": lambda: loss(model(inputs), targets).backward()})
    seconds = timer.timeit(2).mean * max(1.0, time_steps / LONG)  # after two in which it compiles
    read = row.epochs * len(task.train) if row.epochs else total * row.batch_size
    return row.replicates * read * time_steps, row.replicates * total * seconds / 3600


if __name__ == "__main__":
    sys.exit(main())
