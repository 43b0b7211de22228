"""Run tests against an error made in the code: in the functions of a forked process, or in a file of a copy."""

import contextlib
import functools
import gc
import json
import os
import re
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType

import pytest

LEFT_OUT = "notebook or browser or r or gpu"
"""Marks of tests that are never tried: what they start takes longer than all others together."""
TEST = 16
"""Seconds of a core after which a test without an error is left out of the quick ones."""
OWN = 45
"""Seconds of a core for the tests of an error that is made in a file."""
SOON = 1.0
"""Seconds that a test takes, with what it shares, to be run before all slower ones of any file."""


def forked(work: Callable[[Callable], None], seconds: float) -> tuple[int | None, list]:
    """Do `work` in a process of its own; return its exit status, None where time was over, and what it told."""
    with tempfile.TemporaryDirectory() as scratch:
        said = Path(scratch, "said")
        said.touch()
        if (child := os.fork()) == 0:
            try:
                os.setsid()
                with said.open("w") as file:
                    work(lambda what: print(json.dumps(what), file=file, flush=True))
                os._exit(0)
            except BaseException:
                os._exit(70)
        end, status = time.monotonic() + seconds, None
        while status is None and time.monotonic() < end:
            time.sleep(0.01)
            pid, raw = os.waitpid(child, os.WNOHANG)
            status = os.waitstatus_to_exitcode(raw) if pid else None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if status is None:
            os.waitpid(child, 0)
        return status, [json.loads(line) for line in said.read_text().splitlines()]


