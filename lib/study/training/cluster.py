"""Where jobs run: local processes, or a Dask scheduler somewhere else."""

import contextlib
import logging
import multiprocessing
from collections.abc import Iterator

import dask
from dask.distributed import Client, LocalCluster, Security, get_worker

from study.paths import CACHE

TIMEOUT = "30s"
"""How long a remote scheduler may take to answer."""
WORKERS = 60.0
"""Seconds that a remote scheduler's first worker may take to join."""
CLOSE = 20.0
"""Seconds that local workers have to end."""
_ENVIRONMENT = {
    # Dask makes workers give freed memory back at once. A network's buffers return with every batch, and
    # fresh pages cost up to two fifths of an LSTM's training time.
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    # Jobs run in a thread, whose own arena holds no array above 64 MB: those of long series and of large vocabularies would
    # lie on fresh pages all the same, which takes a softmax of 10,000 words 2.3 times as long.
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # At the end workers find their scheduler gone, and say so at length.
    "DASK_LOGGING__DISTRIBUTED": "critical",
}
"""What local workers find in their environment when they start."""
_LOCAL = {
    "distributed.nanny.pre-spawn-environ": _ENVIRONMENT,
    # A worker that dies is started again, however long that takes on a busy machine; jobs that find none at all are given up.
    "distributed.deploy.lost-worker-timeout": "1 day",
    "distributed.scheduler.no-workers-timeout": "3 minutes",
}


@contextlib.contextmanager
def connect(scheduler: str, workers: int) -> Iterator[Client]:
    """Give a Dask client: of the scheduler at an address, or of local processes (see `study.config.jobs.Jobs`).

    Local processes are single-threaded, one per core trains faster than threads or ensembles on a CPU; they speak TLS with certificates
    made for them alone (0.1 s), so that no other user of the machine reaches them. Those that die are started again; where none comes for
    three minutes, futures end with Dask's `NoWorkerError`.

    Raises `ConnectionError` if no scheduler answers at the address, no worker joins it, a worker has more than one thread, or TLS has
    no certificates.
    """
    with contextlib.ExitStack() as stack:
        if scheduler == "local":
            stack.enter_context(dask.config.set(_LOCAL))
            cluster = LocalCluster(
                n_workers=workers or None,  # the cores that this process may use
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",
                memory_limit=0,
                local_directory=str(CACHE / "dask"),
                silence_logs=logging.CRITICAL,  # of workers that end, and come again
                protocol="tls://",
                security=Security.temporary(),
            )
            stack.callback(_close, cluster)
            client = stack.enter_context(Client(cluster))
        else:
            client = stack.enter_context(_client(scheduler))
            try:
                client.wait_for_workers(1, timeout=WORKERS)
            except TimeoutError:
                raise ConnectionError(
                    f"no worker has joined the scheduler at {scheduler} in {WORKERS:.0f} s; "
                    "start one from the driver's commit and environment with "
                    f"`{worker_command(scheduler)}`"
                ) from None
            for worker, threads in client.nthreads().items():
                refuse_threads(worker, threads, scheduler)
        yield client


def worker_command(scheduler: str) -> str:
    """Return the command that starts a worker of the scheduler at an address."""
    return f"dask worker {scheduler} --nthreads 1"


def refuse_threads(worker: str, threads: int, scheduler: str) -> None:
    """Refuse a worker with several threads.

    PyTorch has one random number generator per process. Two jobs in one process would draw from
    it in turns, and their dropout masks would depend on which thread ran first.

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
            f"numbers; start it again with `{worker_command(scheduler)}`, once per core"
        )


def this_worker() -> tuple[str, int]:
    """Return the address and the number of threads of the worker that runs this call.

    Returns
    -------
    tuple of (str, int)
        The address is empty, and there is one thread, if no Dask worker runs it.

    Raises
    ------
    ConnectionError
        The worker has more than one thread: it joined after the driver had looked.
    """
    try:
        worker = get_worker()
    except ValueError:  # called directly, not by Dask
        return "", 1
    threads = worker.state.nthreads
    refuse_threads(worker.address, threads, worker.scheduler.address)
    return worker.address, threads


def _client(scheduler: str) -> Client:
    """Return a client of the scheduler at an address; raises `ConnectionError` where none answers or TLS has no certificates."""
    # A client that fails stays Dask's default scheduler, and the next file could not be written: `scheduler=None` keeps it from
    # that where nobody answers. Without certificates it would stay all the same, so they are looked for before there is one.
    tls = scheduler.startswith("tls://")
    if tls and not Security().get_connection_args("client")["ssl_context"]:
        raise ConnectionError(
            f"the scheduler at {scheduler} speaks TLS, and Dask's configuration names no certificates; set "
            "distributed.comm.tls.ca-file, .client.key and .client.cert in ~/.config/dask/distributed.yaml"
        )
    try:
        with dask.config.set(scheduler=None):
            return Client(scheduler, timeout=TIMEOUT)
    except OSError as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {scheduler} ({error}); start one with "
            "`dask scheduler`, or set scheduler to 'local' in params.yaml"
        ) from None


def _close(cluster: LocalCluster) -> None:
    """End a local cluster, which would wait for ever for a worker that hangs while it starts."""
    try:
        cluster.close(timeout=CLOSE)
    except TimeoutError:
        for process in multiprocessing.active_children():
            if "Dask" in process.name:
                process.kill()
