"""Run jobs on Dask workers and cache their results.

The process that calls `run_jobs` sends jobs to workers and writes each result to one file of a
cache folder. Files are written atomically and named by a hash of everything the result depends on,
including the code. A call therefore computes only missing results, after an interruption as well as
after a change of settings or code.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from dask.distributed import Client, Future, as_completed
from distributed.scheduler import NoWorkerError

from study.config.cluster import ClusterSettings
from study.pipeline.files import check_writable
from study.training.cache_key import cache_key
from study.training.cluster import connect
from study.training.job import Job
from study.training.log import log_line
from study.training.progress import PendingJob, Progress
from study.training.shards import read_shard, shard_path
from study.training.worker import JobError, run_batch

_RETRIES = 2
"""How often Dask runs a failed job again."""


@dataclass(frozen=True, kw_only=True)
class GroupResults:
    """The results of a group's jobs, and their costs.

    Attributes
    ----------
    results : list of dict
        Variables of each job, in the order of the jobs.
    trained : int
        Number of jobs that ran in this call; the others were cached.
    jobs : int
        Number of unique jobs: two jobs with the same cache key count once.
    diverged : int
        Number of attempts that diverged.
    resumed : int
        Number of jobs that resumed from a checkpoint.
    core_seconds : float
        Processor time of all jobs, including jobs that an earlier call ran. Steps that were lost
        because they were after a job's last checkpoint are not counted.
    """

    results: list[dict[str, np.ndarray]]
    trained: int
    jobs: int
    diverged: int
    resumed: int
    core_seconds: float

    @property
    def cost(self) -> dict[str, float]:
        """What the jobs cost, whether they ran in this call or in an earlier one."""
        return {
            "jobs": self.jobs,
            "diverged": self.diverged,
            "resumed": self.resumed,
            "core_seconds": self.core_seconds,
        }


def run_jobs(
    groups: Mapping[str, Sequence[Job]],
    cache: str | Path,
    cluster: ClusterSettings,
    prepared: Path | None = None,
) -> dict[str, GroupResults]:
    """Run all jobs without a cached result, and return the results of every group.

    A job that belongs to several groups runs once. The smallest job of every cell starts first, so
    that few workers compile the same kernels at the same time. Then the largest job of every group
    starts, which makes the estimate of the remaining time useful early. The rest follow, the
    largest first.

    Parameters
    ----------
    groups : mapping of str to sequence of Job
        Jobs by the name of their dataset.
    cache : path
        Folder for the results, and for the checkpoints of unfinished jobs.
    cluster : ClusterSettings
        Number of local worker processes, or the address of a Dask scheduler. If a worker dies, Dask
        replaces it, and its job resumes from the last checkpoint.
    prepared : Path, optional
        Folder of the prepared data sets.

    Returns
    -------
    dict of str to GroupResults
        The results by group.

    Raises
    ------
    ConnectionError
        The scheduler doesn't answer, no worker joins it, a worker has several threads, or the
        connection was lost. Finished jobs are cached.
    JobError
        A job failed three times. All other jobs have run and are cached.
    ValueError
        A data set is not prepared.
    OSError
        The cache can't be written to, for example because the disk is full. This is checked before
        the first job; finished jobs are cached.
    """
    cache = Path(cache)
    by_shard: dict[Path, PendingJob] = {}
    by_group: dict[str, list[PendingJob]] = {group: [] for group in groups}
    for group, jobs in groups.items():
        for job in jobs:
            key = cache_key(job, prepared)
            shard = shard_path(cache, key)
            if shard not in by_shard:
                by_shard[shard] = PendingJob(job, group, key, read_shard(cache, key))
            by_group[group].append(by_shard[shard])
    missing = [pending for pending in by_shard.values() if pending.result is None]
    log_line(f"{len(missing)} of {len(by_shard)} jobs to run")
    if missing:
        check_writable(cache)  # else this would be noticed only after the first job
        progress = Progress(list(by_shard.values()))
        _run_missing(missing, cache, cluster, prepared, progress)
    return {group: _summarize(pending) for group, pending in by_group.items()}


def _summarize(pending: Sequence[PendingJob]) -> GroupResults:
    """Return the results of a group's jobs, and their costs."""
    unique_jobs = list(dict.fromkeys(pending))  # jobs with the same cache key are one object
    return GroupResults(
        results=[job.result for job in pending],
        trained=sum(job.ran_now for job in unique_jobs),
        jobs=len(unique_jobs),
        diverged=sum(job.diverged for job in unique_jobs),
        resumed=sum(job.resumed for job in unique_jobs),
        core_seconds=round(sum(job.seconds for job in unique_jobs), 2),
    )


