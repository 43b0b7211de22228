"""Environment and lifetime of the processes of a run, which all end with their parent."""

import contextlib
import ctypes
import os
import select
import signal
import tempfile
import threading
from pathlib import Path

import psutil

from study.pipeline.instructions import pin_instructions

_PR_SET_PDEATHSIG = 1
"""Number of Linux's prctl option that sends a signal when the parent ends."""
_LONGEST_FOLDER = 60
"""Longest folder name for which the path of a socket fits into Linux's limit of 107 bytes."""
HERE = Path(__file__).parent
DEPENDS = ["kernels"]
"""Jupyter finds our kernel specification in this folder (see `study.pipeline.modules`)."""

_DEFAULTS = {
    "PYTHONHASHSEED": "0",  # so that sets of strings have the same order in every run
    "PYTHONWARNINGS": "ignore:IProgress not found",  # a widget that nobody would see
    # One thread each. With more, last digits would depend on the number of cores. And a fork would
    # not have the threads of its parent.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_FIXED = {"COLUMNS": "80", "LINES": "24"}
"""The size of the terminal, which determines the layout of printed tables."""


def set_environment() -> None:
    """Set the environment variables of kernels.

    Variables that are already set keep their values, except for the size of the terminal, which is
    always the same. Instructions are pinned if params.yaml says so.

    Raises
    ------
    InstructionError
        Instructions can't be pinned on this processor.
    """
    pin_instructions()
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    os.environ.update(_FIXED)


def use_our_kernel() -> None:
    """Put our kernel (`study.pipeline.kernel`) first on Jupyter's path."""
    paths = [str(HERE)]
    if os.environ.get("JUPYTER_PATH"):
        paths.append(os.environ["JUPYTER_PATH"])
    os.environ["JUPYTER_PATH"] = os.pathsep.join(paths)


def end_with_parent() -> None:
    """Ask Linux to kill this process as soon as its parent ends, even by ``kill -9``."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_dvc() -> None:
    """Kill this process as soon as the DVC that started it ends, even by ``kill -9``.

    There may be a shell between DVC and this process, so `end_with_parent` is not enough. If DVC
    did not start this process, nothing happens, so that ``nohup make repro &`` outlives its
    terminal.
    """
    stage = os.environ.get("DVC_STAGE")
    if not stage:
        return
    for ancestor in psutil.Process().parents():
        with contextlib.suppress(psutil.Error):  # another user's process
            # DVC sets the variable for its commands, so the first ancestor without it is DVC.
            if ancestor.environ().get("DVC_STAGE") != stage:
                threading.Thread(target=_end_with, args=(ancestor.pid,), daemon=True).start()
                return


def _end_with(process: int) -> None:
    """Wait until a process has ended, then kill this one."""
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        select.select([os.pidfd_open(process)], [], [])  # readable when it has ended
    os.kill(os.getpid(), signal.SIGKILL)


def socket_folder() -> tempfile.TemporaryDirectory:
    """Return a temporary folder for sockets, whose paths must be short.

    It is in ``/tmp`` if the name of the usual folder (``TMPDIR``) is too long.

    Returns
    -------
    tempfile.TemporaryDirectory
        Removed at the end of a ``with`` block.
    """
    folder = tempfile.gettempdir()
    if len(folder) > _LONGEST_FOLDER:
        folder = "/tmp"
    return tempfile.TemporaryDirectory(dir=folder)
