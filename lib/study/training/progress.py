"""Pending jobs, and lines of progress while they run."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np

from study.results.schema import DIVERGED
from study.training.job import Arrays, Job
from study.training.log import log_line
from study.training.shards import RESUMED, SECONDS, write_shard

QUIET = 5.0
"""Smallest number of seconds between two lines of progress."""


@dataclass(eq=False)
class PendingJob:
    """A job of a group, with its result as soon as there is one.

    Attributes
    ----------
    job : Job
    group : str
        Name of the dataset.
    key : dict
        Cache key of the job.
    result : dict, optional
        Variables of the job, and what `study.training.shards` stores next to them.
    ran_now : bool
        Whether the job ran in this call; else its result was cached.
    """

    job: Job
    group: str
    key: dict
    result: dict[str, np.ndarray] | None
    ran_now: bool = False

    @property
    def diverged(self) -> int:
        """Number of attempts in the result that diverged."""
        status = self.result.get("status", np.empty(0))
        return int((status == DIVERGED).sum())

    @property
    def seconds(self) -> float:
        """Processor time of the job."""
        return float(self.result.get(SECONDS, 0.0))

    @property
    def resumed(self) -> bool:
        """Whether the job resumed from a checkpoint."""
        return bool(self.result.get(RESUMED, False))

    def store(self, result: Arrays, cache: Path) -> None:
        """Write the result to the cache, and delete the checkpoint.

        Parameters
        ----------
        result : mapping
            Variables of the job by name, as `study.training.worker.run_batch` returned them.
        cache : Path
            Folder of the cached results.
        """
        self.result = {name: np.asarray(value) for name, value in result.items()}
        self.ran_now = True
        shard = write_shard(cache, self.key, self.result)
        shard.with_suffix(".state").unlink(missing_ok=True)


class Progress:
    """Prints how many jobs have a result, and an estimate of the remaining time.

    The estimate uses the mean time per unit of `Job.relative_cost` of the finished jobs, including
    cached ones. Each group has its own estimate, because costs are comparable only within a group.
    If some groups have no finished job yet, the line says "more than". If none has, the line gives
    no time.
    """

    def __init__(self, jobs: Sequence[PendingJob]) -> None:
        self._jobs = jobs
        self._started_at = time.monotonic()
        self._last_line_at = 0.0

    def report(self, title: str, workers: int) -> None:
        """Print a line if the last one is at least `QUIET` seconds old, or if all jobs are done.

        Parameters
        ----------
        title : str
            Name of the batch that just finished.
        workers : int
            Number of jobs that run at the same time.
        """
        now = time.monotonic()
        done = [job for job in self._jobs if job.result is not None]
        is_due = now - self._last_line_at >= QUIET or len(done) == len(self._jobs)
        if not is_due:
            return
        self._last_line_at = now
        diverged = sum(job.diverged for job in done if job.ran_now)
        elapsed = timedelta(seconds=round(now - self._started_at))
        log_line(
            f"job {len(done)}/{len(self._jobs)}, {diverged} attempts diverged, "
            f"{elapsed} elapsed{self._time_left(workers)}; {title}"
        )

    def _time_left(self, workers: int) -> str:
        """Return the estimated time as a part of the line; empty if there is no estimate."""
        cost_left: Counter = Counter()
        cost_done: Counter = Counter()
        seconds_done: Counter = Counter()
        for pending in self._jobs:
            if pending.result is None:
                cost_left[pending.group] += pending.job.relative_cost
            elif pending.seconds:
                cost_done[pending.group] += pending.job.relative_cost
                seconds_done[pending.group] += pending.seconds
        known = [group for group in cost_left if seconds_done[group]]
        if not known:
            return ""
        seconds_left = 0.0
        for group in known:
            seconds_left += cost_left[group] * seconds_done[group] / cost_done[group]
        about = "about" if len(known) == len(cost_left) else "more than"
        return f", {about} {timedelta(seconds=round(seconds_left / workers))} left"
