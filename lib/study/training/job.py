"""A job of any experiment: what `params.yaml` says of it, how it is done, and the dataset that it and the others make."""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import xarray as xr
from longrnn import kernels
from longrnn.cells import cell_class

from study.config.design import Design
from study.pipeline.fingerprint import fingerprint
from study.results.joined import joined
from study.results.schema import Schema
from study.training.checkpoint import Checkpoint
from study.training.model import pick_device

Arrays = Mapping[str, Any]
Results = Sequence[Arrays]
"""What came of jobs, in their order: variables of the dataset by name."""

VERSIONS = {name: version(name) for name in ["numpy", "torch", "numba", "scipy", "scikit-learn"]}
"""Of packages that change random numbers or last digits, and so name the shards."""
RUNNER = ("lib/study/pipeline/", "lib/study/training/jobs.py", "lib/study/training/cluster.py")
"""Code that runs jobs and is no part of what comes of them."""


class Job(Design):
    """What an experiment trains in one call."""

    section: ClassVar[str]
    """Of `params.yaml` that says what is planned."""
    held: ClassVar[Schema]
    """Schema of its dataset, where that is one for all designs."""
    cells = property(lambda job: ())
    """Names of the cells that it trains, and of what else engines are registered for, such as ``rnn/adjoints``."""
    datasets = property(lambda job: ())
    """Prepared data sets that it reads."""
    modules = property(lambda job: ())
    """Those that it uses, as far as imports, cells and engines do not tell: its task's."""
    size = property(lambda job: 1.0)
    """Proportional to the time it takes among the jobs of its group, and about so among all: the largest begin first."""
    title = property(str)
    """A few words for the line that tells it is done."""
    on = property(lambda job: pick_device(getattr(job, "device", "cpu")).type)
    """The type of the device that it runs on."""
    batch_key = property(lambda job: "")
    """What jobs must have in common that are done in one call; no part of a result."""
    places = property(lambda job: 1)
    """How many jobs of one `batch_key` are done in one call, by `compute_together`; 1 for each by itself."""
    inner = property(lambda design: {})
    """Levels of every dimension along which one job returns several values; along all others it has a place, by its field of that name."""

    def compute(self, prepared: Path | None, checkpoint: Checkpoint | None) -> Arrays:
        """Do the job, with the folder of the prepared data sets; return variables of the dataset by name."""
        (found,) = self.compute_together([self], prepared, [checkpoint])
        return found

    @staticmethod
    def compute_together(
        jobs: Sequence["Job"], prepared: Path | None, checkpoints: Sequence[Checkpoint | None]
    ) -> Results:
        """Do jobs of one `batch_key`, as many as have `places`; return what came of each, whose last digits depend on the places."""
        return [
            job.compute(prepared, checkpoint)
            for job, checkpoint in zip(jobs, checkpoints, strict=True)
        ]

    @classmethod
    def schema(cls, designs: Sequence["Job"]) -> Schema:
        """Return the schema of the dataset of some designs."""
        return cls.held

    @classmethod
    def dimensions(cls, designs: Sequence["Job"], results: Results) -> Mapping[str, Sequence]:
        """Return the `inner` levels of the dataset of some designs."""
        return designs[0].inner

    @classmethod
    def finish(cls, ds: xr.Dataset, designs: Sequence["Job"], results: Results) -> xr.Dataset:
        """Fill in what follows from all results."""
        return ds

    def identity(self) -> dict[str, Any]:
        """Return what its results depend on, beside the code and the data."""
        return self.values()

    @property
    def _chosen(self) -> dict[str, str]:
        """The engine of each cell on the job's device in float32: its last digits are the results'."""
        return {name: kernels.choose(name, self.on) for name in sorted(set(self.cells))}

    @property
    def engines(self) -> dict[str, str]:
        """What runs each cell, by name: networks side by side are trained by the reference."""
        if self.places == 1:
            return self._chosen
        reference = "reference" if self.on == "cpu" else f"reference-{self.on}"
        return {
            name: f"{reference}, {self.places} places; probes {one}"
            for name, one in self._chosen.items()
        }

    @property
    def code(self) -> str:
        """Fingerprint of the code that it runs: its own, its cells' and its engines'."""
        chosen = self._chosen
        cells = {cell_class(name).__module__ for name in chosen if "/" not in name}
        twins = {kernels.module_of(name, engine) for name, engine in chosen.items()} - {None}
        return _code((type(self).__module__, *sorted({*self.modules, *cells, *twins})))

    def name(self, prepared: Path | None) -> dict[str, Any]:
        """Return all that its results depend on, as JSON values, for the folder of the prepared data sets: what names its shard."""
        return {
            "experiment": self.section,
            "levels": self.identity(),
            "engines": self.engines,
            "device": self.on,
            "data": {name: data_hash(prepared, name) for name in sorted(self.datasets)},
            "code": self.code,
            "versions": VERSIONS,
        }

    @classmethod
    def joined(cls, profile: str, designs: Sequence["Job"], results: Results) -> xr.Dataset:
        """Return the results of all jobs of some designs, in their order, as one dataset, each job's variables at its levels."""
        jobs = [job for design in designs for job in design.jobs()]
        about = {"profile": profile, "settings": _settings(designs, jobs)}
        inner = cls.dimensions(designs, results)
        ds = joined(cls.schema(designs), jobs, results, inner, **about)
        return cls.finish(ds, designs, results)


def _settings(designs: Sequence[Job], jobs: Sequence[Job]) -> dict:
    """Return what designs say beside their factors: once where they agree, and the engines that ran them."""
    first, *others = (design.values() for design in designs)
    shared = {
        key: value
        for key, value in first.items()
        if key != "replicate" and all(other[key] == value for other in others)
    }
    ran = {name: engine for job in jobs for name, engine in job.engines.items()}
    return {**shared, "engines": dict(sorted(ran.items()))}


@cache  # a process runs what it has imported
def _code(modules: tuple[str, ...]) -> str:
    return fingerprint(modules, without=RUNNER)


@cache
def _hash(path: Path, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def data_hash(prepared: Path, name: str) -> str:
    """Return the SHA-256 of a prepared data set; raises `ValueError` where it is not prepared."""
    path = prepared / f"{name}.nc"
    if not path.exists():
        raise ValueError(f"data set {name!r} is not prepared: no {path}; run notebook 00 first")
    return _hash(path, path.stat().st_mtime_ns)


def seeds(levels: Mapping, count: int) -> tuple[np.random.SeedSequence, ...]:
    """Return independent seeds that depend on the levels alone, not on where or beside which others a job runs.

    Levels are JSON values by name, in any order; the first seeds stay the same when more are asked for.
    """
    text = json.dumps(levels, sort_keys=True).encode()
    entropy = int.from_bytes(hashlib.sha256(text).digest(), "big")
    return tuple(np.random.SeedSequence(entropy).spawn(count))


def seeds_of(
    job: object, fields: Iterable[str], count: int, **levels
) -> tuple[np.random.SeedSequence, ...]:
    """Return `seeds` that depend on these fields of a job, and on further levels, alone."""
    return seeds({name: getattr(job, name) for name in fields} | levels, count)


@contextlib.contextmanager
def torch_seed(seed: np.random.SeedSequence) -> Iterator[None]:
    """Let PyTorch's generators draw from `seed` inside the block, and go on as before after it."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(int(seed.generate_state(1, np.uint64)[0]))
        yield
