"""Run the jobs that have no shard yet, on Dask."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from dask.distributed import Future, as_completed

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
SECONDS = "core seconds"
"""Beside what a job returns: the time its process computed, since its last state where it was cut off."""


class JobError(RuntimeError):
    """A job could not be run; the message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One job.

    Attributes
    ----------
    run
        The function that does it: it is called with `arguments` and a `lib.training.resume.Resume`, single-threaded in a
        worker process, and returns arrays or numbers by name. One called ``status`` says which
        attempts diverged (see `lib.results.schema`).
    arguments
        What it is called with; they travel to the worker.
    identity
        All that the results depend on beside the code, as JSON values.
    modules
        The modules it uses, as far as imports do not tell: cells, engines, the task.
    size
        About proportional to the time it takes.
    title
        A few words for the line that tells it is done.
    company, places
        Jobs of the same company, a name, and of the same `run` are done in one call, at most `places` of them: `run` then gets lists, of
        what each would be called with and of their resumes, and returns a list of results, an exception in the place of a job that
        failed. Whose company a job has is no part of its name, and must not change its results. Without a name it has none.
    """

    run: Callable[..., Arrays]
    arguments: tuple
    identity: Mapping
    modules: tuple[str, ...]
    size: float = 1.0
    title: str = "job"
    company: str = ""
    places: int = 1

    @property
    def code(self) -> str:
        """Fingerprint of the code that the job runs."""
        return fingerprint([self.run.__module__, *self.modules])

    def name(self) -> dict:
        """Return the whole identity, which names the shard."""
        return {
            "job": dict(self.identity),
            "run": f"{self.run.__module__}.{self.run.__qualname__}",
            "code": self.code,
            "versions": {package: version(package) for package in PACKAGES},
        }


def run_jobs(
    name: str, jobs: Sequence[Work], cache: str | Path, where: Jobs
) -> list[dict[str, np.ndarray]]:
    """Return the results of all jobs, in their order; those without a shard are run, the largest first.

    Parameters
    ----------
    name
        What is running, for the lines of progress on the standard error.
    jobs
        They differ from each other.
    cache
        Folder of the shards, and of the states of unfinished jobs; created if needed.
    where
        The scheduler and the number of workers.

    Raises
    ------
    ConnectionError
        No scheduler answers at the address, no worker joins it, or it was lost; what had finished is kept.
    JobError
        Jobs failed, or workers run other code; the others have finished and are kept.

    Notes
    -----
    A worker that dies is Dask's to replace: its job runs again, from its last state. Only the caller's process writes shards, so
    nothing is lost or counted twice. Where some of a company fail, the others' results are kept and those run once more by
    themselves.
    """
    cache = Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    names = [job.name() for job in jobs]
    shards = [shard_path(cache, whole) for whole in names]  # two jobs may be the same training
    results = {path: read_shard(cache, whole) for path, whole in zip(shards, names, strict=True)}
    first = {path: i for i, path in reversed(list(enumerate(shards)))}
    missing = sorted(
        (i for path, i in first.items() if results[path] is None), key=lambda i: -jobs[i].size
    )
    progress = Progress(name, len(first), [jobs[i].size for i in missing])
    if not missing:
        return _counted(name, cache, results, shards)
    units = _units(jobs, missing)
    failed, lost = [], 0
    # Networks in one pass fill a GPU, and its memory is not there twice.
    one = int(torch.cuda.is_available() and any(len(unit) > 1 for unit in units))
    with connect(where.scheduler, where.workers or one) as client:

        def submit(unit: list[int], priority: int) -> Future:
            asked = [jobs[i] for i in unit], [names[i] for i in unit], cache
            # Not pure: two jobs are never the same call, and results must not be looked up by value.
            return client.submit(work, *asked, pure=False, retries=2, priority=priority)

        futures = {submit(unit, len(units) - rank): unit for rank, unit in enumerate(units)}
        ended = as_completed(list(futures))
        for future in ended:
            unit = futures.pop(future)
            if future.status == "error":
                error = future.exception()
                failed += [f"{jobs[i].title}: {type(error).__name__}: {error}" for i in unit]
                continue
            try:
                found = dict(zip(unit, future.result(), strict=True))
            except (OSError, CancelledError):  # as Dask says that its scheduler is gone
                lost += len(unit)
                continue
            done = [i for i in unit if found[i] is not None]
            diverged = 0
            for i in done:
                result = {key: np.asarray(value) for key, value in found[i].items()}
                write_shard(cache, names[i], result)
                _resume(cache, names[i], "").forget()
                results[shards[i]] = result
                diverged += int((result.get("status", np.empty(0)) == DIVERGED).sum())
            size = sum(jobs[i].size for i in done)
            progress.done(size, diverged, _title([jobs[i] for i in done]), jobs=len(done))
            if left := [i for i in unit if found[i] is None]:
                again = submit(left, 0)
                futures[again] = left
                ended.add(again)
    if lost:
        raise ConnectionError(
            f"the scheduler at {where.scheduler} was lost with {lost} of {len(jobs)} jobs of {name} to do; the others are "
            "kept: start it again, and run again to go on from there"
        )
    if failed:
        raise JobError(
            f"{len(failed)} of {len(jobs)} jobs of {name} failed, the others are kept; the first was {failed[0]}"
        )
    return _counted(name, cache, results, shards)


def cost_path(cache: Path, name: str) -> Path:
    """Return the file that says what the results `name` cost: their jobs and core seconds, which no dataset may hold."""
    return cache / f"{name}.cost.json"


def _counted(
    name: str, cache: Path, results: Mapping[Path, dict], shards: Sequence[Path]
) -> list[dict[str, np.ndarray]]:
    """Write down what all jobs took, and return their results without it."""
    seconds = sum(float(found.pop(SECONDS, 0.0)) for found in results.values())
    cost = {"jobs": len(results), "core_seconds": round(seconds, 2)}
    write_whole(cost_path(cache, name), lambda partial: partial.write_text(json.dumps(cost)))
    return [results[path] for path in shards]


def _units(jobs: Sequence[Work], missing: Sequence[int]) -> list[list[int]]:
    """Return which of the missing jobs are done in one call, the largest call first."""
    companies: dict[object, list[int]] = {}
    for i in missing:
        job = jobs[i]
        companies.setdefault((job.run, job.company, job.places) if job.company else i, []).append(i)
    units = [
        members[k : k + jobs[members[0]].places]
        for members in companies.values()
        for k in range(0, len(members), jobs[members[0]].places)
    ]
    return sorted(units, key=lambda unit: -sum(jobs[i].size for i in unit))


def _title(unit: Sequence[Work]) -> str:
    beside = f", and {len(unit) - 1} beside it" if len(unit) > 1 else ""
    return f"{unit[0].title}{beside}"


def work(unit: Sequence[Work], names: Sequence[Mapping], cache: Path) -> list[Arrays | None]:
    """Do a job, or those of a company, in this process, if code and packages are those that the driver asked for.

    Returns
    -------
    list
        Their results; None for one of a company that failed while others did not.

    Raises
    ------
    JobError
        Code or packages are others: a result would be kept under another code's name.
    Exception
        Whatever ended all of them, of the first.
    """
    for job, name in zip(unit, names, strict=True):
        here = job.name()
        for what in ("code", "versions"):
            if here[what] != name[what]:
                raise JobError(
                    f"this worker has other {what}, {here[what]} instead of {name[what]}; "
                    "start it again from the driver's commit and environment"
                )
    torch.set_num_threads(1)
    # Denormals slow the loops two- to tenfold, and are no numbers that anything here rests on.
    torch.set_flush_denormal(True)
    began = time.process_time()
    resumes = [_resume(cache, name, job.title) for job, name in zip(unit, names, strict=True)]
    if unit[0].company:
        found = unit[0].run([job.arguments for job in unit], resumes)
    else:
        found = [unit[0].run(*unit[0].arguments, resumes[0])]
    if all(isinstance(one, Exception) for one in found):
        raise found[0]
    seconds = (time.process_time() - began) / len(unit)
    return [None if isinstance(one, Exception) else {**one, SECONDS: seconds} for one in found]


def _resume(cache: Path, name: Mapping, title: str) -> Resume:
    return Resume(shard_path(cache, name).with_suffix(".state"), title)
