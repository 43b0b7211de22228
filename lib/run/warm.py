"""Start modules in forks of one process that has imported what they need: a notebook begins seconds sooner.

``python -m lib.run.warm SOCKET`` is that process, and `serving` starts it. `Forked` asks it for what ``python -m MODULE
ARGUMENTS`` would do, with the caller's streams, folder and environment. Of this project only this module and `lib.paths` are
imported before the fork, so every run sees the code as it is then. The standard library's fork server serves the process that
started it alone; the stages of DVC are others.
"""

import contextlib
import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NoReturn

from lib.paths import ROOT

SOCKET = "LTD_WARM"
"""Environment variable with the path of the socket where such a process listens."""

PACKAGES = (
    "numpy pandas pandas.io.formats.style xarray dask.array netCDF4 scipy.stats scipy.optimize scipy.interpolate matplotlib.pyplot "
    "torch torch._dynamo numba sklearn.datasets statsmodels.api statsmodels.formula.api "  # an optimiser of torch imports _dynamo
    "ipykernel.kernelapp ipykernel.ipkernel papermill nbclient pydantic ruamel.yaml"
)

_SET = {
    "PYTHONHASHSEED": "0",  # sets of strings print in one order
    "PYTHONWARNINGS": "ignore:IProgress not found",  # a widget that nobody would watch
    # One thread each: more would change last digits with the number of cores, and threads do not outlive a fork.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def set_environment() -> None:
    """Set what kernels expect of their environment, unless somebody has set it otherwise."""
    for name, value in _SET.items():
        os.environ.setdefault(name, value)


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Keep a process to fork from while the context lasts; it ends with this one, however that ends."""
    set_environment()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "socket"))
        command = [sys.executable, "-m", "lib.run.warm", path]
        # As IPython's kernel sets it where it is the first to import matplotlib.
        environment = os.environ | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, cwd=ROOT, env=environment, start_new_session=True
        ) as server:  # leaving closes its input, at which it ends
            while server.poll() is None and not Path(path).exists():
                time.sleep(0.01)
            if server.poll() is None:  # else each starts by itself
                os.environ[SOCKET] = path
            try:
                yield path
            finally:
                os.environ.pop(SOCKET, None)


class Forked:
    """What runs a module with arguments in a fork of the process that listens; used as a `subprocess.Popen`.

    A ConnectionError says that nobody listens any more.
    """

    alive: ClassVar[set["Forked"]] = set()
    stdin = stdout = stderr = None

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike | None = None
    ) -> None:
        self.returncode: int | None = None
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.connect(os.environ[SOCKET])
        request = {"command": [*command], "env": dict(env), "cwd": str(cwd or Path.cwd())}
        socket.send_fds(self._connection, [json.dumps(request).encode()], [0, 1, 2])
        self.pid = int(self._connection.recv(64) or 0)
        if not self.pid:
            raise ConnectionError("the process that notebooks are forked from has ended")
        self.alive.add(self)

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once it has ended."""
        if self.returncode is None:
            self.returncode = int(self._connection.recv(64) or -signal.SIGKILL)
            self._connection.close()
            self.alive.discard(self)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to its process group."""
        _signal(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def run(command: Sequence[str]) -> int:
    """Run ``python -m`` with this command in a fork and return its exit status; an interrupt is passed on to it."""
    forked = Forked(command, os.environ)
    while True:
        try:
            return forked.wait()
        except KeyboardInterrupt:
            forked.send_signal(signal.SIGINT)


def serve(path: str) -> dict:
    """Listen at `path`, import the packages when the first asks, and fork; return in each fork what it is to run, and never otherwise."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{path}.part")
    listener.listen(64)
    Path(f"{path}.part").rename(path)  # who sees it can connect, and waits while the packages load
    if sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
        for name in PACKAGES.split():
            pkgutil.resolve_name(name)
        gc.freeze()  # collections in the forks leave all this alone, and share its memory
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that watch the forks
    while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
        connection, _ = listener.accept()
        message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        if message and os.fork() == 0:  # without one, whoever asked has ended
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            if pid := os.fork():
                _close(streams)
                _watch(pid, connection)
            os.setpgid(0, 0)
            connection.close()
            return json.loads(message) | {"streams": streams}
        connection.close()
        _close(streams)
    os._exit(0)  # whoever started this has ended


def _close(streams: list[int]) -> None:
    for stream in streams:
        os.close(stream)


def _watch(pid: int, connection: socket.socket) -> NoReturn:
    """Tell the number and the exit status of a fork to whom asked for it; end it when they or the server's starter end before."""
    with contextlib.suppress(OSError):  # the fork was faster
        os.setpgid(pid, pid)
    with contextlib.suppress(OSError):  # nobody listens any more
        connection.send(str(pid).encode())
    ended = os.pidfd_open(pid)
    if ended not in select.select([ended, connection, sys.stdin], [], [])[0]:
        _signal(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        connection.send(str(status).encode())
    os._exit(0)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        os.killpg(pid, number)


def become(command: list[str], env: dict[str, str], cwd: str, streams: list[int]) -> None:
    """Be the process that ``python -m`` with this command would be."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    become(**serve(sys.argv[1]))
