"""Start modules in forks of one process that has imported what they need: a notebook begins seconds sooner.

`serving` starts that process. `run` asks it for what ``python -m MODULE ARGUMENTS`` would do, with the caller's streams, folder and
environment; Jupyter starts kernels by a specification that does the same. Of this project only this module and `study.paths` are
imported before the fork, so every run sees the code as it is then. The standard library's fork server serves the process that
started it alone; the stages of DVC are others.
"""

import contextlib
import ctypes
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
from collections.abc import Iterator, Sequence
from pathlib import Path

from study.paths import ROOT

SOCKET = "LTD_WARM"
"""Environment variable with the path of the socket where such a process listens."""

PACKAGES = (
    "numpy pandas pandas.io.formats.style xarray dask.array netCDF4 scipy.stats scipy.optimize scipy.interpolate matplotlib.pyplot "
    "torch torch._dynamo numba sklearn.datasets statsmodels.api statsmodels.formula.api "  # an optimiser of torch imports _dynamo
    "ipykernel.kernelapp ipykernel.ipkernel papermill nbclient pydantic ruamel.yaml"
)

_CLIENT = "import sys; from study.pipeline import warm; sys.exit(warm.run(sys.argv[1:]))"
_DEATH_SIGNAL = 1
"""Linux's number of the request to be sent a signal when the parent ends, however that ends."""

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
def serving() -> Iterator[subprocess.Popen]:
    """Keep a process to fork from while the context lasts, and give it; it ends with this one, however that ends."""
    set_environment()
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
    ):
        path, number = str(Path(folder, "socket")), listener.fileno()
        listener.bind(path)
        listener.listen(64)  # who asks waits while the packages load
        kernel = Path(folder, "kernels/python3/kernel.json")
        kernel.parent.mkdir(parents=True)
        argv = [sys.executable, "-c", _CLIENT, "ipykernel_launcher", "-f", "{connection_file}"]
        kernel.write_text(json.dumps({"argv": argv, "display_name": "", "language": "python"}))
        with subprocess.Popen(
            [sys.executable, "-m", "study.pipeline.warm", str(number)],
            stdin=subprocess.PIPE,
            pass_fds=[number],
            cwd=ROOT,
            # As IPython's kernel sets it where it is the first to import matplotlib.
            env=os.environ | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"},
            start_new_session=True,
        ) as server:  # leaving closes its input, at which it ends
            listener.close()
            os.environ[SOCKET] = path
            try:
                yield server
            finally:
                os.environ.pop(SOCKET, None)


def begin() -> None:
    """Let the process import its packages now, while the caller does something else."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(os.environ[SOCKET])


def use_kernels() -> None:
    """Let Jupyter start its kernels in forks too, where there is a process to fork from."""
    if SOCKET in os.environ:
        os.environ["JUPYTER_PATH"] = str(Path(os.environ[SOCKET]).parent)


def run(command: Sequence[str]) -> int:
    """Run ``python -m`` with this command in a fork and return its exit status.

    An interrupt is passed on to it, and it does not outlive the caller. A ConnectionError says that nobody listens.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(os.environ[SOCKET])
        request = {"command": [*command], "env": dict(os.environ), "cwd": str(Path.cwd())}
        socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
        while True:
            try:
                return int(connection.recv(64) or -signal.SIGKILL)
            except KeyboardInterrupt:
                connection.send(str(signal.SIGINT.value).encode())


def serve(listener: socket.socket) -> dict:
    """Import the packages when the first asks, and fork; return in each fork what it is to run, and never otherwise."""
    if sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
        for name in PACKAGES.split():
            pkgutil.resolve_name(name)
        gc.freeze()  # collections in the forks leave all this alone, and share its memory
    forks: dict[int, tuple[int, socket.socket]] = {}
    """By what becomes readable when it ends: the number of each, and the connection of who asked for it."""
    while True:
        asked = {connection: pid for pid, connection in forks.values()}
        ready = select.select([sys.stdin, listener, *forks, *asked], [], [])[0]
        if sys.stdin in ready:
            os._exit(0)  # whoever started this has ended; so do the forks
        for ended in forks.keys() & ready:
            pid, connection = forks.pop(ended)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(OSError):  # nobody listens any more
                connection.send(str(status).encode())
            connection.close()
            os.close(ended)
        for connection in asked.keys() & ready:
            with contextlib.suppress(OSError):  # the fork has ended
                os.killpg(asked[connection], int(connection.recv(64) or signal.SIGKILL))
        if listener in ready:
            connection, _ = listener.accept()
            message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            if message:  # without one, whoever asked has ended
                if (pid := os.fork()) == 0:
                    os.setpgid(0, 0)
                    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
                    return json.loads(message) | {"streams": streams}
                with contextlib.suppress(OSError):  # the fork was faster
                    os.setpgid(pid, pid)
                forks[os.pidfd_open(pid)] = pid, connection
            for stream in streams:
                os.close(stream)


def become(command: list[str], env: dict[str, str], cwd: str, streams: list[int]) -> None:
    """Be the process that ``python -m`` with this command would be."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = command
    try:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    except KeyboardInterrupt:  # before anything had begun that could be kept
        sys.exit(130)


if __name__ == "__main__":
    become(**serve(socket.socket(fileno=int(sys.argv[1]))))
