"""Run the jobs that have no shard yet, on Dask."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from dask.distributed import Client, Future, as_completed

from lib.results.schema import DIVERGED
from lib.run.files import write_whole
from lib.run.fingerprint import fingerprint
from lib.run.params import Jobs
from lib.training.jobs.cluster import connect
from lib.training.jobs.progress import Progress
from lib.training.jobs.shards import Arrays, read_shard, shard_path, write_shard
from lib.training.resume import Resume

PACKAGES = ("torch", "numba")
"""Their versions change last digits, and so name the shards."""
SECONDS, RESUMED = "core seconds", "resumed"
"""In a shard beside what the job returned: the time its processes computed, and whether it went on from a state."""
_RUNNER = ("lib/run/", "lib/training/jobs/")
"""Code that runs jobs and is no part of what comes of them."""


class JobError(RuntimeError):
    """A job could not be run; the message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One job, as `lib.training.job.Job` says of itself.

    Attributes
    ----------
    run
        The function that does it: it is called with `arguments` and a `lib.training.resume.Resume`, single-threaded in a
        worker process, and returns arrays or numbers by name. One called ``status`` says which
        attempts diverged (see `lib.results.schema`).
    identity
        All that the results depend on beside the code, as JSON values.
    modules
        The modules it uses, as far as imports do not tell: cells, engines, the task.
    size
        Proportional to the time it takes among the jobs of its group, and about so among all: the largest begin first.
    title
        A few words for the line that tells it is done.
    batch_key, batch_size
        Jobs of the same key, a name, and of the same `run` are done in one call, at most `batch_size` of them: `run` then gets lists,
        of what each would be called with and of their resumes, and returns a list of results, an exception in the place of a job that
        failed. The key is no part of a job's name, and must not change its results. A job without one is done by itself.
    """

    run: Callable[..., Arrays]
    arguments: tuple
    identity: Mapping
    modules: tuple[str, ...]
    size: float = 1.0
    title: str = "job"
    batch_key: str = ""
    batch_size: int = 1

    @property
    def code(self) -> str:
        """Fingerprint of the code that the job runs."""
        return _code((self.run.__module__, *self.modules))

    def name(self) -> dict:
        """Return the whole identity, which names the shard."""
        return {
            "job": dict(self.identity),
            "run": f"{self.run.__module__}.{self.run.__qualname__}",
            "code": self.code,
            "versions": {package: version(package) for package in PACKAGES},
        }


@cache  # a process runs what it has imported
def _code(modules: tuple[str, ...]) -> str:
    return fingerprint(modules, without=_RUNNER)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What came of the jobs of a group: the `results` of each job, in their order.

    They are so many different trainings (`jobs`), of which `trained` ran in this call; the others were found in shards. `resumed` are
    those that went on from a state, `diverged` counts attempts, and `core_seconds` are what all of them took, now and when their shards
    were written, up to the last state of what was cut off.
    """

    results: list[dict[str, np.ndarray]]
    jobs: int
    trained: int
    diverged: int
    resumed: int
    core_seconds: float

    @property
    def cost(self) -> dict[str, float]:
        """What does not depend on which call ran them; it is kept in the file `cost_path`."""
        names = ("jobs", "diverged", "resumed", "core_seconds")
        return {name: getattr(self, name) for name in names}


@dataclass(eq=False)
class _Job:
    """A job on its way: its work, its group, its name, and its result once there is one."""

    work: Work
    group: str
    name: dict
    result: dict[str, np.ndarray] | None
    trained: bool = False
    """Whether it ran in this call."""

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
        write_shard(cache, self.name, self.result)
        _resume(cache, self.name, "").forget()


def run_jobs(
    groups: Mapping[str, Sequence[Work]], cache: str | Path, where: Jobs
) -> dict[str, Trained]:
    """Run the jobs of all groups that have no shard as one queue, and return what came of each group.

    Two jobs of one name (`Work.name`), of one group or of two, are one training: it runs once, and each group has its result and its cost.
    The folder `cache` holds shards, states of unfinished jobs, and what each group cost (`cost_path`).

    Raises
    ------
    ConnectionError
        No scheduler answers at the address, no worker joins it, or it was lost; what had finished is kept.
    JobError
        Jobs failed, or workers run other code; the others have finished and are kept.

    Notes
    -----
    The largest job of every group begins first, so that it is soon known what a size costs there (see
    `lib.training.jobs.progress`), then all others, the largest first. A line of progress tells of all groups.

    A worker that dies is Dask's to replace: its job runs again, from its last state. Only the caller's process writes shards, so
    nothing is lost or counted twice. Where some jobs of a batch fail, the others' results are kept and those run once more by
    themselves.
    """
    cache = Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    jobs: dict[Path, _Job] = {}
    asked: dict[str, list[_Job]] = {name: [] for name in groups}
    for group, works in groups.items():
        for one in works:
            name = one.name()
            shard = shard_path(cache, name)
            if shard not in jobs:
                jobs[shard] = _Job(one, group, name, read_shard(cache, name))
            asked[group].append(jobs[shard])
    missing = [job for job in jobs.values() if job.result is None]
    progress = Progress(list(jobs.values()))
    progress.begin()
    if missing:
        _train(missing, cache, where, progress)
    return {group: _counted(cache, group, members) for group, members in asked.items()}


