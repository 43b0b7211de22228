"""How any experiment of `params.yaml` is run: its jobs as work for the queue, and their results as one dataset."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from lib import kernels
from lib.cells import cell_class
from lib.results.schema import ResultsError, Schema
from lib.training.job import Job
from lib.training.jobs import Work
from lib.training.model import pick_device
from lib.training.resume import Resume

Arrays = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A kind of jobs.

    Attributes
    ----------
    name
        Of its section in `params.yaml`.
    run
        Does a job: it gets the job, the folder of the prepared data sets, and a `lib.training.resume.Resume`, and returns variables of
        the dataset by name.
    schema
        Of the dataset of some designs.
    levels
        Those of every dimension along which one job returns several values, from designs and the results of their jobs; along all other
        dimensions a job has a place, by its field of that name.
    finish
        Fills in what follows from all results.
    design
        What its section is checked against; rows have a grammar of their own (`lib.training.grammar`).
    run_together
        Does jobs in one call, where they ask for it: it gets a list of what `run` would get of each, and their `Resume`; results are kept
        apart from those of `run`, since they differ by rounding.
    """

    name: str
    run: Callable[[Any, Path | None, Resume], Arrays]
    schema: Callable[[Sequence[Any]], Schema]
    levels: Callable[[Sequence[Any], Sequence[Arrays]], Mapping[str, Sequence]]
    finish: Callable[[xr.Dataset, Sequence[Any], Sequence[Arrays]], xr.Dataset] = lambda ds, *_: ds
    design: type[Job] | None = None
    run_together: (
        Callable[[Sequence[tuple], Sequence[Resume]], Sequence[Arrays | Exception]] | None
    ) = None

    def work(self, job: Job, prepared: Path | None) -> Work:
        """Return a job as `lib.training.jobs` runs it."""
        together = job.jobs_in_a_call
        key = json.dumps(job.batch_key(), sort_keys=True) if together > 1 else ""
        return Work(
            run=self.run_together if key else self.run,
            batch_key=key,
            batch_size=together,
            arguments=(job, prepared),
            identity={
                "experiment": self.name,
                "levels": job.identity(),
                "engines": engines(job),
                "device": pick_device(job.on).type,
                "data": {name: data_hash(prepared, name) for name in sorted(job.datasets)},
            },
            modules=tuple(sorted({*job.modules, *_modules(_chosen(job))})),
            size=job.size,
            title=job.title,
        )

    def dataset(
        self, profile: str, designs: Sequence[Job], results: Sequence[Arrays]
    ) -> xr.Dataset:
        """Return the results of all jobs of some designs, in their order, as one dataset, each job's variables at its levels.

        Raises
        ------
        ResultsError
            Two jobs have the same levels.
        """
        jobs = [job for design in designs for job in design.jobs()]
        schema, inner = self.schema(designs), self.levels(designs, results)
        of_jobs = {
            dim: list(dict.fromkeys(getattr(job, dim) for job in jobs))
            for dim in schema.coordinates
            if dim not in inner
        }
        place = {dim: {level: i for i, level in enumerate(found)} for dim, found in of_jobs.items()}
        ds = schema.empty({**of_jobs, **inner}, profile=profile, settings=_settings(designs))
        taken: set[tuple] = set()
        for job, arrays in zip(jobs, results, strict=True):
            levels = {dim: getattr(job, dim) for dim in place}
            if tuple(levels.values()) in taken:
                raise ResultsError(f"two results at {levels}; expected one")
            taken.add(tuple(levels.values()))
            for name, (dims, *_) in schema.variables.items():
                if name in arrays:
                    at = tuple(place[dim][levels[dim]] for dim in dims if dim in place)
                    values = np.asarray(arrays[name])
                    ds[name].values[(*at, *(slice(size) for size in values.shape))] = values
        return self.finish(ds, designs, results)


def _settings(designs: Sequence[Job]) -> dict:
    """Return what designs say beside their factors: once where they agree, and the engines that ran them."""
    said = [design.values() for design in designs]
    shared = {
        key: value
        for key, value in said[0].items()
        if key != "replicate" and all(other[key] == value for other in said)
    }
    ran = {
        name: chosen
        for design in designs
        for job in design.jobs()
        for name, chosen in engines(job).items()
    }
    return {**shared, "engines": dict(sorted(ran.items()))}


def engines(job: Job) -> dict[str, str]:
    """Return what runs each cell of a job, by name: networks side by side are trained by the reference."""
    chosen, together = _chosen(job), job.jobs_in_a_call
    if together == 1:
        return chosen
    device = pick_device(job.on).type
    reference = "reference" if device == "cpu" else f"reference-{device}"
    return {name: f"{reference}, {together} places; probes {one}" for name, one in chosen.items()}


def _chosen(job: Job) -> dict[str, str]:
    """Return the engine of each cell on the job's device in float32: its last digits are the results'."""
    device = pick_device(job.on).type
    return {name: kernels.choose(name, device, torch.float32) for name in sorted(set(job.cells))}


def _modules(chosen: Mapping[str, str]) -> Iterable[str]:
    """Yield the modules of cells and of their engines."""
    for name, one in chosen.items():
        if "/" not in name:
            yield cell_class(name).__module__
        if module := kernels.module_of(name, one):
            yield module


@cache
def _hash(path: Path, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def data_hash(prepared: Path | None, name: str) -> str:
    """Return the SHA-256 of a prepared data set; raises `ValueError` where it is not prepared."""
    path = None if prepared is None else prepared / f"{name}.nc"
    if path is None or not path.exists():
        raise ValueError(f"data set {name!r} is not prepared: no {path}; run notebook 00 first")
    return _hash(path, path.stat().st_mtime_ns)
