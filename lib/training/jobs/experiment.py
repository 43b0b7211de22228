"""What distinguishes one experiment from another."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

import xarray as xr

from lib.training.jobs.shards import Arrays

J = TypeVar("J")


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[J]):
    """The jobs that a profile asks for, how one is run, and the dataset that comes of all.

    `plan`, `run` and `join` of an experiment that reads prepared data sets take a last argument ``prepared``, the
    folder of those.

    Attributes
    ----------
    name
        Part of every shard's identity.
    recipe
        Raised whenever a change of the code changes results.
    plan
        Returns the jobs of a `Profile`: frozen dataclasses that differ from each other. What takes longest had best
        come first: no core waits for another at the end.
    run
        Returns a job's results, arrays or numbers by name; runs single-threaded in a worker process. An array
        called ``status`` says which attempts diverged (see `lib.results.schema`).
    join
        Returns the validated dataset, from the profile's name, the `Profile`, and the results by job.
    identity
        Everything that a job's results depend on, as JSON values; by default the job's fields.
    work
        About proportional to the time a job takes, for the estimate of the time left.
    describe
        A few words on a job, for the line that tells it is done.
    """

    name: str
    recipe: int
    plan: Callable[..., list[J]]
    run: Callable[..., Arrays]
    join: Callable[..., xr.Dataset]
    identity: Callable[[J], dict] = asdict
    work: Callable[[J], float] = lambda job: 1.0
    describe: Callable[[J], str] = str