def cost_path(cache: Path, group: str) -> Path:
    """Return the file that says what a group's results cost (`Trained.cost`), which no dataset may hold."""
    return cache / f"{group}.cost.json"


def _counted(cache: Path, group: str, asked: Sequence[_Job]) -> Trained:
    """Write down what a group's jobs took, and return their results without it."""
    different = list(dict.fromkeys(asked))
    beside = (SECONDS, RESUMED)
    trained = Trained(
        results=[{k: v for k, v in job.result.items() if k not in beside} for job in asked],
        jobs=len(different),
        trained=sum(job.trained for job in different),
        diverged=sum(job.diverged for job in different),
        resumed=sum(bool(job.result.get(RESUMED)) for job in different),
        core_seconds=round(sum(job.seconds for job in different), 2),
    )
    text = json.dumps(trained.cost)
    write_whole(cost_path(cache, group), lambda partial: partial.write_text(text))
    return trained


def _train(missing: Sequence[_Job], cache: Path, where: Jobs, progress: Progress) -> None:
    """Fill in the results of jobs that have none, and write their shards."""
    calls = _calls(missing)
    failed: list[str] = []
    lost = 0
    # Networks in one pass fill a GPU, and its memory is not there twice.
    one = int(torch.cuda.is_available() and any(len(call) > 1 for call in calls))
    with connect(where.scheduler, where.workers or one) as client:

        def submit(call: Sequence[_Job], priority: int) -> Future:
            asked = [job.work for job in call], [job.name for job in call], cache
            # Not pure: two jobs are never the same call, and results must not be looked up by value.
            return client.submit(work, *asked, pure=False, retries=2, priority=priority)

        futures = {submit(call, len(calls) - rank): call for rank, call in enumerate(calls)}
        ended = as_completed(list(futures))
        for future in ended:
            call = futures.pop(future)
            if future.status == "error":
                error = future.exception()
                failed += [f"{_title([job])}: {type(error).__name__}: {error}" for job in call]
                continue
            try:
                results = future.result()
            except (OSError, CancelledError):  # as Dask says that its scheduler is gone
                lost += len(call)
                continue
            for job, result in zip(call, results, strict=True):
                if result is not None:
                    job.keep(result, cache)
            if done := [job for job in call if job.result is not None]:
                progress.report(_title(done), _workers(client))
            if left := [job for job in call if job.result is None]:
                again = submit(left, 0)
                futures[again] = left
                ended.add(again)
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


def _workers(client: Client) -> int:
    """Return how many jobs run at once; 0 where the scheduler does not say."""
    try:
        return sum(client.nthreads().values())
    except Exception:  # it is gone, which the next future tells
        return 0


def _calls(missing: Iterable[_Job]) -> list[list[_Job]]:
    """Return which jobs are done in one call: the largest call of every group, then all others, the largest first."""
    batches: dict[object, list[_Job]] = {}
    for job in missing:
        of = job.work
        key = (of.run, of.batch_key, of.batch_size) if of.batch_key else job
        batches.setdefault(key, []).append(job)
    calls = [
        batch[k : k + batch[0].work.batch_size]
        for batch in batches.values()
        for k in range(0, len(batch), batch[0].work.batch_size)
    ]
    calls.sort(key=lambda call: -sum(job.work.size for job in call))
    largest = {call[0].group: call for call in reversed(calls)}
    return sorted(calls, key=lambda call: call is not largest[call[0].group])


def _title(call: Sequence[_Job]) -> str:
    beside = f", and {len(call) - 1} beside it" if len(call) > 1 else ""
    return f"{call[0].group}: {call[0].work.title}{beside}"


def work(call: Sequence[Work], names: Sequence[Mapping], cache: Path) -> list[Arrays | None]:
    """Do a job, or those of a batch, in this process, and return their results: None for one that failed while others did not.

    Raises `JobError` where code or packages are not the driver's (a result would be kept under another code's name), and what ended
    the first where all failed.
    """
    resumes = []
    for job, name in zip(call, names, strict=True):
        here = job.name()
        for what in ("code", "versions"):
            if here[what] != name[what]:
                raise JobError(
                    f"this worker has other {what}, {here[what]} instead of {name[what]}; "
                    "start it again from the driver's commit and environment"
                )
        resumes.append(_resume(cache, name, job.title, len(call)))
    torch.set_num_threads(1)
    # Denormals slow the loops two- to tenfold, and are no numbers that anything here rests on.
    torch.set_flush_denormal(True)
    if call[0].batch_key:
        found = call[0].run([job.arguments for job in call], resumes)
    else:
        found = [call[0].run(*call[0].arguments, resumes[0])]
    failed = [isinstance(one, Exception) for one in found]
    if all(failed):
        raise found[0]
    return [
        None if bad else {**one, SECONDS: resume.seconds, RESUMED: resume.resumed}
        for one, resume, bad in zip(found, resumes, failed, strict=True)
    ]


def _resume(cache: Path, name: Mapping, title: str, beside: int = 1) -> Resume:
    return Resume(shard_path(cache, name).with_suffix(".state"), title, beside=beside)
