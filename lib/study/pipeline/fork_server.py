"""Start modules in forks of a process that has already imported their packages.

Kernels and the processes that run papermill would spend about one and a half seconds on imports
(`study.pipeline`). A fork has them already.

`serving` starts the process that has the imports, the server. `run` asks the server to do what
``python -m MODULE ARGUMENTS`` would do, with the caller's streams, folder and environment. For each
request the server forks a supervisor, and the supervisor forks the process that runs the module.
There are two forks because the server must stay free for the next caller, while someone has to wait
for the module: the supervisor passes signals on to it, reports its exit status, and kills it when
the caller is gone::

    caller (run) --socket--> supervisor --fork--> module
                                 ^
                               fork
                                 |
                              server

Of our own code, the server imports only this module, `study.paths` and `study.pipeline.processes`
and their imports. So every run uses the other modules as they are when it starts. The fork server
of the standard library serves only the process that started it, but here DVC starts the callers.
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
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from study.paths import ROOT
from study.pipeline.processes import end_with_parent, set_environment, socket_folder

SOCKET = "LTD_FORK_SERVER"
"""Environment variable with the path of the server's socket."""

PACKAGES = (
    "numpy",
    "pandas",
    "pandas.io.formats.style",
    "xarray",
    "dask.array",
    "netCDF4",
    "scipy.stats",
    "scipy.optimize",
    "scipy.interpolate",
    "matplotlib.pyplot",
    "torch",
    "torch._dynamo",  # which the first optimizer of a process imports
    "numba",
    "sklearn.datasets",
    "statsmodels.api",
    "statsmodels.formula.api",
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "papermill",
    "nbclient",
    "pydantic",
    "ruamel.yaml",
)
"""Modules that the server imports."""


class Request(NamedTuple):
    """A module to run, with the environment, folder and streams of the caller."""

    command: list[str]
    """The module's name and its arguments."""
    environment: dict[str, str]
    folder: str
    streams: list[int]
    """File descriptors of standard input, output and error."""


@contextlib.contextmanager
def serving(*modules: str) -> Iterator[subprocess.Popen]:
    """Keep a server to fork from while the context lasts.

    Parameters
    ----------
    modules
        Names of further modules that the server imports. They may be our own if their code does not
        change while the context lasts.

    Yields
    ------
    subprocess.Popen
        The server; it ends with this process.
    """
    set_environment()
    with socket_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(folder, "server"))
        listener.bind(path)
        listener.listen(64)  # callers wait while the packages load
        number = listener.fileno()
        with subprocess.Popen(
            [sys.executable, "-m", "study.pipeline.fork_server", str(number), *modules],
            stdin=subprocess.PIPE,  # the server ends when this is closed
            pass_fds=[number],
            cwd=ROOT,
            # IPython's kernel sets this if it is the first to import matplotlib.
            env=os.environ | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"},
            start_new_session=True,
        ) as server:
            listener.close()
            os.environ[SOCKET] = path
            try:
                yield server
            finally:
                os.environ.pop(SOCKET, None)


def run(command: Sequence[str]) -> int:
    """Run ``python -m`` with this command in a fork, which does not outlive the caller.

    Parameters
    ----------
    command
        A module and its arguments.

    Returns
    -------
    int
        The exit status, negative if a signal ended it. An interrupt is passed on to the fork.

    Raises
    ------
    ConnectionError
        No server answers.
    """
    try:
        connection = _connect(os.environ[SOCKET])
    except OSError as error:
        raise ConnectionError(f"no process to fork from at {os.environ[SOCKET]}") from error
    with connection:
        request = {
            "command": list(command),
            "environment": dict(os.environ),
            "folder": str(Path.cwd()),
        }
        socket.send_fds(connection, [b"\n"], [0, 1, 2])
        connection.sendall(json.dumps(request).encode() + b"\n")
        while True:
            try:
                status = connection.recv(64)
                if not status:  # the supervisor was killed
                    return -signal.SIGKILL
                return int(status)
            except KeyboardInterrupt:
                connection.send(bytes([signal.SIGINT]))


def _connect(path: str) -> socket.socket:
    """Return a connection to the server's socket."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def serve(listener: socket.socket, modules: Sequence[str]) -> Request:
    """Fork a supervisor for every caller, until the process that started this ends.

    Parameters
    ----------
    listener
        Unix socket on which callers connect.
    modules
        Names of the modules that the server imports.

    Returns
    -------
    Request
        What to run. The function returns only in the forked process that runs it.
    """
    ready, _, _ = select.select([sys.stdin, listener], [], [])
    if listener in ready:
        for name in modules:
            pkgutil.resolve_name(name)
        gc.freeze()  # so that garbage collection in forks does not copy the memory of these objects
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for supervisors
    while True:
        ready, _, _ = select.select([sys.stdin, listener], [], [])
        if sys.stdin in ready:
            os._exit(0)  # whoever started this has ended
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return _supervise(connection)
        connection.close()


def _supervise(connection: socket.socket) -> Request:
    """Fork the process that runs a module. Return in that process; else wait for it and exit."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    end_with_parent()
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    message = connection.makefile("rb").readline()
    if not message.endswith(b"\n"):
        os._exit(0)  # the caller has ended
    process = os.fork()
    if process == 0:
        os.setpgid(0, 0)
        end_with_parent()
        connection.close()
        return Request(**json.loads(message), streams=streams)
    with contextlib.suppress(OSError):  # the fork was faster
        os.setpgid(process, process)
    for stream in streams:
        os.close(stream)
    threading.Thread(target=_pass_signals, args=(connection, process), daemon=True).start()
    _, status = os.waitpid(process, 0)
    with contextlib.suppress(OSError):  # the caller has ended
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _pass_signals(connection: socket.socket, process: int) -> None:
    """Send the caller's signals to the group of `process`, and kill it when the caller is gone."""
    while True:
        try:
            message = connection.recv(1)
        except ConnectionError:
            message = b""
        number = signal.SIGKILL
        if message:
            number = message[0]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, number)
        if not message:
            return


def become(request: Request) -> None:
    """Turn this process into the one that ``python -m`` with a command would be.

    Parameters
    ----------
    request
        The command with its environment, folder and streams.
    """
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    sys.argv = request.command
    try:
        runpy.run_module(request.command[0], run_name="__main__", alter_sys=True)
    except KeyboardInterrupt:  # before the work began, so there is nothing to keep
        sys.exit(130)


if __name__ == "__main__":
    descriptor, *more = sys.argv[1:]
    become(serve(socket.socket(fileno=int(descriptor)), [*PACKAGES, *more]))
