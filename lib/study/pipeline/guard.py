"""A small process that ends a run's kernels, and all that the kernels started, when the run is gone.

`kill -9` gives the killed process no chance to tidy up, and a kernel runs in a session of its own: without help it
would go on, and overwrite the outputs of the next run. The guard, ``python -m study.pipeline.guard MARK PID...``, watches the
run (the first process) and, where DVC started it, DVC. As soon as one of them is gone it kills the run and every process that
inherited the run's mark in its environment; a mark survives what process groups and parents do not, such as
Dask's workers whose parent has died.
"""

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import time

import psutil

from study.paths import ROOT

MARK = "LTD_RUN"
"""Environment variable whose value marks all processes of one run."""

_SWEEPS, _PAUSE = 20, 0.05
"""How often `end_marked` looks at most, and seconds between two looks."""


def start(watched: list[int]) -> None:
    """Mark this process's future children and start the guard over them; it and `watched` must live for the run to go on."""
    mark = secrets.token_hex(8)
    # Its own session, no pipes and no mark: neither Ctrl-C nor a guard above this one ends it.
    subprocess.Popen(
        [sys.executable, "-m", "study.pipeline.guard", mark, *map(str, [os.getpid(), *watched])],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != MARK},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.environ[MARK] = mark


def pipeline_ancestors() -> list[int]:
    """Return the shells between this process and DVC, and DVC itself; nothing if DVC did not start it.

    DVC gives the commands of a stage the variable ``DVC_STAGE``, so DVC is the nearest ancestor that was started
    without it; a ProcessLookupError says that it is already gone. Above DVC nothing is watched: `nohup make repro &`
    outlives its terminal.
    """
    stage = os.environ.get("DVC_STAGE")
    found: list[int] = []
    if not stage:
        return found
    with contextlib.suppress(psutil.Error):  # another user's process, or it ended a moment ago
        for process in psutil.Process().parents():
            found.append(process.pid)
            if process.environ().get("DVC_STAGE") != stage:
                return found
    raise ProcessLookupError(f"the DVC process that started stage {stage} is gone")


def end_marked(mark: str) -> None:
    """Kill every process that bears the mark; a process may be born while its siblings die, so look until none is left."""
    for _ in range(_SWEEPS):
        # Of another user's process, or of one that has ended, the environment is None.
        running = psutil.process_iter(["environ"])
        left = [one for one in running if (one.info["environ"] or {}).get(MARK) == mark]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if not left:
            return
        time.sleep(_PAUSE)


def watch(mark: str, pids: list[int]) -> None:
    """Wait until one of the processes has ended, then kill the first of them, the run, and all that bears its mark."""
    with contextlib.suppress(ProcessLookupError):  # whoever has ended already
        run = os.pidfd_open(pids[0])
        with contextlib.suppress(ProcessLookupError):
            # Readable as soon as a process has ended, also where nobody collects it.
            select.select([run, *map(os.pidfd_open, pids[1:])], [], [])
        signal.pidfd_send_signal(run, signal.SIGKILL)
    end_marked(mark)


if __name__ == "__main__":
    watch(sys.argv[1], list(map(int, sys.argv[2:])))
