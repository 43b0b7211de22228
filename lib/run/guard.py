"""A small process that ends a notebook's kernel, and all that the kernel started, when its run is gone.

`kill -9` gives the killed process no chance to tidy up, and a kernel runs in a session of its own: without help it
would go on, and overwrite the outputs of the next run. The guard is a process of its own that watches the
run and, where DVC started it, DVC. As soon as one of them is gone it kills the run and every process that
inherited the run's mark in its environment; a mark survives what process groups and parents do not, such as
Dask's workers whose parent has died.

The run starts it as ``python -m lib.run.guard MARK PID:TIME...``.
"""

import os
import subprocess
import sys
import time

import psutil

from lib.paths import ROOT

MARK = "LTD_RUN"
"""Environment variable whose value marks all processes of one run."""

POLL = 0.2
"""Seconds between two looks at the watched processes."""

_SWEEPS = 20


def start(watched: list[psutil.Process]) -> None:
    """Mark this process's future children and start the guard over them.

    Parameters
    ----------
    watched
        Processes that must all live for the run to go on, beside this one.
    """
    me = psutil.Process()
    mark = f"{me.pid}:{me.create_time()}"
    names = [f"{process.pid}:{process.create_time()}" for process in (me, *watched)]
    # Its own session, no pipes and no mark: neither Ctrl-C nor a guard above this one ends it.
    subprocess.Popen(
        [sys.executable, "-m", "lib.run.guard", mark, *names],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != MARK},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.environ[MARK] = mark


def pipeline_ancestors() -> list[psutil.Process]:
    """Return the shells between this process and DVC, and DVC itself; nothing if DVC did not start it.

    DVC gives the commands of a stage the variable ``DVC_STAGE``, so DVC is the nearest ancestor that was started
    without it. Above DVC nothing is watched: `nohup make repro &` outlives its terminal.

    Raises
    ------
    ProcessLookupError
        DVC is already gone.
    """
    stage = os.environ.get("DVC_STAGE")
    found: list[psutil.Process] = []
    if not stage:
        return found
    for process in psutil.Process().parents():
        if process.pid == 1:
            break
        found.append(process)
        try:
            if process.environ().get("DVC_STAGE") != stage:
                return found
        except psutil.Error:  # another user's process, or it ended a moment ago
            break
    raise ProcessLookupError(f"the DVC process that started stage {stage} is gone")


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _find(name: str) -> psutil.Process | None:
    """Return the process ``PID:TIME``, or None if it has ended (its number may be another's by now)."""
    pid, _, started = name.partition(":")
    try:
        process = psutil.Process(int(pid))
        return process if process.create_time() == float(started) else None
    except psutil.NoSuchProcess:
        return None


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and _alive(process):
                found.append(process)
        except psutil.Error:  # another user's process, or it ended while we looked
            continue
    return found


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def watch(mark: str, names: list[str]) -> None:
    """Wait until one of the processes `names` has ended, then kill the run and all that bears its mark."""
    watched = [_find(name) for name in names]
    while all(process is not None and _alive(process) for process in watched):
        time.sleep(POLL)
    run = watched[0]
    if run is not None:
        _kill(run)
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
