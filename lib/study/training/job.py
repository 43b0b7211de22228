"""A job: one unit of work for a process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from study.config.section import Section
from study.results.schema import Schema
from study.training.checkpoint import Checkpoint

Arrays = Mapping[str, Any]
"""What a job returns: variables of its dataset by name."""
Attributes = Mapping[str, Any]
"""The ``profile`` and the ``settings`` of a dataset, see `study.results.schema.Schema.empty`."""


@dataclass(frozen=True)
class Experiment:
    """How the jobs of one kind of design become results, and these a dataset.

    Attributes
    ----------
    name : str
        Name of the experiment, which is part of the cache key.
    train : callable
        Trains some jobs of one `Job.batch_key`, with the folder of the prepared data sets and a
        checkpoint for each job, and returns the variables of each. The code that it reaches is part
        of the cache key.
    schema : callable
        Returns the schema of the dataset of some designs.
    to_dataset : callable
        Joins the results of some designs: takes the designs, their jobs, the variables of each job,
        and the attributes of the dataset.
    """

    name: str
    train: Callable[[Sequence["Job"], Path | None, Sequence[Checkpoint | None]], list[Arrays]]
    schema: Callable[[Sequence[Section]], Schema]
    to_dataset: Callable[
        [Sequence[Section], Sequence["Job"], Sequence[Arrays], Attributes], xr.Dataset
    ]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One configuration with a level in every place, and what is needed to schedule and name it.

    Attributes
    ----------
    experiment : Experiment
    config : Section
        Such as a `study.config.run.RunConfig`, or one job of a `study.config.design.Design`.
    replicate : int
        From 0.
    levels : mapping
        Everything that the results depend on beside code, data and engines, as JSON values.
    title : str
        A few words for lines of progress.
    size : float
        Proportional to the duration among the jobs of a group; the largest jobs start first.
    cells : tuple of str
        Cells it trains, and what else engines are registered for, such as ``rnn/adjoints``.
    device : str
        Type of the device it runs on.
    datasets : tuple of str
        Prepared data sets it reads.
    modules : tuple of str
        Modules it uses that imports, cells and engines don't reveal, such as its task's.
    batch_key : str
        Jobs with the same key may share a vmapped pass.
    pass_size : int
        Number of jobs that share a pass; 1 for each job on its own.
    """

    experiment: Experiment
    config: Section
    replicate: int
    levels: Mapping[str, Any]
    title: str
    size: float = 1.0
    cells: tuple[str, ...] = ()
    device: str = "cpu"
    datasets: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    batch_key: str = ""
    pass_size: int = 1

    def train(self, prepared: Path | None = None, checkpoint: Checkpoint | None = None) -> Arrays:
        """Do the job in this process.

        Parameters
        ----------
        prepared : Path, optional
            Folder of the prepared data sets.
        checkpoint : Checkpoint, optional
            Where the state of the run is kept.

        Returns
        -------
        dict
            Variables of the dataset by name.
        """
        (arrays,) = self.experiment.train([self], prepared, [checkpoint])
        return arrays
