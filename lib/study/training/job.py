"""A job: the unit of work that is scheduled, cached and stored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from study.config.section import Section
from study.results.schema import Schema
from study.training.checkpoint import Checkpoint

Arrays = Mapping[str, Any]
"""The result of a job: variables of its dataset by name."""
Attributes = Mapping[str, Any]
"""Attributes ``profile`` and ``settings`` of a dataset, see `study.results.schema.Schema.empty`."""


@dataclass(frozen=True)
class Experiment:
    """A kind of experiment: how to train its jobs, and how to join their results to a dataset.

    Attributes
    ----------
    name : str
        Name of the experiment, which is part of the cache key.
    train : callable
        ``train(jobs, prepared, checkpoints)`` trains jobs with the same `Job.pass_key` and returns
        the variables of each. `prepared` is the folder of the prepared data sets. `checkpoints` has
        one entry per job, which is None if the job saves no state. All code that the function uses
        is part of the cache key.
    schema : callable
        ``schema(designs)`` returns the schema of the dataset.
    to_dataset : callable
        ``to_dataset(designs, jobs, results, attributes)`` joins the variables of all jobs to a
        dataset with these attributes.
    """

    name: str
    train: Callable[[Sequence["Job"], Path | None, Sequence[Checkpoint | None]], list[Arrays]]
    schema: Callable[[Sequence[Section]], Schema]
    to_dataset: Callable[
        [Sequence[Section], Sequence["Job"], Sequence[Arrays], Attributes], xr.Dataset
    ]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training job: its settings, and what is needed to schedule it and to cache its results.

    Attributes
    ----------
    experiment : Experiment
    config : Section
        The settings, with one value for every factor: a `study.config.run.RunConfig`, or one job
        of a `study.config.design.Design`.
    replicate : int
        Number of the replicate, from 0.
    levels : mapping
        All settings that the results depend on, as JSON values, for the cache key.
    title : str
        Short name in lines of progress.
    relative_cost : float
        Relative cost, comparable only within a group. Jobs with larger costs start earlier.
    cells : tuple of str
        Names under which the job's engines are registered: the names of its cells, and others such
        as ``rnn/adjoints``.
    device : str
        Type of the device it runs on.
    datasets : tuple of str
        Prepared data sets it reads.
    modules : tuple of str
        Further modules whose code the results depend on, such as the task's module. No import
        statement leads to them, because they are looked up by name.
    pass_key : str
        Jobs with the same key may share a vmapped pass.
    pass_size : int
        Largest number of jobs in a vmapped pass; 1 to train each job separately.
    """

    experiment: Experiment
    config: Section
    replicate: int
    levels: Mapping[str, Any]
    title: str
    relative_cost: float = 1.0
    cells: tuple[str, ...] = ()
    device: str = "cpu"
    datasets: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    pass_key: str = ""
    pass_size: int = 1

    def train(self, prepared: Path | None = None, checkpoint: Checkpoint | None = None) -> Arrays:
        """Run the job in this process.

        Parameters
        ----------
        prepared : Path, optional
            Folder of the prepared data sets.
        checkpoint : Checkpoint, optional
            File for the state of the run, to resume it after a kill.

        Returns
        -------
        dict
            Variables of the dataset by name.
        """
        (arrays,) = self.experiment.train([self], prepared, [checkpoint])
        return arrays
