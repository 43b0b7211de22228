"""`dvc repro` with a line for each notebook that runs in place of DVC's own: when, which stage of how many, and the notebook's question.

DVC does everything. It runs one stage after the other, and leaves it to its caller to start it several times at once: analyses, which
do not need each other, are done by as many as there are cores. What notebooks tell while they run (progress, warnings) is shown as
it comes, and so are DVC's errors.
"""

import contextlib
import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from dvc.exceptions import DvcException
from dvc.repo import Repo

from study.paths import DATA, ROOT
from study.pipeline import code, warm
from study.pipeline.execute import STAGES

LOCK = DATA / "cache" / "repro.lock"

_EVERY_TIME = "code"
"""The stage that runs at every call, and that is done here before DVC is asked."""
_BESIDE = ("analyse", "show")
"""How the names of stages begin that do not need each other; what takes longest stands first in dvc.yaml."""
_FIRST = ("check", "prepare", "train")
"""What these need, and what refuses wrong settings before; while they are stale, DVC cannot say which of these will be."""
_MEANWHILE = "simulate"
"""What needs none of these; cells are shown after the trainings, which have compiled most kernels then."""
_SHARES = 6
"""Into how many parts of these each core's are divided: so few that starting DVC costs little, so many that all end together."""


_DVC = """
import logging, sys
from dvc import cli, ui
logging.getLogger("dvc").setLevel(logging.ERROR)
logging.getLogger("dvc.progress").setLevel(logging.CRITICAL)
ui.ui.enable = lambda: None
sys.exit(cli.main(sys.argv[1:]))
"""
"""DVC that tells errors alone; its own ``-q`` would leave those out as well."""


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
            return code.main() or (_follow(lock, *arguments) if arguments else _everything(lock))
        except KeyboardInterrupt:  # DVC has it too, from the terminal
            print("interrupted; every finished stage and training is kept", file=sys.stderr)
            return 130


def _everything(lock: int) -> int:
    """Bring all stages up to date, analyses several at once; return the exit status."""
    stages, stale = _looked_at()
    if not stale:
        print(f"nothing to do: {len(stages)} stages looked at, all up to date")
        return 0
    os.environ[STAGES] = " ".join(stages)
    if stale.intersection((*_FIRST, _MEANWHILE)):
        parts = [[name for name in _FIRST if name in stages], [*stale.intersection([_MEANWHILE])]]
        if status := _at_once(lock, parts):
            return status
        stages, stale = _looked_at()
    beside = [name for name in stages if name in stale and name.startswith(_BESIDE)]
    # Dealt out in turns: every part takes about as long.
    parts = len(os.sched_getaffinity(0)) * _SHARES
    return _at_once(lock, [beside[number::parts] for number in range(parts)]) or _follow(lock)


def _looked_at() -> tuple[list[str], set[str]]:
    """Return all stages, and those that DVC would run: all where it cannot say, as one lacks what another is to make."""
    logging.getLogger("dvc").setLevel(logging.CRITICAL)
    names: list[str] = []
    with contextlib.suppress(DvcException), Repo(ROOT) as repo:
        names += [stage.addressing for stage in repo.index.stages]
        return names, {stage.addressing for stage in repo.reproduce(dry=True)} - {_EVERY_TIME}
    return names, {*names, "?"}  # and what is wrong DVC says when it runs


def _at_once(lock: int, parts: list[list[str]]) -> int:
    """Bring parts up to date that do not need each other, each stage by stage; return the first exit status that is not 0."""
    failed: list[int] = []

    def bring(part: list[str]) -> None:
        if part and not failed and (status := _follow(lock, "--single-item", *part)):
            failed.append(status)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            list(pool.map(bring, parts))
        except KeyboardInterrupt:
            failed.append(130)  # those that run end by themselves, no other begins
            raise
    return failed[0] if failed else 0


def _follow(lock: int, *arguments: str) -> int:
    """Run `dvc repro` with these arguments, what it tells of each stage left out, and return its exit status."""
    command = [sys.executable, "-c", _DVC, "--wait-for-lock", "repro", *arguments]
    with subprocess.Popen(command, cwd=ROOT, pass_fds=[lock]) as dvc:
        try:
            return dvc.wait()
        except KeyboardInterrupt:
            dvc.wait()
            raise
