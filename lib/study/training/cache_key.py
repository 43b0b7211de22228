"""The cache key of a job: everything that its results depend on.

`study.training.shards` names the file of a job's results by a hash of this key.
"""

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from longrnn import kernels
from longrnn.cells import cell_class

from study.pipeline.fingerprint import fingerprint
from study.pipeline.instructions import PINNED, pinned
from study.training.job import Job

_PACKAGES = ("numpy", "torch", "numba", "scipy", "scikit-learn")
VERSIONS = {name: version(name) for name in _PACKAGES}
"""Versions of the packages that can change random numbers or last digits."""
WITHOUT_EFFECT = ("lib/study/pipeline/",)
"""Folders whose code jobs import, but which can't change their results."""


def cache_key(job: Job, prepared: Path | None) -> dict[str, Any]:
    """Return everything that a job's results depend on, as JSON values.

    Parameters
    ----------
    job : Job
    prepared : Path, optional
        Folder of the prepared data sets; None if the job reads none.

    Returns
    -------
    dict
        Experiment, levels, device, engines, hashes of the data, fingerprint of the code, versions
        of packages; and the instructions, if they are pinned.

    Raises
    ------
    ValueError
        A data set is not prepared.
    """
    key = {
        "experiment": job.experiment.name,
        "levels": job.levels,
        "device": job.device,
        "engines": engines(job),
        "data": {name: data_hash(prepared, name) for name in sorted(job.datasets)},
        "code": code_fingerprint(job),
        "versions": VERSIONS,
    }
    if pinned():
        key["instructions"] = dict(PINNED)
    return key


def engines(job: Job) -> dict[str, str]:
    """Return the engine of each cell of a job, by the cell's name.

    Engines are part of the cache key, because their results differ in the last digits. A vmapped
    pass may use one engine for training and another one for probes.

    Parameters
    ----------
    job : Job

    Returns
    -------
    dict of str to str
        The name of the engine. For jobs in a vmapped pass it also includes the size of the pass and
        the engine of the probes.
    """
    chosen = _chosen_engines(job)
    if job.pass_size == 1:
        return chosen
    described = {}
    for cell, engine in chosen.items():
        training = kernels.choose_for_runs(cell, job.device)
        described[cell] = f"{training}, {job.pass_size} places; probes {engine}"
    return described


def code_fingerprint(job: Job) -> str:
    """Return the fingerprint of all code that a job's results depend on.

    Parameters
    ----------
    job : Job

    Returns
    -------
    str
        See `study.pipeline.fingerprint.fingerprint`.
    """
    chosen = _chosen_engines(job)
    modules = {*job.modules}
    for name, engine in chosen.items():
        is_cell = "/" not in name  # a name such as rnn/adjoints has an engine but no class
        if is_cell:
            modules.add(cell_class(name).__module__)
        pull_back = f"{name}/pull_back"  # the engine of the probes
        modules.add(kernels.module_of(name, engine))
        modules.add(kernels.module_of(pull_back, kernels.choose(pull_back, job.device)))
        if job.pass_size > 1:
            engine_of_pass = kernels.choose_for_runs(name, job.device)
            modules.add(kernels.module_of(name, engine_of_pass))
    modules.discard(None)  # from `module_of` for the reference, which is in the cell's module
    return _fingerprint((job.experiment.train.__module__, *sorted(modules)))


def data_hash(prepared: Path, name: str) -> str:
    """Return the SHA-256 of the file of a prepared data set.

    Parameters
    ----------
    prepared : Path
        Folder of the prepared data sets.
    name : str
        Name of the data set.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        The data set is not prepared.
    """
    path = prepared / f"{name}.nc"
    if not path.exists():
        raise ValueError(f"data set {name!r} is not prepared: no {path}; run notebook 00 first")
    return _file_hash(path, path.stat().st_mtime_ns)


def _chosen_engines(job: Job) -> dict[str, str]:
    return {name: kernels.choose(name, job.device) for name in sorted(set(job.cells))}


@cache  # computed once, because this process has already imported the code
def _fingerprint(modules: tuple[str, ...]) -> str:
    return fingerprint(modules, without=WITHOUT_EFFECT)


@cache
def _file_hash(path: Path, changed_at: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
