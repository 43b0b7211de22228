"""Run the jobs of an experiment that have no shard yet, on Dask, and return the results of all."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import numpy as np
from dask.distributed import as_completed

from lib.jobs.cluster import connect
from lib.jobs.progress import Progress
from lib.jobs.shards import Arrays, read_shard, write_shard
from lib.schema import DIVERGED

J = TypeVar("J")


def run_jobs(
    name: str,
    jobs: Sequence[J],
    run: Callable[[J], Arrays],
    *,
    recipe: int,
    cache: str | Path,
    identity: Callable[[J], dict] = asdict,
    work: Callable[[J], float] = lambda job: 1.0,
    describe: Callable[[J], str] = str,
    scheduler: str = "local",
    workers: int = 0,
) -> list[dict[str, np.ndarray]]:
    """Run every job that has no shard yet; return the results of all, in the order of `jobs`.

    Parameters
    ----------
    name
        The experiment's name; it is part of every shard's identity.
    jobs
        Frozen dataclasses. What takes longest had best come first: no core waits for another at the end.
    run
        Returns a job's results, arrays or numbers by name; runs single-threaded in a worker process. An array
        called ``status`` says which attempts diverged (see `lib.schema`).
    recipe
        Raised whenever a change of the code changes results.
    cache
        Folder for the shards; created if needed.
    identity
        Everything that a job's results depend on, as JSON values; by default the job's fields.
    work
        About proportional to the time a job takes, for the estimate of the time left.
    describe
        A few words on a job, for the line that tells it is done.
    scheduler, workers
        See `lib.jobs.cluster.connect`.

    Raises
    ------
    ConnectionError
        No scheduler answers at the address.

    Notes
    -----
    Progress goes to the standard error. A worker that dies is Dask's to replace: its job runs again, and only the
    caller's process writes shards, so nothing is lost or counted twice.
    """
    cache = Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    names = [{"experiment": name, "recipe": recipe, "job": identity(job)} for job in jobs]
    results = [read_shard(cache, whole) for whole in names]
    missing = [i for i, found in enumerate(results) if found is None]
    progress = Progress(name, len(jobs), [work(jobs[i]) for i in missing])
    if not missing:
        return results
    with connect(scheduler, workers) as client:
        # Not pure: two jobs are never the same call, and results must not be looked up by value.
        futures = {client.submit(run, jobs[i], pure=False, retries=2): i for i in missing}
        for future in as_completed(list(futures)):
            i = futures.pop(future)
            result = {key: np.asarray(value) for key, value in future.result().items()}
            write_shard(cache, names[i], result)
            results[i] = result
            diverged = int((result.get("status", np.empty(0)) == DIVERGED).sum())
            progress.done(work(jobs[i]), diverged, describe(jobs[i]))
    return results
