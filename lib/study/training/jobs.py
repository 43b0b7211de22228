"""Jobs sent to Dask, their results cached.

The driver (whoever calls `run_jobs`) sends jobs to workers, and writes what they return into a
cache folder, each result in a file that is whole or absent. A file is named after everything its
content depends on, including the code. So what was interrupted, extended or edited computes only
what is missing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from dask.distributed import Client, Future, as_completed
from distributed.scheduler import NoWorkerError

from study.config.jobs import Jobs
from study.pipeline.files import write_whole
from study.training.cache_key import cache_key
from study.training.cluster import connect
from study.training.job import Job
from study.training.progress import PendingJob, Progress
from study.training.sealed import say
from study.training.shards import THREADS, WORKER, read_result, shard_path
from study.training.worker import JobError, work

_RETRIES = 2
"""Times that a failed job is tried again."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The results of a group's jobs, and what they took.

    Attributes
    ----------
    results : list of dict
        Variables of each job, in the order of the jobs.
    trained : int
        Jobs that ran in this call; the others were cached.
    jobs : int
        Different jobs: two with the same cache key count once.
    diverged, resumed : int
        Attempts that diverged, and jobs that went on from a checkpoint.
    core_seconds : float
        Processor time of all jobs, whichever call ran them; of a job that was cut off, up to its
        last checkpoint.
    workers : int
        Different worker processes that ran the jobs.
    threads : int
        Threads per worker: 1, since threads of a process share PyTorch's random numbers.
    """

    results: list[dict[str, np.ndarray]]
    trained: int
    jobs: int
    diverged: int
    resumed: int
    core_seconds: float
    workers: int
    threads: int


def run_jobs(
    groups: Mapping[str, Sequence[Job]],
    cache: str | Path,
    where: Jobs,
    prepared: Path | None = None,
) -> dict[str, Trained]:
    """Run the jobs of all groups that have no cached result, in one queue.

    A job that several groups ask for runs once. The smallest job of every cell starts first, so
    that hardly two workers compile the same kernels. Then come the largest job of every group, so
    that it is soon known what its sizes cost, and all others, the largest first.

    Parameters
    ----------
    groups : mapping of str to sequence of Job
        Jobs by the name of their dataset.
    cache : path
        Folder of the results, of the checkpoints of unfinished jobs, and of ``<group>.cost.json``:
        what each group cost, which must not be part of a dataset.
    where : Jobs
        Local worker processes, or a Dask scheduler. A worker that dies is Dask's to replace; its
        job goes on from its last checkpoint.
    prepared : Path, optional
        Folder of the prepared data sets.

    Returns
    -------
    dict of str to Trained
        For each group the results of its jobs.

    Raises
    ------
    ConnectionError
        No scheduler answers, no worker joins it, a worker has several threads, or they were lost.
        Finished jobs are cached.
    JobError
        Jobs failed three times; all others have run and are cached.
    ValueError
        A data set is not prepared.
    """
    cache = Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    by_shard: dict[Path, PendingJob] = {}
    by_group: dict[str, list[PendingJob]] = {group: [] for group in groups}
    for group, jobs in groups.items():
        for job in jobs:
            key = cache_key(job, prepared)
            shard = shard_path(cache, key)
            if shard not in by_shard:
                by_shard[shard] = PendingJob(job, group, key, read_result(cache, key))
            by_group[group].append(by_shard[shard])
    missing = [pending for pending in by_shard.values() if pending.result is None]
    say(f"{len(missing)} of {len(by_shard)} jobs to run")
    if missing:
        progress = Progress(list(by_shard.values()))
        _run_missing(missing, cache, where, prepared, progress)
    return {group: _summarize(cache, group, pending) for group, pending in by_group.items()}


def _summarize(cache: Path, group: str, pending: Sequence[PendingJob]) -> Trained:
    """Write what a group's jobs took, whichever call ran them, and return their results."""
    different = list(dict.fromkeys(pending))
    cost = {
        "jobs": len(different),
        "diverged": sum(one.diverged for one in different),
        "resumed": sum(one.resumed for one in different),
        "core_seconds": round(sum(one.seconds for one in different), 2),
        "workers": len({str(one.result[WORKER]) for one in different}),
        "threads": max((int(one.result[THREADS]) for one in different), default=1),
    }
    write_whole(cache / f"{group}.cost.json", lambda path: path.write_text(json.dumps(cost)))
    trained = sum(one.ran_now for one in different)
    return Trained(results=[one.result for one in pending], trained=trained, **cost)