def pytest_in(folder: Path, given: list[str], plugin: object = None) -> int:
    """Run pytest in `folder`, silently, and return its status."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.chdir(folder)
    sys.path[:0] = [str(folder), str(folder / "tests")]
    os.environ["PYTHONPATH"] = str(folder)
    plugins = [plugin] if plugin else []
    return int(pytest.main(["-q", "--tb=no", "-p", "no:cacheprovider", *given], plugins=plugins))


# ---- in the functions of a process -----------------------------------------------------------------------------------------


def _own(code: CodeType) -> str:
    """Return what a code does itself, without the functions inside."""
    constants = [repr(part) for part in code.co_consts if not isinstance(part, CodeType)]
    return repr((code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars))


def _inside(code: CodeType) -> list[CodeType]:
    return [part for part in code.co_consts if isinstance(part, CodeType)]


def _changed(old: CodeType, new: CodeType) -> dict[tuple[str, int], CodeType]:
    """Return the code of the functions that differ, and of those around them, by name and line."""
    found = {}
    for a, b in zip(_inside(old), _inside(new), strict=True):
        found |= _changed(a, b)
    if found or _own(old) != _own(new):
        found[new.co_qualname, new.co_firstlineno] = new
    return found


def swapped(path: Path, old: bytes, new: bytes) -> bool:
    """Put what differs into the functions of this process; return False if something outside of functions does."""
    before, after = (compile(text, str(path), "exec", dont_inherit=True) for text in (old, new))
    if _own(before) != _own(after):
        return False
    changed, found = _changed(before, after), 0
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename == str(path):
            key = one.__code__.co_qualname, one.__code__.co_firstlineno
            if key in changed:
                one.__code__ = changed[key]
                found += 1
        elif type(one) is functools._lru_cache_wrapper and f"{one.__module__}".startswith("lib"):
            one.cache_clear()
    return found > 0


class Errors:
    """A plugin of pytest that runs the tests of one file of `lib` once, and then for every error that is made in it.

    Each error is (the file's content with it, its first line, its last line). `tell` gets (number of the error, end, test): the end
    is "killed", "survived", or "outside" where no quick test runs its lines or no function holds it.
    """

    def __init__(self, path: Path, errors: list, only: str, seconds: float, tell: Callable) -> None:
        self.path, self.errors, self.only = path, errors, re.compile(only)
        self.seconds, self.tell = seconds, tell
        self.shared: dict[str, float] = {}
        self.sound: set = set()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        """Note how long it takes to set up what tests share: each process that tries an error does so again."""
        begin = time.monotonic()
        yield
        if fixturedef.scope != "function":
            self.shared[fixturedef.argname] = time.monotonic() - begin

    def pytest_collection_modifyitems(self, items: list) -> None:
        items[:] = [item for item in items if self.only.search(item.nodeid)]
        items.sort(key=_shares)

    def pytest_runtestloop(self, session) -> bool:
        source, times = self.path.read_bytes(), self._measured(session.items)
        for number, (content, first, last) in enumerate(self.errors):
            near = [
                item
                for item, (*_, lines) in times.items()
                if not lines.isdisjoint(range(first, last + 1))
            ]
            whole = {}  # a file's tests share fixtures: they stay together, quick files first
            for item in near:
                whole[item.path] = whole.get(item.path, 0) + times[item][1]

            def turn(item, whole=whole):
                seconds = times[item][1]
                return seconds > SOON, whole[item.path], str(item.path), seconds

            near.sort(key=turn)
            end = "outside"
            while near:
                end, by = self._tried(near, times, lambda c=content: swapped(self.path, source, c))
                if end != "killed" or by in self.sound:
                    break
                until = near[: near.index(by) + 1]
                if self._tried(until, times, lambda: True)[0] == "survived":
                    self.sound.add(by)
                    break
                near.remove(by)  # it fails without the error, too
            self.tell((number, end, by.nodeid if end == "killed" else ""))
        return True

    def _measured(self, items: list) -> dict:
        """Return of each test that passes its seconds of a core and of the clock, and the lines of the file that it runs.

        Those of the clock are what it takes alone, with the fixtures that it shares.
        """
        found, shared, rest, spent = {}, {}, list(items), 0.0
        while rest and spent < self.seconds:

            def work(tell, rest=rest, spent=spent):
                for item, following in zip_longest(rest, rest[1:]):
                    lines, begin, cpu = set(), time.monotonic(), time.process_time()
                    self.shared.clear()
                    signal.setitimer(signal.ITIMER_PROF, TEST)
                    with _traced(str(self.path), lines):
                        passed = _passes(item, following)
                    signal.setitimer(signal.ITIMER_PROF, 0)
                    cpu, clock = time.process_time() - cpu, time.monotonic() - begin
                    tell((passed, cpu, clock, sorted(lines), self.shared))
                    if spent + time.process_time() > self.seconds:
                        return

            _, told = forked(work, 60 * self.seconds)
            for item, (passed, cpu, clock, lines, new) in zip(rest, told, strict=False):
                spent += cpu
                shared |= new
                if passed:
                    uses = sum(shared.get(name, 0.0) for name in item.fixturenames)
                    found[item] = cpu, max(clock - sum(new.values()), 0.0) + uses, set(lines)
            rest = rest[len(told) + 1 :]  # one that did not come to its end is left out
            spent += TEST
        return found

    def _tried(self, items: list, times: dict, make: Callable[[], bool]) -> tuple:
        """Return how the tests end after `make`, and the one that fails or never ends."""

        def work(tell):
            tell(bool(make()))
            for item, following in zip_longest(items, items[1:]):
                signal.setitimer(signal.ITIMER_PROF, 2 + 8 * times[item][0])
                signal.setitimer(
                    signal.ITIMER_REAL, 30 + 10 * times[item][1]
                )  # it may wait for ever
                passed = _passes(item, following)
                tell(passed)
                if not passed:
                    return

        status, told = forked(work, 60 + 20 * sum(times[item][1] for item in items))
        if not told or told[0] is False:
            return "outside", None
        if len(told) == len(items) + 1 and told[-1] and status == 0:
            return "survived", None
        return "killed", items[min(told.count(True) - 1, len(items) - 1)]


def _shares(item) -> bool:
    """Return whether a test uses what others use as well, such as a cluster: that is set up once, and takes its time."""
    found = item._fixtureinfo.name2fixturedefs.items()
    own = [defs[-1] for name, defs in found if defs[-1].baseid and not name.startswith("_")]
    return any(fixture.scope != "function" for fixture in own)


def _passes(item, following) -> bool:
    from _pytest.runner import runtestprotocol

    return not any(report.failed for report in runtestprotocol(item, False, following))


@contextlib.contextmanager
def _traced(path: str, lines: set[int]) -> Iterator[None]:
    """Collect the lines of a file that are run, in threads that begin as well."""
    add = lines.add

    def inside(frame, event, arg):
        add(frame.f_lineno)
        return inside

    def called(frame, event, arg):
        return inside(frame, event, arg) if frame.f_code.co_filename == path else None

    before = sys.gettrace()
    sys.settrace(called)
    threading.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)


def try_in_process(
    folder: Path,
    file: str,
    errors: list,
    given: list[str],
    only: str,
    compiled: bool,
    seconds: float,
) -> dict[int, tuple[str, str]]:
    """Try all errors of a file with tests of so many seconds of a core; return (end, test) by their number."""

    def work(tell):
        if not compiled:
            import numba

            numba.config.DISABLE_JIT = True
        plugin = Errors(folder / file, errors, only, seconds, tell)
        pytest_in(folder, ["-m", f"not (slow or {LEFT_OUT})", *given], plugin)

    _, told = forked(work, 20 * seconds * (1 + len(errors)))
    return {number: (end, by) for number, end, by in told}


# ---- in a file of a copy -----------------------------------------------------------------------------------------------------


class _First:
    """A plugin of pytest that keeps the first test that fails."""

    failed = ""

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid


def try_in_file(folder: Path, file: str, content: bytes, given: list[str]) -> tuple[str, str]:
    """Try one error; return how it ended, and the test that noticed it."""
    target = folder / file
    stat, source = target.stat(), target.read_bytes()
    target.write_bytes(content)  # of another time than the bytecode that is kept of it

    def work(tell):
        resource.setrlimit(resource.RLIMIT_CPU, (OWN, OWN + 1))
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        if (
            "/kernels/" in file
        ):  # what an inlined function was compiled to is not known to have changed
            import numba

            numba.config.CACHE_DIR = tempfile.mkdtemp(dir=folder)
        first = _First()
        tell((pytest_in(folder, ["-x", "-m", f"not ({LEFT_OUT})", *given], first), first.failed))

    try:
        status, told = forked(work, 10 * OWN)
    finally:
        target.write_bytes(source)
        os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if status == 0 and told:
        ((status, by),) = told
        return ("killed" if status in (1, 2, 3) else "survived" if status == 0 else "no test"), by
    late = status in (-signal.SIGXCPU, -signal.SIGKILL, None)
    return ("out of time" if late else "killed"), ""
