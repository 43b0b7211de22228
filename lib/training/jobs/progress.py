"""A line every few seconds: how far all groups are and how long they may still take."""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from lib.training.resume import say

QUIET = 5.0
"""Seconds between two lines."""


class Progress:
    """Says how many of the jobs of all groups have a result.

    The time left is learned from jobs that are done, now or in an earlier call, at a rate of each group, since sizes compare jobs of one
    group alone; where some group with jobs left has none yet the line says "more than", and where all have none it says nothing.
    """

    def __init__(self, jobs: Sequence[Any]) -> None:
        self._jobs, self._began, self._last = jobs, time.monotonic(), 0.0

    def begin(self) -> None:
        """Say how much there is to do."""
        say(f"{self._count_left()} of {len(self._jobs)} jobs to run")

    def report(self, title: str, workers: int) -> None:
        """Print a line, if the last one is old or nothing is left."""
        now, left = time.monotonic(), self._count_left()
        if now - self._last < QUIET and left:
            return
        self._last = now
        diverged = sum(job.diverged for job in self._jobs if job.trained)
        say(
            f"job {len(self._jobs) - left}/{len(self._jobs)}, {diverged} attempts diverged, "
            f"{timedelta(seconds=round(now - self._began))} gone{self._time_left(workers)}; {title}"
        )

    def _count_left(self) -> int:
        return sum(job.result is None for job in self._jobs)

    def _time_left(self, workers: int) -> str:
        left, size, seconds = Counter(), Counter(), Counter()
        for job in self._jobs:
            if job.result is None:
                left[job.group] += job.work.size
            elif job.seconds:
                size[job.group] += job.work.size
                seconds[job.group] += job.seconds
        known = [group for group in left if seconds[group]]
        if not known:
            return ""
        total = sum(left[group] * seconds[group] / size[group] for group in known) / max(workers, 1)
        about = "about" if len(known) == len(left) else "more than"
        return f", {about} {timedelta(seconds=round(total))} left"