def _run_missing(
    missing: Sequence[PendingJob],
    cache: Path,
    cluster: ClusterSettings,
    prepared: Path | None,
    progress: Progress,
) -> None:
    """Run jobs, store their results, and report progress and failures as they happen."""
    batches = batch_jobs(missing)
    failures: list[str] = []
    unfinished = 0
    with connect(cluster.scheduler, _count_workers(cluster, batches)) as client:
        workers = sum(client.nthreads().values())
        futures = _submit(client, batches, prepared, cache)
        for future in as_completed(list(futures)):
            batch = futures.pop(future)
            failure = _failure_message(future)
            if failure is not None:
                failures += [f"{_batch_title([pending])}: {failure}" for pending in batch]
                log_line(f"{_batch_title(batch)} failed ({failure}); the other jobs go on")
                continue
            try:
                results = future.result()
            except (OSError, CancelledError, NoWorkerError):  # the cluster is gone
                unfinished += len(batch)
                continue
            for pending, result in zip(batch, results, strict=True):
                pending.store(result, cache)
            progress.report(_batch_title(batch), workers)
    if unfinished:
        raise ConnectionError(_lost_message(cluster, unfinished, len(missing)))
    if failures:
        raise JobError(
            f"{len(failures)} of {len(missing)} jobs failed, the others are cached; "
            f"the first was {failures[0]}"
        )


def _count_workers(
    cluster: ClusterSettings, batches: Sequence[Sequence[PendingJob]]
) -> int | Literal["auto"]:
    """Return the number of local workers to start, see `study.training.cluster.connect`."""
    if cluster.workers != 0:
        return cluster.workers
    uses_vmapped_pass = any(batch[0].job.pass_size > 1 for batch in batches)
    if torch.cuda.is_available() and uses_vmapped_pass:
        return 1  # one vmapped pass fills a GPU's memory
    return 0


def _submit(
    client: Client, batches: Sequence[list[PendingJob]], prepared: Path | None, cache: Path
) -> dict[Future, list[PendingJob]]:
    """Submit the batches to Dask, with decreasing priority."""
    futures = {}
    for rank, batch in enumerate(batches):
        future = client.submit(
            run_batch,
            [pending.job for pending in batch],
            [pending.key for pending in batch],
            prepared,
            cache,
            pure=False,  # Dask must not reuse an earlier result for equal arguments
            retries=_RETRIES,
            priority=len(batches) - rank,
        )
        futures[future] = batch
    return futures


def _failure_message(future: Future) -> str | None:
    """Return the error message if the job failed; None if it is done, or its worker was lost."""
    if future.status != "error":
        return None
    error = future.exception()
    if isinstance(error, NoWorkerError):
        return None
    return f"{type(error).__name__}: {error}"


def _lost_message(cluster: ClusterSettings, unfinished: int, total: int) -> str:
    """Return the error message for lost workers, or for a lost scheduler."""
    counts = f"{unfinished} of {total} jobs unfinished; finished jobs are cached"
    if cluster.scheduler == "local":
        return f"the local workers died and were not replaced, with {counts}. Run again to resume"
    return (
        f"the scheduler at {cluster.scheduler} was lost, with {counts}. "
        "Restart it, and run again to resume"
    )


def batch_jobs(missing: Iterable[PendingJob]) -> list[list[PendingJob]]:
    """Group jobs into batches, in the order in which the batches start.

    Parameters
    ----------
    missing : iterable of PendingJob
        The jobs to run.

    Returns
    -------
    list of list of PendingJob
        Batches; one call of `study.training.worker.run_batch` runs one batch. Jobs with the same
        `Job.pass_key` form batches of at most `Job.pass_size` jobs. The order is the one that
        `run_jobs` describes.
    """
    batches = _split_batches(missing)
    batches.sort(
        key=lambda batch: sum(pending.job.relative_cost for pending in batch), reverse=True
    )
    smallest_of_cell: dict[tuple[str, ...], list[PendingJob]] = {}
    for batch in reversed(batches):
        smallest_of_cell.setdefault(batch[0].job.cells, batch)
    largest_of_group: dict[str, list[PendingJob]] = {}
    for batch in batches:
        largest_of_group.setdefault(batch[0].group, batch)
    ordered: list[list[PendingJob]] = []
    seen: set[int] = set()
    for batch in (*smallest_of_cell.values(), *largest_of_group.values(), *batches):
        if id(batch) not in seen:
            seen.add(id(batch))
            ordered.append(batch)
    return ordered


def _split_batches(missing: Iterable[PendingJob]) -> list[list[PendingJob]]:
    """Return batches of jobs that run together; a job without a vmapped pass is one by itself."""
    batches: list[list[PendingJob]] = []
    by_key: dict[tuple, list[PendingJob]] = {}
    for pending in missing:
        job = pending.job
        if job.pass_size == 1:
            batches.append([pending])
        else:
            key = (job.experiment.name, job.pass_key, job.pass_size)
            by_key.setdefault(key, []).append(pending)
    for jobs in by_key.values():
        pass_size = jobs[0].job.pass_size
        for first in range(0, len(jobs), pass_size):
            batches.append(jobs[first : first + pass_size])
    return batches


def _batch_title(batch: Sequence[PendingJob]) -> str:
    """Return the name of a batch for lines of progress and error messages."""
    first = batch[0]
    title = f"{first.group}: {first.job.title}"
    if len(batch) > 1:
        title += f", and {len(batch) - 1} more"
    return title
