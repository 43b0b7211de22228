"""`make repro`: `dvc repro` with analyses in parallel, and one line per notebook.

DVC decides which stages to run, and runs them one after the other. Here several DVC processes run
at the same time, one per core, on analyses that do not depend on each other. Plain `dvc repro`
gives the same results, one stage at a time.

Each notebook prints a line when it starts: the time, the stage, and its title. The progress and the
warnings of notebooks are shown while they run, and so are DVC's errors. DVC's messages about its
own steps are hidden.
"""

import contextlib
import fcntl
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import psutil
from dvc.exceptions import DvcException
from dvc.repo import Repo

from study.paths import DATA, ROOT
from study.pipeline import code, fork_server
from study.pipeline.dvc_records import wrong_records
from study.pipeline.execute import STAGES
from study.pipeline.instructions import InstructionError

LOCK = DATA / "cache" / "repro.lock"

_CODE = "code"
"""The stage that runs at every call; here it runs before DVC starts."""
_FIRST = ("check", "prepare", "train")
"""Stages that analyses need. Until they are done, DVC can't tell which analyses are stale."""
_SIMULATION = "simulate"
"""A stage that needs none of these, so it runs at the same time."""
_INDEPENDENT = ("analyze", "show")
"""Prefixes of stages that do not need each other. `dvc.yaml` lists the longest stages first."""
_PARTS_PER_CORE = 6
"""Number of lists into which these stages are divided, per core.

With more lists, starting DVC takes longer in total; with fewer, some cores finish much earlier.
"""


class Stages(NamedTuple):
    """The stages of the pipeline."""

    names: list[str]
    stale: set[str]
    """Names of the stages that DVC would run."""


def main(arguments: list[str]) -> int:
    """Run `dvc repro`; stages that do not need each other run in parallel.

    Parameters
    ----------
    arguments
        Arguments of `dvc repro`; none for all stages.

    Returns
    -------
    int
        Exit status of DVC, 2 if a stage cannot start here, 130 after an interrupt.
    """
    try:
        with _locked() as lock, fork_server.serving():
            while True:
                status = code.main()
                if status:
                    return status
                if arguments:
                    return _dvc_repro(lock, *arguments)
                status = _bring_up_to_date(lock)
                if status or not wrong_records(ROOT):
                    return status
                # An input was saved while its stage ended, so this stage and those that need its
                # outputs run again.
    except InstructionError as error:
        return _report_status(str(error), 2)
    except OSError as error:
        return _report_status(f"{error}; the pipeline needs a folder that it can write to", 2)
    except KeyboardInterrupt:  # the terminal sends it to DVC, too
        return _report_status("interrupted; every finished stage and run is kept", 130)


@contextlib.contextmanager
def _locked() -> Iterator[int]:
    """Wait until no other `make repro` runs in this clone; yield the lock's file descriptor."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _report_status(
                "another `make repro` is running in this folder; this one waits for it to end", 0
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _bring_up_to_date(lock: int) -> int:
    """Run every stale stage, independent ones in parallel; return the exit status."""
    stages = _find_stages()
    if not stages.stale:
        print(f"nothing to do: {len(stages.names)} stages are up to date")
        return 0
    os.environ[STAGES] = " ".join(stages.names)
    if stages.stale.intersection((*_FIRST, _SIMULATION)):
        first = [name for name in _FIRST if name in stages.names]
        simulation = [name for name in stages.names if name == _SIMULATION]
        status = _in_parallel(lock, [first, simulation])
        if status:
            return status
        stages = _find_stages()
    analyses = [
        name for name in stages.names if name in stages.stale and name.startswith(_INDEPENDENT)
    ]
    # Analyses are dealt to the parts in turn, so that all parts take about the same time.
    parts = _cores() * _PARTS_PER_CORE
    status = _in_parallel(lock, [analyses[number::parts] for number in range(parts)])
    if status:
        return status
    return _dvc_repro(lock)  # what needs the analyses: coverage and report


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _find_stages() -> Stages:
    """Return all stages. If DVC fails, for example because inputs are missing, all are stale."""
    logging.getLogger("dvc").setLevel(logging.CRITICAL)
    names: list[str] = []
    with contextlib.suppress(DvcException), Repo(ROOT) as repo:
        names += [stage.addressing for stage in repo.index.stages]
        stale = {stage.addressing for stage in repo.reproduce(dry=True)}
        return Stages(names, stale - {_CODE})
    # DVC must run in any case, because it reports the error. So at least one stage is stale, even
    # if no stage could be read.
    return Stages(names, {*names, "unknown"})


def _in_parallel(lock: int, parts: list[list[str]]) -> int:
    """Run lists of stages side by side, each in order; return the first status that is not 0."""
    failures: list[int] = []

    def run(part: list[str]) -> None:
        if part and not failures:
            status = _dvc_repro(lock, "--single-item", *part)
            if status:
                failures.append(status)

    with ThreadPoolExecutor(_cores()) as pool:
        try:
            list(pool.map(run, parts))
        except KeyboardInterrupt:
            failures.append(130)  # so that no other stage starts; running ones end by themselves
            raise
    if failures:
        return failures[0]
    return 0


def _dvc_repro(lock: int, *arguments: str) -> int:
    """Run `dvc repro` with these arguments, without what it prints; return its exit status."""
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", *arguments]
    # DVC inherits the lock: if this process is killed, the next `make repro` waits for it.
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, pass_fds=[lock]) as process:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise
    if status and _another_dvc_works():
        _report_status(
            "another dvc command is running in this folder; run this again when it has ended",
            status,
        )
    return status


def _another_dvc_works() -> bool:
    """Return whether a DVC process that is not ours has locked files of the pipeline."""
    try:
        content = json.loads((ROOT / ".dvc" / "tmp" / "rwlock").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    owners = list(content.get("write", {}).values())
    for readers in content.get("read", {}).values():
        owners += readers
    ours = {process.pid for process in psutil.Process().children(recursive=True)}
    return any(psutil.pid_exists(owner["pid"]) and owner["pid"] not in ours for owner in owners)


def _report_status(message: str, status: int) -> int:
    """Print a message to stderr; return the exit status that it explains."""
    print(message, file=sys.stderr, flush=True)
    return status
