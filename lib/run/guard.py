"""A small process that ends a notebook's kernel, and all that the kernel started, when its run is gone.

`kill -9` gives the killed process no chance to tidy up, and a kernel runs in a session of its own: without help it
would go on, and overwrite the outputs of the next run. The guard is a process of its own that watches the
run and, where DVC started it, DVC. As soon as one of them is gone it kills the run and every process that
inherited the run's mark in its environment; a mark survives what process groups and parents do not, such as
Dask's workers whose parent has died.

The run starts it as ``python -m lib.run.guard MARK PID:START...``. A process is known by its number and its start in ticks
since boot, which no step of the clock moves.
"""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from lib.paths import ROOT

MARK = "LTD_RUN"
"""Environment variable whose value marks all processes of one run."""

POLL = 0.2
"""Seconds between two looks at the watched processes."""

_SWEEPS = 20


def start(watched: list[str]) -> None:
    """Mark this process's future children and start the guard over them; it and `watched` must live for the run to go on."""
    mark = name_of(os.getpid())
    # Its own session, no pipes and no mark: neither Ctrl-C nor a guard above this one ends it.
    subprocess.Popen(
        [sys.executable, "-m", "lib.run.guard", mark, mark, *watched],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != MARK},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.environ[MARK] = mark


def name_of(pid: int) -> str:
    """Return ``PID:START`` of a process, which no other process has had or will have until the next boot.

    Of one that has ended: psutil.NoSuchProcess.
    """
    try:
        # Field 22 of proc(5), counted behind the name, which may hold blanks and brackets.
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):  # it has ended, or this system has no /proc
        started = str(psutil.Process(pid).create_time())
    return f"{pid}:{started}"


def pipeline_ancestors() -> list[str]:
    """Return the names of the shells between this process and DVC, and of DVC itself; nothing if DVC did not start it.

    DVC gives the commands of a stage the variable ``DVC_STAGE``, so DVC is the nearest ancestor that was started
    without it; a ProcessLookupError says that it is already gone. Above DVC nothing is watched: `nohup make repro &`
    outlives its terminal.
    """
    stage = os.environ.get("DVC_STAGE")
    found: list[str] = []
    if not stage:
        return found
    pid = os.getppid()
    try:
        while pid > 1:
            process = psutil.Process(pid)
            found.append(name_of(pid))
            if process.environ().get("DVC_STAGE") != stage:
                return found
            pid = process.ppid()
    except psutil.Error:  # another user's process, or it ended a moment ago
        pass
    raise ProcessLookupError(f"the DVC process that started stage {stage} is gone")


def _alive(name: str) -> bool:
    pid = int(name.partition(":")[0])
    try:
        return name_of(pid) == name and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:  # another user's process, or it ended while we looked
            continue
    return found


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def watch(mark: str, names: list[str]) -> None:
    """Wait until one of the processes `names` has ended, then kill the first of them, the run, and all that bears its mark."""
    while all(map(_alive, names)):
        time.sleep(POLL)
    if _alive(names[0]):
        _kill(psutil.Process(int(names[0].partition(":")[0])))
    # A process may be born while its siblings die: look again until none is left.
    for _ in range(_SWEEPS):
        left = _marked(mark)
        for process in left:
            _kill(process)
        if not left:
            return
        time.sleep(POLL / 4)


if __name__ == "__main__":
    watch(sys.argv[1], sys.argv[2:])
