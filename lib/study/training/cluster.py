"""Connect to the Dask workers that run jobs: local processes, or those of a remote scheduler."""

import contextlib
import copy
import logging
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from typing import Literal

import dask
import torch
from dask.distributed import Client, LocalCluster, Security, get_worker

from study.paths import CACHE

ANSWER_TIMEOUT = "30s"
"""Time limit for a remote scheduler to answer."""
JOIN_SECONDS = 60.0
"""Time limit in seconds for the first worker of a remote scheduler to join."""
CLOSE_SECONDS = 20.0
"""Time limit in seconds for local workers to end."""
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
"""Environment variable that names the GPUs of a process."""
_ENVIRONMENT = {
    # By default, Dask's workers return freed memory to the system at once. But the buffers of a
    # network are needed again for the next batch, and getting new pages takes up to two fifths of
    # an LSTM's training time.
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    # Dask runs jobs in a thread, and a thread's own memory arena can't hold arrays above 64 MB.
    # Such arrays (long series, large vocabularies) would get new pages every time, and a softmax
    # over 10,000 words would take 2.3 times as long. One arena for all threads avoids that.
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Otherwise workers log many lines when the scheduler ends before them.
    "DASK_LOGGING__DISTRIBUTED": "critical",
}
"""Environment of local workers."""
_LOCAL = {
    "distributed.nanny.pre-spawn-environ": _ENVIRONMENT,
    # A worker that died may need long to restart on a busy machine, so wait for it. But give up
    # after three minutes without any worker.
    "distributed.deploy.lost-worker-timeout": "1 day",
    "distributed.scheduler.no-workers-timeout": "3 minutes",
}


@contextlib.contextmanager
def connect(scheduler: str, workers: int | Literal["auto"]) -> Iterator[Client]:
    """Connect to local processes, or to the scheduler at an address.

    Each local process has one thread, because on a CPU one process per core trains faster than
    threads or vmapped passes. The processes use TLS with temporary certificates, which takes 0.1 s,
    so that no other user of the machine can connect. Processes that die are restarted. After three
    minutes without any process, futures fail with Dask's ``NoWorkerError``.

    Parameters
    ----------
    scheduler : str
        ``local``, or an address such as ``tcp://host:8786``.
    workers : int or str
        Number of local processes; 0 for one per core, ``auto`` for one per GPU, or one per core on
        a machine without GPUs.

    Yields
    ------
    Client

    Raises
    ------
    ConnectionError
        No scheduler answers at the address, no worker joins it, a worker has more than one thread,
        or TLS has no certificates.
    """
    with contextlib.ExitStack() as stack:
        if scheduler == "local":
            stack.enter_context(dask.config.set(_LOCAL))
            cluster = _local_cluster(workers)
            stack.callback(_close, cluster)
            yield stack.enter_context(Client(cluster))
        else:
            client = stack.enter_context(_client(scheduler))
            _wait_for_workers(client, scheduler)
            yield client


def visible_devices() -> list[str]:
    """Return the GPUs that this process may use.

    Returns
    -------
    list of str
        Their names in the environment variable `VISIBLE_DEVICES`, or their numbers.
    """
    count = torch.cuda.device_count()
    named = os.environ.get(VISIBLE_DEVICES)
    if named:
        return named.split(",")[:count]
    return [str(index) for index in range(count)]


class _OneWorkerPerGPU(LocalCluster):
    """A local cluster whose workers see one GPU each."""

    def __init__(self, devices: Sequence[str], **options: object) -> None:
        self._devices = devices
        super().__init__(n_workers=0, **options)
        self.scale(len(devices))
        self.wait_for_workers(len(devices))

    def new_worker_spec(self) -> dict:
        """Return the name and the options of the next worker, which include its GPU."""
        ((name, spec),) = super().new_worker_spec().items()
        device = self._devices[name % len(self._devices)]
        spec = copy.copy(spec)
        spec["options"] = {**spec["options"], "env": {VISIBLE_DEVICES: device}}
        return {name: spec}


