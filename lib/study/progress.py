"""One line a block: how far the study is and how long it may still take."""

import sys
import time

from lib.results import DIVERGED
from lib.study.plan import Block
from lib.train import Record


class Progress:
    """Counts finished blocks and prints to the standard error, which no stored notebook keeps.

    Parameters
    ----------
    blocks
        All blocks of the study.
    missing
        Those that have no shard yet.
    work
        A number proportional to the time a block takes.
    """

    def __init__(self, blocks: list[Block], missing: list[Block], work: dict[Block, float]) -> None:
        self._total = len(blocks)
        self._finished = len(blocks) - len(missing)
        self._work = work
        self._left = sum(work[block] for block in missing)
        self._done = 0.0
        self._diverged = 0
        self._started = time.monotonic()
        attempts = sum(len(block.attempts) for block in missing)
        self._print(f"{len(missing)} of {len(blocks)} blocks to run, {attempts} attempts")

    def done(self, block: Block, records: list[Record]) -> None:
        """Note a finished block and print where the study stands."""
        self._finished += 1
        self._done += self._work[block]
        self._left -= self._work[block]
        self._diverged += sum(record.status == DIVERGED for record in records)
        elapsed = time.monotonic() - self._started
        left = elapsed / self._done * self._left
        first = block.attempts[0]
        self._print(
            f"block {self._finished}/{self._total}, {self._diverged} attempts diverged, "
            f"{_clock(elapsed)} gone, about {_clock(left)} left; {first.architecture} {first.width} on "
            f"{first.dataset} {first.order} {first.noise}"
        )

    @staticmethod
    def _print(line: str) -> None:
        print(f"study: {line}", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
