"""A line every few seconds: how far a study is and how long it may still take."""

import sys
import time

QUIET = 5.0
"""Seconds between two lines."""


class Progress:
    """Counts finished jobs and prints to the standard error, which no stored notebook keeps.

    Parameters
    ----------
    name
        What is running; every line begins with it.
    total
        Number of jobs, finished ones included.
    work
        For each job that is still to run, a number proportional to the time it takes.
    """

    def __init__(self, name: str, total: int, work: list[float]) -> None:
        self._name = name
        self._total = total
        self._finished = total - len(work)
        self._left = sum(work)
        self._done = 0.0
        self._diverged = 0
        self._started = time.monotonic()
        self._told = 0.0
        self._print(f"{len(work)} of {total} jobs to run")

    def done(self, work: float, diverged: int, description: str, *, jobs: int = 1) -> None:
        """Note a finished job, or several that were one call, of so much work and with so many diverged attempts."""
        self._finished += jobs
        self._done += work
        self._left -= work
        self._diverged += diverged
        now = time.monotonic()
        if now - self._told < QUIET and self._finished < self._total:
            return
        self._told = now
        elapsed = now - self._started
        left = elapsed / self._done * self._left
        self._print(
            f"job {self._finished}/{self._total}, {self._diverged} attempts diverged, "
            f"{_clock(elapsed)} gone, about {_clock(left)} left; {description}"
        )

    def _print(self, line: str) -> None:
        print(f"{self._name}: {line}", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
