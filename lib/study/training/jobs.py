"""Jobs sent to Dask, their results kept in shards.

The driver (whoever calls `run_jobs`) sends jobs to workers and writes what they return as shards into a cache folder, each in one file that
is whole or absent. A shard is named after everything its content depends on, the code too, so what was interrupted, extended or
edited computes only what is missing.
"""

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import torch
from dask.distributed import as_completed
from distributed.scheduler import NoWorkerError

from study.config.jobs import Jobs
from study.pipeline.files import write_whole
from study.results.schema import DIVERGED
from study.training.checkpoint import Checkpoint
from study.training.cluster import connect, this_worker
from study.training.job import Arrays, Job
from study.training.sealed import read_sealed, say, write_sealed

SECONDS, RESUMED = "core seconds", "resumed"
"""In a shard beside what the job returned: the time its processes computed, and whether it went on from a state."""
WORKER, THREADS = "worker", "threads"
"""In a shard, too: the address of the Dask worker that ran the job, and the number of its threads."""
QUIET = 5.0
"""Seconds between two lines of progress."""
_ONE_AT_A_TIME = threading.Lock()


class JobError(RuntimeError):
    """A job could not be run; the message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What came of the jobs of a group: the `results` of each job, in their order, and in them what it took.

    They are so many different trainings (`jobs`), of which `trained` ran in this call; the others were found in shards. `resumed` are
    those that went on from a state, `diverged` counts attempts, and `core_seconds` are what all of them took, now and when their shards
    were written, up to the last state of what was cut off.
    """

    results: list[dict[str, np.ndarray]]
    trained: int
    jobs: int
    diverged: int
    resumed: int
    core_seconds: float
    workers: int
    """Number of different processes that ran the jobs."""
    threads: int
    """Threads per process: 1, since the threads of one process share PyTorch's random numbers."""


@dataclass(eq=False)
class _Asked:
    """A job on its way: its group, its name, its result once there is one, and whether it ran in this call."""

    job: Job
    group: str
    name: dict
    result: dict[str, np.ndarray] | None
    trained: bool = False

    @property
    def diverged(self) -> int:
        return int((self.result.get("status", np.empty(0)) == DIVERGED).sum())

    @property
    def seconds(self) -> float:
        return float(self.result.get(SECONDS, 0.0))

    def keep(self, result: Arrays, cache: Path) -> None:
        """Write the shard, after which the state is not needed any more."""
        self.result = {key: np.asarray(value) for key, value in result.items()}
        self.trained = True
        shard = write_shard(cache, self.name, self.result)
        shard.with_suffix(".state").unlink(missing_ok=True)


class _Progress:
    """Says how many of the jobs of all groups have a result.

    The time left is learned from jobs that are done, now or in an earlier call, at a rate of each group, since sizes compare jobs of one
    group alone; where some group with jobs left has none yet the line says "more than", and where all have none it says nothing.
    """

    def __init__(self, jobs: Sequence[_Asked]) -> None:
        self._jobs, self._began, self._last = jobs, time.monotonic(), 0.0

    def report(self, title: str, workers: int) -> None:
        """Print a line, if the last one is old or nothing is left."""
        now, done = time.monotonic(), [job for job in self._jobs if job.result is not None]
        if now - self._last < QUIET and len(done) < len(self._jobs):
            return
        self._last = now
        diverged = sum(job.diverged for job in done if job.trained)
        say(
            f"job {len(done)}/{len(self._jobs)}, {diverged} attempts diverged, "
            f"{timedelta(seconds=round(now - self._began))} gone{self._time_left(workers)}; {title}"
        )

    def _time_left(self, workers: int) -> str:
        left, size, seconds = Counter(), Counter(), Counter()
        for one in self._jobs:
            if one.result is None:
                left[one.group] += one.job.size
            elif one.seconds:
                size[one.group] += one.job.size
                seconds[one.group] += one.seconds
        known = [group for group in left if seconds[group]]
        if not known:
            return ""
        total = sum(left[group] * seconds[group] / size[group] for group in known) / workers
        about = "about" if len(known) == len(left) else "more than"
        return f", {about} {timedelta(seconds=round(total))} left"


