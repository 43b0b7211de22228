"""A line every few seconds: how far all groups are and how long they may still take."""

import sys
import time
from collections import defaultdict
from dataclasses import dataclass

QUIET = 5.0
"""Seconds between two lines."""


@dataclass
class _Rate:
    """A group: what is left of it, and what its finished jobs took. Sizes compare jobs of one group alone."""

    jobs: int = 0
    left: float = 0.0
    size: float = 0.0
    seconds: float = 0.0


class Progress:
    """Counts finished jobs of all groups and prints to the standard error, which no stored notebook keeps.

    The time left is learned from jobs that are done, now or in an earlier call, at a rate of each group; where some group with jobs
    left has none yet the line says "more than", and where all have none it says nothing.
    """

    def __init__(self) -> None:
        self._groups: dict[str, _Rate] = defaultdict(_Rate)
        self._total = self._finished = self._diverged = 0
        self._began = time.monotonic()
        self._last = 0.0

    def add(self, group: str, size: float, seconds: float | None) -> None:
        """Count a job, which took so many seconds of a core where it is done already."""
        self._total += 1
        rate = self._groups[group]
        if seconds is None:
            rate.jobs, rate.left = rate.jobs + 1, rate.left + size
            return
        self._finished += 1
        if seconds:
            rate.size, rate.seconds = rate.size + size, rate.seconds + seconds

    def begin(self) -> None:
        """Say how much there is to do."""
        self._print(f"{self._total - self._finished} of {self._total} jobs to run")

    def done(self, group: str, size: float, seconds: float, diverged: int) -> None:
        """Note a finished job, how long it took and how many of its attempts diverged."""
        rate = self._groups[group]
        rate.jobs, rate.left = rate.jobs - 1, rate.left - size
        rate.size, rate.seconds = rate.size + size, rate.seconds + seconds
        self._finished += 1
        self._diverged += diverged

    def report(self, title: str, workers: int) -> None:
        """Print a line, if the last one is old or nothing is left."""
        now = time.monotonic()
        if now - self._last < QUIET and self._finished < self._total:
            return
        self._last = now
        self._print(
            f"job {self._finished}/{self._total}, {self._diverged} attempts diverged, "
            f"{_clock(now - self._began)} gone{self._left(workers)}; {title}"
        )

    def _left(self, workers: int) -> str:
        going = [rate for rate in self._groups.values() if rate.jobs]
        known = [rate for rate in going if rate.seconds]
        if not known:
            return ""
        seconds = sum(rate.left * rate.seconds / rate.size for rate in known) / max(workers, 1)
        return f", {'about' if len(known) == len(going) else 'more than'} {_clock(seconds)} left"

    @staticmethod
    def _print(line: str) -> None:
        print(line, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
