"""Where blocks run: local processes, or a Dask scheduler somewhere else."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

import dask
from dask.distributed import Client, LocalCluster

from lib.paths import CACHE

TIMEOUT = "30s"
"""How long a remote scheduler may take to answer."""

WORKERS = 60.0
"""Seconds that a remote scheduler may be without a worker before that is told."""

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


@contextlib.contextmanager
def connect(scheduler: str, workers: int) -> Iterator[Client]:
    """Give a Dask client: of the scheduler at an address, or of local processes.

    Parameters
    ----------
    scheduler
        ``local``, or an address such as ``tcp://host:8786``.
    workers
        Local processes, each single-threaded; 0 means one per core, which on a CPU trains faster than threads or
        ensembles do (`run_jobs` asks for one where networks share a GPU).

    Raises
    ------
    ConnectionError
        No scheduler answers at the address, or no worker joins it.
    """
    if scheduler == "local":
        with dask.config.set({"distributed.nanny.pre-spawn-environ": _ENVIRONMENT}):
            cluster = LocalCluster(
                n_workers=workers or _cores(),
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",
                memory_limit=0,
                local_directory=str(CACHE / "dask"),
            )
        with cluster, Client(cluster) as client:
            yield client
        return
    try:
        client = Client(scheduler, timeout=TIMEOUT)
    except OSError as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {scheduler} ({error}); start one with "
            "`dask scheduler`, or set scheduler to 'local' in params.yaml"
        ) from None
    ended = threading.Event()
    with client:
        try:
            client.wait_for_workers(1, timeout=WORKERS)
        except TimeoutError:
            raise ConnectionError(
                f"no worker has joined the scheduler at {scheduler} in {WORKERS:.0f} s; start one from the driver's "
                f"commit and environment with `dask worker {scheduler}`"
            ) from None
        threading.Thread(
            target=_tell_if_alone, args=(client, scheduler, ended), daemon=True
        ).start()
        try:
            yield client
        finally:
            ended.set()


def _tell_if_alone(client: Client, scheduler: str, ended: threading.Event) -> None:
    """Tell, once each time, that the last worker has been gone for `WORKERS` seconds; others may join at any time."""
    looks = 0
    while not ended.wait(WORKERS / 6):
        with contextlib.suppress(Exception):  # the scheduler is gone, which `run_jobs` tells
            looks = 0 if client.nthreads() else looks + 1
            if looks == 6:
                print(
                    f"no worker has been at {scheduler} for {WORKERS:.0f} s; what is done is kept, and the rest waits for "
                    f"`dask worker {scheduler}`",
                    file=sys.stderr,
                    flush=True,
                )


def _cores() -> int:
    """Return the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
