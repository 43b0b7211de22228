"""`dvc repro` with a line for each stage that runs: which one of how many, when, and the question that its notebook asks.

DVC does everything; this reads along. What notebooks tell while they run (progress, warnings) is shown as it comes. DVC runs one
stage after the other, and leaves it to its caller to start it several times at once: analyses, which do not need each other, are
done by as many as there are cores.
"""

import contextlib
import fcntl
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from dvc.exceptions import DvcException
from dvc.repo import Repo

from lib.paths import DATA, ROOT
from lib.run import code, warm
from lib.run.notebooks import read_cells

LOCK = DATA / "cache" / "repro.lock"

_STAGE = re.compile(r"(?:Running s|Verifying data sources in s|S)tage '([^']+)'( is cached)?")
_NOTEBOOK = re.compile(r"notebooks/\S+\.ipynb")
# What DVC says after each stage, and advice about its own commands.
_CHATTER = re.compile(
    r"\s*$|> |Updating lock file|Generating lock file|To track the changes|\s*git add |To enable auto staging"
    r"|\s*dvc config|Use `dvc push`|Data and pipelines are up to date"
)
_EVERY_TIME = "code"
"""The stage that runs at every call: no line tells that it does."""
_BESIDE = ("analyse", "show")
"""How the names of stages begin that do not need each other; what takes longest stands first in dvc.yaml."""
_FIRST = ("check", "train", "simulate")
"""What these need, and what refuses wrong settings before; while they are stale, DVC cannot say which of these will be."""
_SHARES = 6
"""Into how many parts of these each core's are divided: so few that starting DVC costs little, so many that all end together."""


@dataclass
class Told:
    """What was told so far, by one DVC or several; how many `stages` there are may be known."""

    stages: int = 0
    seen: dict[str, None] = field(default_factory=dict)
    begin: float = field(default_factory=time.monotonic)

    def tell(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield what to show of the `lines` that one DVC prints."""
        stage = place = ""
        for line in lines:
            if found := _STAGE.match(line):
                stage = found[1]
                self.seen[stage] = None
                of = f" of {self.stages}" if self.stages else ""
                place = f"stage {[*self.seen].index(stage) + 1}{of}"
                if found[2]:
                    yield f"{place}, {stage}: taken from the cache"
            elif line.startswith("> ") and stage != _EVERY_TIME:
                at = "{}:{:02d}".format(*divmod(int(time.monotonic() - self.begin), 60))
                yield f"{place} at {at}, {stage}: {_question(line)}"
            elif not _CHATTER.match(line):
                yield line.rstrip()


def _question(command: str) -> str:
    """Return the title of the notebook that a stage runs, or else its command."""
    if notebook := _NOTEBOOK.search(command):
        return read_cells(ROOT / notebook[0])[0].source.partition("\n")[0].removeprefix("# ")
    return command[2:].strip()


@contextlib.contextmanager
def _alone() -> Iterator[int]:
    """Wait, which a sentence says, until no other `make repro` runs here; give the lock, which DVC holds as well."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = "another `make repro` runs in this folder; this one goes on when it has ended"
            print(said, file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def main(arguments: list[str]) -> int:
    """Run `dvc repro` with these arguments, one at a time in a clone, and return its exit status."""
    with _alone() as lock, warm.serving():
        try:
            return _follow(Told(), lock, *arguments) if arguments else _everything(lock)
        except KeyboardInterrupt:  # DVC has it too, from the terminal
            print("interrupted; every finished stage and training is kept", file=sys.stderr)
            return 130


def _everything(lock: int) -> int:
    """Bring all stages up to date, analyses several at once; return the exit status."""
    if status := code.main():
        return status
    stages, stale = _looked_at()
    if stale is not None and stale <= {_EVERY_TIME}:
        print(f"nothing to do: {len(stages)} stages looked at, all up to date")
        return 0
    told, status = Told(len(stages)), 0
    beside = [name for name in stages if name.startswith(_BESIDE)]
    first = [name for name in _FIRST if name in stages]
    if stale is not None and stale.isdisjoint(first):
        beside = [name for name in beside if name in stale]
    elif first:
        status = _follow(told, lock, *first)
    cores = len(os.sched_getaffinity(0))
    if not status and cores > 1 and len(beside) > 1:
        status = _at_once(told, lock, beside, cores)
    return status or _follow(told, lock)


def _looked_at() -> tuple[list[str], set[str] | None]:
    """Return all stages, and those that DVC would run; None where it cannot say, as one lacks what another is to make."""
    logging.getLogger("dvc").setLevel(logging.CRITICAL)
    names: list[str] = []
    with contextlib.suppress(DvcException), Repo(ROOT) as repo:
        names += [stage.addressing for stage in repo.index.stages]
        return names, {stage.addressing for stage in repo.reproduce(dry=True)}
    return names, None  # and what is wrong DVC says when it runs


def _at_once(told: Told, lock: int, names: Sequence[str], cores: int) -> int:
    """Bring stages up to date that do not need each other; return the first exit status that is not 0."""
    # Dealt out in turns: every part takes about as long.
    parts = [names[number :: cores * _SHARES] for number in range(cores * _SHARES)]
    failed: list[int] = []

    def bring(part: Sequence[str]) -> None:
        if part and not failed and (status := _follow(told, lock, "--single-item", *part)):
            failed.append(status)

    with ThreadPoolExecutor(cores) as pool:
        try:
            list(pool.map(bring, parts))
        except KeyboardInterrupt:
            failed.append(130)  # those that run end by themselves, no other begins
            raise
    return failed[0] if failed else 0


def _follow(told: Told, lock: int, *arguments: str) -> int:
    """Run `dvc repro` with these arguments, tell what it does, and return its exit status."""
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", *arguments]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=ROOT, pass_fds=[lock], **piped) as dvc:
        try:
            for line in told.tell(dvc.stdout or ()):
                print(line, flush=True)
        except KeyboardInterrupt:
            dvc.communicate()
            raise
    return dvc.returncode
