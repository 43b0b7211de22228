"""Trials: thousands of bad inputs drawn from a seed, and counted.

`make trials` and `make exhaustive` run them; plain `pytest` does not even import them. A trial
succeeds in one of three ways: wrong input is refused in one sentence by the right error, right
input is accepted with the right result, or lost files are made again with the same bytes.
Everything else is a traceback, a wrong acceptance or a difference. ``LTD_TRIALS_SEED`` in the
environment draws other inputs, and ``LTD_TRIALS_SHARE`` runs a share of them, such as 0.1.
"""

import os
import random
import zlib
from collections.abc import Callable

import pytest

_LONGEST = 1500
"""Most characters of a line: nobody reads more, and no message may repeat a whole input."""
_COUNTS = pytest.StashKey[dict[str, int]]()
"""Number of trials by test."""


class Trials:
    """The trials of one test, each a subtest."""

    def __init__(self, subtests: pytest.Subtests) -> None:
        self.subtests = subtests
        self.count = 0

    def some(self, number: int) -> range:
        """Return a range of so many trials, or of the share of them that was asked for."""
        share = float(os.environ.get("LTD_TRIALS_SHARE", "1"))
        return range(max(1, round(number * share)))

    def refuse(
        self,
        name: object,
        call: Callable[[], object],
        *errors: type[Exception],
        right: Callable[[object], bool] | None = None,
        lines: int = 1,
    ) -> None:
        """Make a call that must raise one of `errors`, or return a `right` result if that is given.

        The message may have so many `lines`.
        """
        self.count += 1
        with self.subtests.test(f"{name!r}"[:300]):
            try:
                result = call()
            except errors as error:
                message = str(error)
                assert _is_readable(message, lines), message
            else:
                assert right is not None, f"accepted, with the result {result!r}"
                assert right(result), f"wrong result: {result!r}"[:_LONGEST]

    def accept(
        self, name: object, call: Callable[[], object], right: Callable[[object], bool]
    ) -> None:
        """Make a call that must return a `right` result."""
        self.refuse(name, call, right=right)


def _is_readable(message: str, lines: int) -> bool:
    """Return whether a message has at most so many lines, none of them empty or long."""
    parts = [line.strip() for line in message.splitlines()]
    if not 0 < len(parts) <= lines:
        return False
    return all(0 < len(part) < _LONGEST for part in parts)


@pytest.fixture
def draw(request) -> random.Random:
    """A random generator with a seed for each test."""
    seed = int(os.environ.get("LTD_TRIALS_SEED", "0"))
    return random.Random(zlib.crc32(request.node.name.encode()) + seed)


@pytest.fixture
def trials(subtests, request):
    """The test's trials; it fails if any of them went wrong."""
    counted = Trials(subtests)
    yield counted
    assert counted.count, "no trial was made"
    counts = request.config.stash.setdefault(_COUNTS, {})
    counts[request.node.nodeid.rpartition("::")[2]] = counted.count


def pytest_ignore_collect(collection_path, config):
    """Leave the trials out unless ``-m`` asks for them."""
    return None if "trials" in config.option.markexpr else True


def pytest_terminal_summary(terminalreporter, config):
    """Say how many trials each test made."""
    counts = config.stash.get(_COUNTS, {})
    for test, count in counts.items():
        terminalreporter.write_line(f"{count:6} trials: {test}")
    if counts:
        terminalreporter.write_line(f"{sum(counts.values()):6} trials in all")
