"""Hostile trials: bad input drawn from a seed, by the thousand, and counted by kind.

`make trials` runs them, plain `pytest` does not even import them. A trial ends well in one of three ways: what is wrong is refused
in one sentence of the right error, what is right is accepted with the right result, or what was lost is made again to the same
bytes. Everything else is a traceback, a wrong acceptance or a difference. ``LTD_TRIALS_SEED`` in the environment draws others,
``LTD_TRIALS_SHARE`` makes a share of them, such as 0.1.
"""

import os
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable

import pytest

BAD = ("traceback", "wrong acceptance", "difference")
_KEPT = pytest.StashKey[dict[str, "Trials"]]()
_SHOWN = 10
_LONGEST = 1500
"""Characters of a sentence: no more is read, and nothing that came is repeated whole."""


class Trials:
    """The trials of one kind: counts them, and keeps what went wrong."""

    def __init__(self, kind: str) -> None:
        self.kind, self.count, self.refused, self.seconds = kind, 0, 0, 0.0
        self.bad: list[tuple[str, str]] = []

    def some(self, number: int) -> range:
        """Return a range of so many trials, or of the share of them that is asked for."""
        return range(max(1, round(number * float(os.environ.get("LTD_TRIALS_SHARE", "1")))))

    def note(self, how: str, what: object) -> None:
        """Note that a trial went wrong, in one of the ways `BAD`."""
        self.bad.append((how, f"{what}"[:300]))

    def refuse(
        self,
        what: object,
        call: Callable[[], object],
        *errors: type[Exception],
        right: Callable[[object], bool] | None = None,
        lines: int = 1,
        wrong: str = "wrong acceptance",
    ) -> None:
        """Count a call that must raise one of `errors` in at most so many lines, unless what it returns is `right`."""
        self.count += 1
        try:
            found = call()
        except errors as error:
            self.refused += 1
            said = str(error).splitlines()
            if not 0 < len(said) <= lines or not all(0 < len(s.strip()) < _LONGEST for s in said):
                self.note("traceback", f"{what!r}: no single sentence: {error!s}")
        except Exception as error:
            self.note("traceback", f"{what!r}: {type(error).__name__}: {error}")
        else:
            if right is None or not right(found):
                self.note(wrong, f"{what!r} gave {found!r}")

    def accept(self, what: object, call: Callable, right: Callable[[object], bool]) -> None:
        """Count a call that must return, and the `right` thing."""
        self.refuse(what, call, right=right, wrong="difference")


@pytest.fixture
def draw(request) -> random.Random:
    """A generator of the test's own."""
    seed = int(os.environ.get("LTD_TRIALS_SEED", "0"))
    return random.Random(zlib.crc32(request.node.name.encode()) + seed)


@pytest.fixture
def trials(request):
    """The trials of the test's kind: ``KIND`` of its module. The test fails if any of its own went wrong."""
    kinds = request.config.stash.setdefault(_KEPT, {})
    found = kinds.setdefault(request.module.KIND, Trials(request.module.KIND))
    begin, before, counted = time.monotonic(), len(found.bad), found.count
    yield found
    found.seconds += time.monotonic() - begin
    assert found.count > counted, "no trial was counted"
    if new := found.bad[before:]:
        lines = [f"{len(new)} trials went wrong", *map(": ".join, new[:_SHOWN])]
        pytest.fail("\n".join(lines))


def pytest_ignore_collect(collection_path, config):
    """Leave the trials out unless ``-m`` asks for them."""
    return None if "trials" in config.option.markexpr else True


def pytest_terminal_summary(terminalreporter, config):
    write, kinds = terminalreporter.write_line, config.stash.get(_KEPT, {}).values()
    if kinds:
        write(f"{'kind':<16}{'trials':>8}{'refused':>9}{'seconds':>9}  went wrong")
    for kind in kinds:
        ends = Counter(how for how, _ in kind.bad)
        said = ", ".join(f"{ends[how]} {how}s" for how in BAD)
        write(f"{kind.kind:<16}{kind.count:>8}{kind.refused:>9}{kind.seconds:>9.1f}  {said}")
    if kinds:
        count, bad = sum(kind.count for kind in kinds), sum(len(kind.bad) for kind in kinds)
        write(f"{'all':<16}{count:>8}, {bad} went wrong")
