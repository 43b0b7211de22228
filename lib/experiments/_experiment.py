"""What distinguishes one experiment from another, and how any of them is run."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import xarray as xr
from pydantic import AfterValidator

from lib import kernels
from lib.cells import cell_class, make_cell
from lib.results.schema import Schema
from lib.run.params import Design, Jobs
from lib.training.jobs import Work, run_jobs
from lib.training.model import pick_device
from lib.training.resume import Resume

Arrays = Mapping[str, Any]

EXPERIMENTS: dict[str, "Experiment"] = {}


def known_cell(name: str) -> str:
    """Return the name of an architecture that there is; raises `ValueError`."""
    cell_class(name)
    return name


Architecture = Annotated[str, AfterValidator(known_cell)]
"""A name of a cell, checked when `params.yaml` is read."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A section of `params.yaml`, the jobs it asks for, how one is run, and the dataset of all.

    Attributes
    ----------
    name
        Of the section, and of the dataset that its notebook writes.
    design
        The section's kind: its factors are dimensions of the dataset.
    schema
        Of the dataset.
    run
        Runs a job: it gets the job, the folder of the prepared data sets, and a
        `lib.training.resume.Resume`; what it returns are the job's variables of the schema, by name.
    cells
        Names of the cells that a job trains, and of what else engines are registered for, such as ``rnn/adjoints``.
    grouped
        Whether the section holds several of its kind by name, each with a dataset of that name.
    datasets
        Names of the prepared data sets that a job reads.
    modules
        Modules that a job uses and no import tells, such as that of its task.
    levels
        Levels of dimensions from the designs; by default those that the jobs have.
    inner
        Dimensions along which one job returns several values although it has a level of that name.
    prefix
        What a job's variables begin with in the dataset, where several sets of jobs share it.
    identity
        What a job's results depend on; by default all that it says.
    plan
        The jobs of the designs; by default each job of each.
    fill
        Adds to the joined dataset what follows from the designs, or from all results together.
    about
        Adds to the settings that the dataset keeps.
    size, title
        About proportional to a job's time, and a few words on it.
    places, alike, run_together
        How many jobs are done in one call, 1 for each by itself; what those must have in common, as JSON values; and what does them:
        it gets what `run` would for each of them and their `Resume`, see `lib.training.jobs.Work`. Results of a job done so are kept
        apart from those of `run`, since they differ by rounding, and do not depend on who else was there.
    """

    name: str
    design: type[Design]
    schema: Schema
    run: Callable[[Any, Path | None, Resume], Arrays]
    cells: Callable[[Any], Iterable[str]]
    grouped: bool = False
    datasets: Callable[[Any], Iterable[str]] = lambda job: ()
    modules: Callable[[Any], Iterable[str]] = lambda job: ()
    levels: Callable[[Sequence[Any]], dict[str, list]] = lambda designs: {}
    inner: tuple[str, ...] = ()
    prefix: Callable[[Any], str] = lambda job: ""
    identity: Callable[[Any], dict] = lambda job: job.values()
    plan: Callable[[Sequence[Any]], list] = lambda designs: [j for d in designs for j in d.jobs()]
    fill: Callable[[xr.Dataset, Sequence[Any], Path | None, Sequence[Arrays]], None] = (
        lambda ds, designs, prepared, found: None
    )
    about: Callable[[Sequence[Any]], dict] = lambda designs: {}
    size: Callable[[Any], float] = lambda job: 1.0
    title: Callable[[Any], str] = str
    device: Callable[[Any], str] = lambda job: "cpu"
    places: Callable[[Any], int] = lambda job: 1
    alike: Callable[[Any], Mapping] = lambda job: {}
    run_together: Callable[[Sequence[tuple], Sequence[Resume]], Sequence[Arrays | Exception]] = None

    def __post_init__(self) -> None:
        EXPERIMENTS[self.name] = self

    def work(self, job: Any, prepared: Path | None) -> Work:
        """Return a job as `lib.training.jobs` runs it."""
        places = self.places(job)
        batch_key = json.dumps(self.alike(job), sort_keys=True) if places > 1 else ""
        return Work(
            run=self.run_together if batch_key else self.run,
            batch_key=batch_key,
            batch_size=places,
            arguments=(job, prepared),
            identity={
                "experiment": self.name,
                "levels": self.identity(job),
                "engines": self.engines(job),
                "device": pick_device(self.device(job)).type,
                "data": {name: data_hash(prepared, name) for name in sorted(self.datasets(job))},
            },
            modules=tuple(sorted({*self.modules(job), *_modules(self._chosen(job))})),
            size=self.size(job),
            title=self.title(job),
        )

    def train(
        self,
        name: str,
        profile: str,
        designs: Sequence[Design],
        where: Jobs,
        *,
        cache: str | Path,
        prepared: str | Path | None = None,
    ) -> xr.Dataset:
        """Run every job that has no shard yet; return the results of all as one validated dataset.

        Parameters
        ----------
        name
            Of what is run, for the lines of progress: the experiment, or the group.
        profile
            Its name, an attribute of the dataset.
        designs
            From `lib.experiments.load_profile`.
        where
            Scheduler and workers.
        cache
            Folder of the shards.
        prepared
            Folder with one ``<dataset>.nc`` each, for an experiment that reads prepared data sets.

        Raises
        ------
        ConnectionError, lib.training.jobs.run.JobError
            See `lib.training.jobs.run_jobs`.
        ValueError
            What a design asks for does not exist or does not fit.
        """
        prepared = None if prepared is None else Path(prepared)
        jobs = self.plan(designs)
        asked = {name: [self.work(job, prepared) for job in jobs]}
        found = run_jobs(asked, cache, where)[name].results
        ds = self.join(profile, designs, jobs, found)
        self.fill(ds, designs, prepared, found)
        return self.schema.validate(ds)

    def join(
        self, profile: str, designs: Sequence[Design], jobs: Sequence[Any], found: Sequence[Arrays]
    ) -> xr.Dataset:
        """Return the results in one dataset: each job's variables at its levels."""
        own = self.levels(designs)
        levels = {
            dim: own[dim] if dim in own else list(dict.fromkeys(getattr(job, dim) for job in jobs))
            for dim in self.schema.coordinates
        }
        ds = self.schema.empty(levels, profile=profile, settings=self.settings(designs, jobs))
        place = {
            dim: {level: i for i, level in enumerate(values)}
            for dim, values in levels.items()
            if dim not in self.inner and hasattr(jobs[0], dim)
        }
        for job, arrays in zip(jobs, found, strict=True):
            prefix = self.prefix(job)
            for name, (dims, *_) in self.schema.variables.items():
                if name.startswith(prefix) and name.removeprefix(prefix) in arrays:
                    at = tuple(place[dim][getattr(job, dim)] for dim in dims if dim in place)
                    values = np.asarray(arrays[name.removeprefix(prefix)])
                    ds[name].values[(*at, *(slice(size) for size in values.shape))] = values
        return ds

    def settings(self, designs: Sequence[Design], jobs: Sequence[Any]) -> dict:
        """Return what the designs say beside their factors: once where they agree, and what differs under ``grids``."""
        said = [design.values() for design in designs]
        shared = {
            key: value
            for key, value in said[0].items()
            if key != "replicate" and all(other[key] == value for other in said)
        }
        differing = [
            {k: v for k, v in one.items() if k not in shared and k != "replicate"} for one in said
        ]
        engines = {name: said for job in jobs for name, said in self.engines(job).items()}
        grids = {"grids": differing} if len(said) > 1 else {}
        return {**shared, **grids, **self.about(designs), "engines": dict(sorted(engines.items()))}

    def engines(self, job: Any) -> dict[str, str]:
        """Return what runs each cell of a job, by name: networks side by side are trained by the reference."""
        chosen, places = self._chosen(job), self.places(job)
        if places == 1:
            return chosen
        device = pick_device(self.device(job)).type
        reference = "reference" if device == "cpu" else f"reference-{device}"
        return {name: f"{reference}, {places} places; probes {own}" for name, own in chosen.items()}

    def _chosen(self, job: Any) -> dict[str, str]:
        device = pick_device(self.device(job)).type
        return {name: engine(name, device) for name in sorted(set(self.cells(job)))}


def engine(cell: str, device: str) -> str:
    """Return the engine that runs a cell on a device in float32: its last digits are the results'."""
    return kernels.choose(cell, device, torch.float32)


def _modules(engines: Mapping[str, str]) -> Iterable[str]:
    """Yield the modules of cells and of their engines."""
    for name, chosen in engines.items():
        if "/" not in name:
            yield cell_class(name).__module__
        if module := kernels.module_of(name, chosen):
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


def parameter_count(
    architecture: str, features: int, width: int, hyper_parameters: Mapping[str, object]
) -> int:
    """Return the number of trainable numbers in a cell."""
    cell = make_cell(architecture, features, width, **hyper_parameters)
    return sum(parameter.numel() for parameter in cell.parameters())
