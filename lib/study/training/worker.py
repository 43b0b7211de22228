"""Run a batch of jobs in a worker process; `study.training.jobs` sends the batches."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from study.training.cache_key import cache_key
from study.training.checkpoint import Checkpoint
from study.training.cluster import check_this_worker
from study.training.job import Arrays, Job
from study.training.model import pick_device
from study.training.shards import RESUMED, SECONDS, shard_path

_ONE_AT_A_TIME = threading.Lock()
"""PyTorch has one generator per process, so jobs of one process run one after another."""


class JobError(RuntimeError):
    """A job can't be run or has failed; the message says which job and why."""


def run_batch(
    jobs: Sequence[Job], keys: Sequence[Mapping], prepared: Path | None, cache: Path
) -> list[Arrays]:
    """Run one job, or several in one vmapped pass, in this process.

    Parameters
    ----------
    jobs : sequence of Job
    keys : sequence of mapping
        Their cache keys, as computed by the process that called `study.training.jobs.run_jobs`
        (the driver).
    prepared : Path, optional
        Folder of the prepared data sets.
    cache : Path
        Folder of the checkpoints.

    Returns
    -------
    list of dict
        Variables of each job, and its cost: `SECONDS` and `RESUMED` of `study.training.shards`.

    Raises
    ------
    JobError
        Code, packages, device or data differ from those of the driver, so the results would be
        cached under the wrong key.
    ValueError
        The setting `device` is ``cuda``, and this worker has no GPU.
    ConnectionError
        The worker has several threads.
    """
    check_this_worker()
    checkpoints = []
    for job, driver_key in zip(jobs, keys, strict=True):
        _check_key(cache_key(_on_this_machine(job), prepared), driver_key)
        path = shard_path(cache, driver_key).with_suffix(".state")
        checkpoints.append(Checkpoint(path, job.title, runs_in_pass=len(jobs)))
    torch.set_num_threads(1)
    # Arithmetic on denormal numbers makes a run two to ten times slower. No result depends on them:
    # in training they are smaller than rounding errors, and the probes of gradients keep the
    # logarithm of a norm apart, so that small norms are ordinary numbers.
    torch.set_flush_denormal(True)
    with _ONE_AT_A_TIME:
        results = jobs[0].experiment.train(jobs, prepared, checkpoints)
    return [
        {**arrays, SECONDS: checkpoint.seconds, RESUMED: checkpoint.resumed}
        for arrays, checkpoint in zip(results, checkpoints, strict=True)
    ]


def _on_this_machine(job: Job) -> Job:
    """Return a job with the device that it would be trained on here.

    The driver has planned the job for a device of its own machine. With the setting ``auto``, a
    worker with other hardware would train it on another one.
    """
    setting = getattr(job.config, "device", job.device)
    return replace(job, device=pick_device(setting).type)


def _check_key(worker_key: Mapping, driver_key: Mapping) -> None:
    """Raise `JobError` if the cache key of this process differs from the driver's.

    Only one of the two has ``instructions`` if instructions are pinned in only one process.
    """
    for name in dict.fromkeys([*worker_key, *driver_key]):
        of_worker = worker_key.get(name, "not set")
        of_driver = driver_key.get(name, "not set")
        if of_worker != of_driver:
            raise JobError(
                f"{name} of this worker is {of_worker}, but {of_driver} in the process that "
                "sent the job; start the worker with the same commit and environment, on a machine "
                "of the same kind"
            )
