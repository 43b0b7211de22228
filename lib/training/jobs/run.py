"""Run the jobs of an experiment that have no shard yet, on Dask, and join the results of all."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr
from dask.distributed import as_completed

from lib.results.schema import DIVERGED
from lib.run.params import JobsSection, Profile
from lib.training.jobs.cluster import connect
from lib.training.jobs.experiment import Experiment, J
from lib.training.jobs.progress import Progress
from lib.training.jobs.shards import Arrays, read_shard, write_shard


def run_experiment(
    experiment: Experiment,
    profile_name: str,
    profile: Profile,
    *,
    cache: str | Path,
    prepared: str | Path | None = None,
) -> xr.Dataset:
    """Run every job of a profile that has no shard yet; return the results of all as one validated dataset.

    Parameters
    ----------
    experiment
        Such as `lib.experiments.factorial.STUDY`.
    profile_name, profile
        The design and its settings, with the section that says where jobs run.
    cache
        Folder for the shards; created if needed.
    prepared
        Folder with one ``<dataset>.nc`` each, for an experiment that reads prepared data sets.

    Raises
    ------
    ConnectionError
        No scheduler answers at the address in the profile.
    ValueError
        What the experiment's plan says of a design that cannot be run.

    Notes
    -----
    Progress goes to the standard error. A worker that dies is Dask's to replace: its job runs again, and only the
    caller's process writes shards, so nothing is lost or counted twice.
    """
    data = {} if prepared is None else {"prepared": Path(prepared)}
    jobs = experiment.plan(profile, **data)
    found = run_jobs(experiment, jobs, partial(experiment.run, **data), Path(cache), profile.jobs)
    return experiment.join(profile_name, profile, dict(zip(jobs, found, strict=True)), **data)


def run_jobs(
    experiment: Experiment[J],
    jobs: Sequence[J],
    run: Callable[[J], Arrays],
    cache: Path,
    where: JobsSection,
) -> list[dict[str, np.ndarray]]:
    """Return the results of all jobs, in their order, those without a shard from `run`."""
    cache.mkdir(parents=True, exist_ok=True)
    shared = {"experiment": experiment.name, "recipe": experiment.recipe}
    names = [{**shared, "job": experiment.identity(job)} for job in jobs]
    results = [read_shard(cache, whole) for whole in names]
    missing = [i for i, found in enumerate(results) if found is None]
    work = [experiment.work(job) for job in jobs]
    progress = Progress(experiment.name, len(jobs), [work[i] for i in missing])
    if not missing:
        return results
    with connect(where.scheduler, where.workers) as client:
        # Not pure: two jobs are never the same call, and results must not be looked up by value.
        futures = {client.submit(run, jobs[i], pure=False, retries=2): i for i in missing}
        for future in as_completed(list(futures)):
            i = futures.pop(future)
            result = {key: np.asarray(value) for key, value in future.result().items()}
            write_shard(cache, names[i], result)
            results[i] = result
            diverged = int((result.get("status", np.empty(0)) == DIVERGED).sum())
            progress.done(work[i], diverged, experiment.describe(jobs[i]))
    return results
