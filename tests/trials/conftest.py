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


class Trials:
    """The trials of one kind: counts them, and keeps what went wrong."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.count = 0
        self.refused = 0
        self.seconds = 0.0
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
    ) -> None:
        """Count a call that must raise one of `errors` in at most so many lines, unless what it returns is `right`."""
        self.count += 1
        try:
            found = call()
        except errors as error:
            self.refused += 1
            text = str(error)
            if not text.strip() or len(text.splitlines()) > lines:
                self.note("traceback", f"{what!r}: no single sentence: {text!r}")
        except Exception as error:
            self.note("traceback", f"{what!r}: {type(error).__name__}: {error}")
        else:
            if right is None or not right(found):
                self.note("wrong acceptance", f"{what!r} gave {found!r}")

    def accept(self, what: object, call: Callable[[], object], right: Callable[[object], bool]):
        """Count a call that must return, and the `right` thing."""
        self.count += 1
        try:
            found = call()
        except Exception as error:
            self.note("traceback", f"{what!r}: {type(error).__name__}: {error}")
        else:
            if not right(found):
                self.note("difference", f"{what!r} gave {found!r}")


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
        pytest.fail(
            "\n".join([f"{len(new)} trials went wrong"] + [": ".join(one) for one in new[:_SHOWN]])
        )


def pytest_ignore_collect(collection_path, config):
    """Leave the trials out unless ``-m`` asks for them."""
    return None if "trials" in config.option.markexpr else True


def pytest_terminal_summary(terminalreporter, config):
    kinds = config.stash.get(_KEPT, {})
    if not kinds:
        return
    terminalreporter.write_line(
        f"{'kind':<16}{'trials':>8}{'refused':>9}{'seconds':>9}  went wrong"
    )
    for found in kinds.values():
        ends = Counter(how for how, _ in found.bad)
        said = ", ".join(f"{ends[how]} {how}s" for how in BAD)
        terminalreporter.write_line(
            f"{found.kind:<16}{found.count:>8}{found.refused:>9}{found.seconds:>9.1f}  {said}"
        )
    total, bad = (
        sum(counts) for counts in zip(*((t.count, len(t.bad)) for t in kinds.values()), strict=True)
    )
    terminalreporter.write_line(f"{'all':<16}{total:>8}, {bad} went wrong")