def run_jobs(
    groups: Mapping[str, Sequence[Job]],
    cache: str | Path,
    where: Jobs,
    prepared: Path | None = None,
) -> dict[str, Trained]:
    """Run the jobs of all groups that have no shard as one queue, and return what came of each group.

    Two jobs of one name (`Job.name`), of one group or of two, are one training: it runs once, and each group has its result and its cost.
    The folder `cache` holds shards, states of unfinished jobs, and in ``<group>.cost.json`` what each group cost, which no dataset may
    hold; `prepared` the prepared data sets.

    Raises `ConnectionError` where no scheduler answers at the address, no worker joins it, or it was lost, and `JobError` where jobs
    failed or workers run other code; what has finished is kept.

    The smallest job of every cell begins first, so that hardly two workers compile the same kernels, then the largest of every group, so
    that it is soon known what a size costs there (see `_Progress`), then all others, the largest first. A line of progress tells of all.

    A worker that dies is Dask's to replace: its job runs again, from its last state. Only the caller's process writes shards, so
    nothing is lost or counted twice.
    """
    cache = Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    jobs: dict[Path, _Asked] = {}
    asked: dict[str, list[_Asked]] = {group: [] for group in groups}
    for group, members in groups.items():
        for job in members:
            name = job.name(prepared)
            shard = shard_path(cache, name)
            if shard not in jobs:
                jobs[shard] = _Asked(job, group, name, _read_result(cache, name))
            asked[group].append(jobs[shard])
    missing = [job for job in jobs.values() if job.result is None]
    say(f"{len(missing)} of {len(jobs)} jobs to run")
    if missing:
        _train(missing, cache, where, prepared, _Progress(list(jobs.values())))
    return {group: _counted(cache, group, members) for group, members in asked.items()}


def _read_result(cache: Path, name: Mapping) -> dict[str, np.ndarray] | None:
    """Return a job's stored arrays, or None if it must run.

    A result from a worker with several threads, or from a time when threads were not recorded, may
    hold another job's random numbers and is ignored.
    """
    result = read_shard(cache, name)
    if result is None or int(result.get(THREADS, 0)) == 1:
        return result
    say(
        f"{shard_path(cache, name).name} does not come from a single-threaded worker; its job runs again"
    )
    return None


def _counted(cache: Path, group: str, asked: Sequence[_Asked]) -> Trained:
    """Write down what a group's jobs took, whichever call ran them, and return their results."""
    different = list(dict.fromkeys(asked))
    cost = {
        "jobs": len(different),
        "diverged": sum(job.diverged for job in different),
        "resumed": sum(bool(job.result.get(RESUMED)) for job in different),
        "core_seconds": round(sum(job.seconds for job in different), 2),
        "workers": len({str(job.result[WORKER]) for job in different}),
        "threads": max((int(job.result[THREADS]) for job in different), default=1),
    }
    write_whole(cache / f"{group}.cost.json", lambda path: path.write_text(json.dumps(cost)))
    trained = sum(job.trained for job in different)
    return Trained(results=[job.result for job in asked], trained=trained, **cost)


def _train(
    missing: Sequence[_Asked], cache: Path, where: Jobs, prepared: Path | None, progress: _Progress
) -> None:
    """Fill in the results of jobs that have none, and write their shards."""
    calls = _calls(missing)
    failed: list[str] = []
    lost = 0
    # Networks in one pass fill a GPU, and its memory is not there twice.
    one = int(torch.cuda.is_available() and any(call[0].job.places > 1 for call in calls))
    with connect(where.scheduler, where.workers or one) as client:
        workers = sum(client.nthreads().values())
        futures = {}
        for rank, call in enumerate(calls):
            jobs, names = [asked.job for asked in call], [asked.name for asked in call]
            # Not pure: two jobs are never the same call, and results must not be looked up by value.
            how = {"pure": False, "retries": 2, "priority": len(calls) - rank}
            futures[client.submit(work, jobs, names, prepared, cache, **how)] = call
        for future in as_completed(list(futures)):
            call = futures.pop(future)
            error = future.exception() if future.status == "error" else None
            if error and not isinstance(error, NoWorkerError):
                failed += [f"{_title([job])}: {type(error).__name__}: {error}" for job in call]
                continue
            try:
                results = future.result()
            except (OSError, CancelledError, NoWorkerError):  # as Dask says what is gone
                lost += len(call)
                continue
            for job, result in zip(call, results, strict=True):
                job.keep(result, cache)
            progress.report(_title(call), workers)
    if lost:
        what, first = "the local workers were lost, and none came in their place", ""
        if where.scheduler != "local":
            what, first = f"the scheduler at {where.scheduler} was lost", "start it again, and "
        raise ConnectionError(
            f"{what}, with {lost} of {len(missing)} jobs to do; the others are kept: {first}run again to go on from there"
        )
    if failed:
        raise JobError(
            f"{len(failed)} of {len(missing)} jobs failed, the others are kept; the first was {failed[0]}"
        )