def _run_missing(
    missing: Sequence[PendingJob],
    cache: Path,
    where: Jobs,
    prepared: Path | None,
    progress: Progress,
) -> None:
    """Run jobs, store their results, and report progress."""
    batches = batch_jobs(missing)
    failures: list[str] = []
    unfinished = 0
    with connect(where.scheduler, _count_workers(where, batches)) as client:
        workers = sum(client.nthreads().values())
        futures = _submit(client, batches, prepared, cache)
        for future in as_completed(list(futures)):
            batch = futures.pop(future)
            failure = _failure(future)
            if failure is not None:
                failures += [f"{_title([pending])}: {failure}" for pending in batch]
                continue
            try:
                results = future.result()
            except (OSError, CancelledError, NoWorkerError):  # the cluster is gone
                unfinished += len(batch)
                continue
            for pending, result in zip(batch, results, strict=True):
                pending.store(result, cache)
            progress.report(_title(batch), workers)
    if unfinished:
        raise ConnectionError(_lost(where, unfinished, len(missing)))
    if failures:
        raise JobError(
            f"{len(failures)} of {len(missing)} jobs failed, the others are cached; "
            f"the first was {failures[0]}"
        )


def _count_workers(where: Jobs, batches: Sequence[Sequence[PendingJob]]) -> int:
    """Return the number of local workers; 0 for one per core."""
    if where.workers:
        return where.workers
    shares_a_pass = any(batch[0].job.pass_size > 1 for batch in batches)
    # One vmapped pass fills a GPU's memory.
    return 1 if torch.cuda.is_available() and shares_a_pass else 0


def _submit(
    client: Client, batches: Sequence[list[PendingJob]], prepared: Path | None, cache: Path
) -> dict[Future, list[PendingJob]]:
    """Send the batches to the workers, the first with the highest priority."""
    futures = {}
    for rank, batch in enumerate(batches):
        future = client.submit(
            work,
            [pending.job for pending in batch],
            [pending.key for pending in batch],
            prepared,
            cache,
            pure=False,  # results must not be looked up by the arguments
            retries=_RETRIES,
            priority=len(batches) - rank,
        )
        futures[future] = batch
    return futures


def _failure(future: Future) -> str | None:
    """Return what went wrong in a job; None if it is done, or its worker was lost."""
    if future.status != "error":
        return None
    error = future.exception()
    if isinstance(error, NoWorkerError):
        return None
    return f"{type(error).__name__}: {error}"


def _lost(where: Jobs, unfinished: int, total: int) -> str:
    """Return the message for lost workers, or a lost scheduler."""
    counts = f"{unfinished} of {total} jobs unfinished; finished jobs are cached"
    if where.scheduler == "local":
        return (
            f"the local workers were lost, and none came in their place, with {counts}. "
            "Run again to resume"
        )
    return (
        f"the scheduler at {where.scheduler} was lost, with {counts}. "
        "Start it again, and run again to resume"
    )


def batch_jobs(missing: Iterable[PendingJob]) -> list[list[PendingJob]]:
    """Return jobs in batches that one call does each, in the order in which they start.

    Parameters
    ----------
    missing : iterable of PendingJob

    Returns
    -------
    list of list of PendingJob
        Jobs of one `Job.batch_key` share a batch, at most as many as share a pass. First come the
        smallest batch of every cell and the largest of every group, then all others, the largest
        first.
    """
    batches = _split_batches(missing)
    batches.sort(key=lambda batch: sum(pending.job.size for pending in batch), reverse=True)
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
    """Return batches of jobs that share a pass, in the order of the jobs."""
    batches: list[list[PendingJob]] = []
    by_key: dict[tuple, list[PendingJob]] = {}
    for pending in missing:
        job = pending.job
        if job.pass_size == 1:
            by_key[(id(pending),)] = [pending]
        else:
            key = (job.experiment.name, job.batch_key, job.pass_size)
            by_key.setdefault(key, []).append(pending)
    for several in by_key.values():
        pass_size = several[0].job.pass_size
        for first in range(0, len(several), pass_size):
            batches.append(several[first : first + pass_size])
    return batches


def _title(batch: Sequence[PendingJob]) -> str:
    first = batch[0]
    beside = f", and {len(batch) - 1} beside it" if len(batch) > 1 else ""
    return f"{first.group}: {first.job.title}{beside}"