def _local_cluster(workers: int | Literal["auto"]) -> LocalCluster:
    """Start local workers, see `connect`."""
    options = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": "127.0.0.1:0",
        "memory_limit": 0,
        "local_directory": str(CACHE / "dask"),
        "silence_logs": logging.CRITICAL,  # otherwise workers log when they end or restart
        "protocol": "tls://",
        "security": Security.temporary(),
    }
    if workers != "auto":
        # None means one per core that this process may use.
        return LocalCluster(n_workers=workers or None, **options)
    devices = visible_devices()
    if devices:
        return _OneWorkerPerGPU(devices, **options)
    return LocalCluster(n_workers=None, **options)


def _wait_for_workers(client: Client, scheduler: str) -> None:
    """Wait for the first worker of a remote scheduler; refuse workers with several threads."""
    try:
        client.wait_for_workers(1, timeout=JOIN_SECONDS)
    except TimeoutError:
        raise ConnectionError(
            f"no worker has joined the scheduler at {scheduler} in {JOIN_SECONDS:.0f} s; "
            "start one from the driver's commit and environment with "
            f"`{worker_command(scheduler)}`"
        ) from None
    for worker, threads in client.nthreads().items():
        refuse_threads(worker, threads, scheduler)


def worker_command(scheduler: str) -> str:
    """Return the shell command that starts a worker.

    Parameters
    ----------
    scheduler : str
        Address of the worker's scheduler.

    Returns
    -------
    str
        One process with one thread and, like local workers, without a memory limit. Dask's default
        limit for it is the machine's memory divided by the number of cores, and Dask would kill a
        worker that needs more.
    """
    return f"dask worker --nthreads 1 --nworkers 1 --memory-limit 0 {scheduler}"


def refuse_threads(worker: str, threads: int, scheduler: str) -> None:
    """Refuse a worker with several threads.

    PyTorch has one random number generator per process. Two jobs in one process would draw from it
    in turn, and their dropout masks would depend on which thread ran first.

    Parameters
    ----------
    worker : str
        Address of the worker.
    threads : int
        Number of its threads.
    scheduler : str
        Address of its scheduler, for the advice.

    Raises
    ------
    ConnectionError
        The worker has more than one thread.
    """
    if threads > 1:
        raise ConnectionError(
            f"the worker at {worker} has {threads} threads, which would share PyTorch's random "
            f"numbers; restart it with `{worker_command(scheduler)}`, once per core"
        )


def check_this_worker() -> None:
    """Refuse to run on a worker with several threads.

    `connect` checks the workers that it sees. Others may join later, so each worker also checks
    itself. If the call does not run on a Dask worker, nothing is checked.

    Raises
    ------
    ConnectionError
        The worker has more than one thread.
    """
    try:
        worker = get_worker()
    except ValueError:  # called directly, not by Dask
        return
    refuse_threads(worker.address, worker.state.nthreads, worker.scheduler.address)


def _client(scheduler: str) -> Client:
    """Return a client of the scheduler at an address.

    Raises `ConnectionError` if none answers, or TLS has no certificates.
    """
    # A client that can't connect would remain Dask's default scheduler, and xarray would use it to
    # write the next file, which would fail. `scheduler=None` prevents that if no scheduler answers.
    # It does not if certificates are missing, so they are checked before the client is created.
    tls = scheduler.startswith("tls://")
    if tls and not Security().get_connection_args("client")["ssl_context"]:
        raise ConnectionError(
            f"the scheduler at {scheduler} uses TLS, and Dask's configuration names no "
            "certificates; set distributed.comm.tls.ca-file, .client.key and .client.cert in "
            "~/.config/dask/distributed.yaml"
        )
    try:
        with dask.config.set(scheduler=None):
            return Client(scheduler, timeout=ANSWER_TIMEOUT)
    except OSError as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {scheduler} ({error}); start one with "
            "`dask scheduler`, or set scheduler to 'local' in params.yaml"
        ) from None


def _close(cluster: LocalCluster) -> None:
    """Close a local cluster; kill workers that hang while they start."""
    try:
        cluster.close(timeout=CLOSE_SECONDS)
    except TimeoutError:
        for process in multiprocessing.active_children():
            if "Dask" in process.name:
                process.kill()