def _calls(missing: Iterable[_Asked]) -> list[list[_Asked]]:
    """Return which jobs are done in one call: the smallest of every cell, the largest of every group, then all others, the largest first."""
    batches: dict[object, list[_Asked]] = {}
    for one in missing:
        key = (type(one.job), one.job.batch_key, one.job.places) if one.job.places > 1 else one
        batches.setdefault(key, []).append(one)
    calls = [
        batch[k : k + batch[0].job.places]
        for batch in batches.values()
        for k in range(0, len(batch), batch[0].job.places)
    ]
    calls.sort(key=lambda call: -sum(one.job.size for one in call))
    largest, smallest = {call[0].group: call for call in reversed(calls)}, {}
    for call in reversed(calls):
        smallest.setdefault(call[0].job.cells, call)
    calls.sort(key=lambda call: call is not largest[call[0].group])
    return [*smallest.values(), *(one for one in calls if one is not smallest[one[0].job.cells])]


def _title(call: Sequence[_Asked]) -> str:
    beside = f", and {len(call) - 1} beside it" if len(call) > 1 else ""
    return f"{call[0].group}: {call[0].job.title}{beside}"


def work(
    jobs: Sequence[Job], names: Sequence[Mapping], prepared: Path | None, cache: Path
) -> list[Arrays]:
    """Do a job, or those of a batch, in this process, and return their results.

    Raises `JobError` where code, packages, device or data are not the driver's: a result would be kept under another name.
    """
    worker, threads = this_worker()
    checkpoints = []
    for job, name in zip(jobs, names, strict=True):
        for what, here in job.name(prepared).items():
            if here != name[what]:
                raise JobError(
                    f"this worker has other {what}, {here} instead of {name[what]}; "
                    "start it again from the driver's commit and environment"
                )
        state = shard_path(cache, name).with_suffix(".state")
        checkpoints.append(Checkpoint(state, job.title, batch_size=len(jobs)))
    torch.set_num_threads(1)
    # Denormals slow the loops two- to tenfold, and are no numbers that anything here rests on.
    torch.set_flush_denormal(True)
    # PyTorch has one generator per process, so jobs of one process run one after another.
    with _ONE_AT_A_TIME:
        found = jobs[0].compute_together(jobs, prepared, checkpoints)
    return [
        {
            **one,
            SECONDS: checkpoint.seconds,
            RESUMED: checkpoint.resumed,
            WORKER: worker,
            THREADS: threads,
        }
        for one, checkpoint in zip(found, checkpoints, strict=True)
    ]


def shard_path(cache: Path, identity: Mapping) -> Path:
    """Return the file of the job with this identity: everything its result depends on, as JSON values."""
    text = json.dumps(identity, sort_keys=True)
    return cache / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.npz"


def write_shard(cache: Path, identity: Mapping, arrays: Arrays) -> Path:
    """Write a job's arrays; a reader never sees half a file."""
    return write_sealed(shard_path(cache, identity), partial(np.savez_compressed, **arrays))


def read_shard(cache: Path, identity: Mapping) -> dict[str, np.ndarray] | None:
    """Return a job's stored arrays, or None if there is no shard that can be trusted, see `read_sealed`."""
    path = shard_path(cache, identity)
    return read_sealed(path, lambda file: dict(np.load(file)), "its job runs again")
