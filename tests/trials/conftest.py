"""Hostile trials: thousands of bad inputs drawn from a seed, and counted.

`make trials` runs them; plain `pytest` does not even import them. A trial succeeds in one of three
ways: wrong input is refused in one sentence of the right error, right input is accepted with the
right result, or lost files are made again with the same bytes. Everything else is a traceback, a
wrong acceptance, or a difference. ``LTD_TRIALS_SEED`` in the environment draws other inputs, and
``LTD_TRIALS_SHARE`` runs a share of them, such as 0.1.
"""

import os
import random
import zlib
from collections.abc import Callable

import pytest

_LONGEST = 1500
"""Characters of a sentence: no more is read, and nothing that came is repeated whole."""


class Trials:
    """The trials of one test, each a subtest."""

    def __init__(self, subtests: pytest.Subtests) -> None:
        self.subtests, self.count = subtests, 0

    def some(self, number: int) -> range:
        """Return a range of so many trials, or of the share of them that is asked for."""
        return range(max(1, round(number * float(os.environ.get("LTD_TRIALS_SHARE", "1")))))

    def refuse(
        self,
        what: object,
        call: Callable[[], object],
        *errors: type[Exception],
        right: Callable[[object], bool] = lambda _: False,
        lines: int = 1,
    ) -> None:
        """Make a call that must raise one of `errors` in so many lines, or return what is `right`."""
        self.count += 1
        with self.subtests.test(f"{what!r}"[:300]):
            try:
                found = call()
            except errors as error:
                said = [line.strip() for line in str(error).splitlines()]
                found = 0 < len(said) <= lines and all(0 < len(line) < _LONGEST for line in said)
                right = bool
            assert right(found)

    def accept(self, what: object, call: Callable, right: Callable[[object], bool]) -> None:
        """Make a call that must return, and the `right` thing."""
        self.refuse(what, call, right=right)


@pytest.fixture
def draw(request) -> random.Random:
    """A generator of the test's own."""
    seed = int(os.environ.get("LTD_TRIALS_SEED", "0"))
    return random.Random(zlib.crc32(request.node.name.encode()) + seed)


@pytest.fixture
def trials(subtests):
    """The test's trials; it fails if any of them went wrong."""
    found = Trials(subtests)
    yield found
    assert found.count, "no trial was made"


def pytest_ignore_collect(collection_path, config):
    """Leave the trials out unless ``-m`` asks for them."""
    return None if "trials" in config.option.markexpr else True
