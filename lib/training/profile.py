"""A profile of `params.yaml` with everything in it checked, and the one way to train it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lib.results.rows import schema_of
from lib.run.params import PARAMS, Jobs, ParameterError, checked, merged, shown
from lib.tasks.sources import source_names
from lib.training import factorial, grammar, latching, linear_gaps, rows
from lib.training.experiment import Experiment, settings_of
from lib.training.job import Job
from lib.training.jobs import Trained, run_jobs
from lib.training.row import coordinates

ROWS = Experiment(name="trainings", run=rows.run, dataset=rows.dataset, schema=schema_of)
DESIGNS = {e.name: e for e in (factorial.EXPERIMENT, latching.EXPERIMENT, linear_gaps.EXPERIMENT)}
MOST = 10**6
"""More trainings than these in one dataset are a slip of the pen."""


@dataclass(frozen=True)
class Profile:
    """All settings of one profile.

    Attributes
    ----------
    name
        Of the profile.
    jobs
        Where jobs run.
    designs
        What is to be trained, by the name of the dataset that comes of it: rows, or a design of its own.
    """

    name: str
    jobs: Jobs
    designs: Mapping[str, tuple[Job, ...]]

    def experiment(self, name: str) -> Experiment:
        """Return how the dataset `name` is made; raises `ParameterError` where nothing does."""
        if not isinstance(name, str) or name not in self.designs:
            known = ", ".join(sorted(self.designs))
            raise ParameterError(f"profile {self.name} trains no {shown(name)}; it trains {known}")
        return DESIGNS.get(name, ROWS)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The prepared data sets that any training reads."""
        return tuple(
            sorted({d for name in self.designs for j in self.trainings(name) for d in j.datasets})
        )

    def trainings(self, name: str) -> list[Job]:
        """Return the jobs behind the dataset `name`, a replicate each."""
        self.experiment(name)
        return [job for design in self.designs[name] for job in design.jobs()]

    def train(
        self,
        names: Sequence[str] = (),
        *,
        out: str | Path,
        cache: str | Path,
        prepared: str | Path | None = None,
    ) -> dict[str, Trained]:
        """Train what has no shard yet, all groups in one queue, and write a dataset for each to the folder `out`.

        Parameters
        ----------
        names
            Groups, all by default.
        out, cache, prepared
            Folders of the datasets, of the shards, and of the prepared data sets.

        Returns
        -------
        dict
            What came of each group, see `lib.training.jobs.Trained`.

        Raises
        ------
        ConnectionError, lib.training.jobs.run.JobError
            See `lib.training.jobs.run_jobs`.
        ValueError
            There is no such group, or a data set is not prepared.
        """
        prepared = None if prepared is None else Path(prepared)
        chosen = list(dict.fromkeys(names or self.designs))
        work = {
            name: [self.experiment(name).work(job, prepared) for job in self.trainings(name)]
            for name in chosen
        }
        found = run_jobs(work, cache, self.jobs)
        for name in chosen:
            experiment, designs = self.experiment(name), self.designs[name]
            ds = experiment.dataset(self.name, settings_of(designs), designs, found[name].results)
            experiment.schema(ds).save(ds, Path(out) / f"{name}.nc")
        return found

    def table(self, name: str) -> pd.DataFrame:
        """Return what is trained for the dataset `name`, a line for each row or design, the levels of every factor in columns."""
        designs = self.designs[name]
        if self.experiment(name) is ROWS:
            names = ("label", "task_label", "cell", "width", "learning_rate", "replicates")
            lines = [
                {key: getattr(row, key) for key in names} | said
                for row, said in zip(designs, coordinates(designs), strict=True)
            ]
        else:
            lines = [design.values() | {"replicates": design.replicates} for design in designs]
        return pd.DataFrame(
            [{key: _text(value) for key, value in line.items()} for line in lines]
        ).fillna("")


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else grammar.text(value)


def load_profile(name: str, path: str | Path = PARAMS) -> Profile:
    """Return the settings of the profile `name`.

    Raises
    ------
    ParameterError
        There is no such profile; a section is missing or unknown; a parameter is wrong; a network cannot be built; or a data set is unknown.
    """
    sections: dict[str, Any] = merged(name, path)
    known = ("jobs", "networks", "tasks", "trainings", *DESIGNS)
    if strange := [section for section in sections if section not in known]:
        raise ParameterError(
            f"params.yaml: no experiment is called {shown(strange[0])}; expected one of {', '.join(known)}"
        )
    if missing := [section for section in known if section not in sections]:
        raise ParameterError(
            f"params.yaml: profile {name} has no section {missing[0]}; add it to base"
        )
    parts = {key: sections[key] for key in ("networks", "tasks", "trainings")}
    for key, content in parts.items():
        if not isinstance(content, dict):
            raise ParameterError(
                f"params.yaml: {key} is {shown(content)}; expected names and what they hold"
            )
    designs: dict[str, tuple[Job, ...]] = {}
    for key, experiment in DESIGNS.items():
        designs[key] = (checked(experiment.design, sections[key], key),)
    for group, content in parts["trainings"].items():
        if content is None:
            continue
        if group in designs:
            raise ParameterError(f"params.yaml: two datasets are called {shown(group)}; rename one")
        designs[group] = grammar.rows(group, content, parts["networks"], parts["tasks"])
    for key, several in designs.items():
        if (planned := sum(design.planned for design in several)) > MOST:
            raise ParameterError(
                f"params.yaml: {key} plans {planned:,} trainings; expected at most {MOST:,}, so lower replicates or levels"
            )
    profile = Profile(name, checked(Jobs, sections["jobs"], "jobs"), designs)
    for dataset in profile.datasets:
        if dataset not in source_names():
            raise ParameterError(
                f"params.yaml: there is no data set {shown(dataset)}; known: {', '.join(source_names())}"
            )
    return profile
