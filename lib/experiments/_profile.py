"""A profile of `params.yaml` with every section checked by the experiment that reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from lib.experiments._experiment import EXPERIMENTS, Experiment
from lib.run.params import PARAMS, Data, Design, Jobs, ParameterError, checked, designs, merged
from lib.tasks.sources import source_names


@dataclass(frozen=True)
class Profile:
    """All settings of one profile.

    Attributes
    ----------
    name
        Of the profile.
    jobs
        Where jobs run.
    datasets
        The data sets that stage 00 prepares.
    designs
        What is to be trained, by the name of the dataset that comes of it: the experiment's, or the group's.
    """

    name: str
    jobs: Jobs
    datasets: tuple[str, ...]
    designs: Mapping[str, tuple[Design, ...]]

    def experiment(self, name: str) -> Experiment:
        """Return the experiment that makes the dataset `name`; raises `ParameterError` where nothing does."""
        if name not in self.designs:
            known = ", ".join(sorted(self.designs))
            raise ParameterError(f"profile {self.name} trains no {name!r}; it trains {known}")
        kind = type(self.designs[name][0])
        return next(e for e in EXPERIMENTS.values() if e.design is kind)

    def train(
        self,
        name: str,
        *,
        out: str | Path,
        cache: str | Path,
        prepared: str | Path | None = None,
    ) -> xr.Dataset:
        """Run what has no shard yet, write the dataset `name` to `out` and return it, see `Experiment.train`."""
        experiment = self.experiment(name)
        ds = experiment.train(
            name, self.name, self.designs[name], self.jobs, cache=cache, prepared=prepared
        )
        experiment.schema.save(ds, out)
        return ds

    def jobs_of(self, name: str) -> list[Design]:
        """Return the jobs behind the dataset `name`."""
        return self.experiment(name).plan(self.designs[name])

    def grids(self, name: str) -> pd.DataFrame:
        """Return the designs behind the dataset `name`, a line each: the levels of every factor, and what else differs."""
        designs = self.designs[name]
        said = [{"replicates": d.replicates} | d.values() for d in designs]
        varied = [
            k for k in said[0] if k in designs[0].factors() or any(d[k] != said[0][k] for d in said)
        ]
        keep = [k for k in (*varied, "replicates") if k != "replicate"]
        return pd.DataFrame([{k: _levels(d[k]) for k in dict.fromkeys(keep)} for d in said])

    def settings(self, name: str) -> pd.Series:
        """Return what all designs behind the dataset `name` share beside their factors, by name."""
        designs = self.designs[name]
        said = [d.values() for d in designs]
        shared = {
            k: _levels(v)
            for k, v in said[0].items()
            if k not in (*designs[0].factors(), "replicate") and all(d[k] == v for d in said)
        }
        return pd.Series(shared, name="value", dtype=object).rename_axis("setting")


def _levels(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {part}" for key, part in value.items())
    return str(value)


def load_profile(name: str, path: str | Path = PARAMS) -> Profile:
    """Return the settings of the profile `name`.

    Raises
    ------
    ParameterError
        There is no such profile; a section is missing, or belongs to no experiment; a parameter is wrong; or an experiment reads a
        data set that is not prepared.
    """
    sections: dict[str, Any] = merged(name, path)
    known = ("jobs", "data", *sorted(EXPERIMENTS))
    if strange := [section for section in sections if section not in known]:
        raise ParameterError(
            f"params.yaml: no experiment is called {strange[0]!r}; expected one of {', '.join(known)}"
        )
    if missing := [section for section in known if section not in sections]:
        raise ParameterError(
            f"params.yaml: profile {name} has no section {missing[0]}; add it to base"
        )
    datasets = checked(Data, sections["data"], "data").datasets
    for dataset in datasets:
        if dataset not in source_names():
            raise ParameterError(
                f"params.yaml: data.datasets has the unknown data set {dataset!r}; known: {', '.join(source_names())}"
            )
    found: dict[str, tuple[Design, ...]] = {}
    for key in sorted(EXPERIMENTS):
        experiment, section = EXPERIMENTS[key], sections[key]
        if experiment.grouped and not isinstance(section, dict):
            raise ParameterError(f"params.yaml: {key} is {section!r}; expected groups by name")
        groups = section if experiment.grouped else {key: section}
        for group, content in groups.items():
            if group in found:
                raise ParameterError(f"params.yaml: two datasets are called {group!r}; rename one")
            where = f"{key}.{group}" if experiment.grouped else key
            found[group] = designs(experiment.design, content, where)
            asked = {
                d
                for design in found[group]
                for job in design.jobs()
                for d in experiment.datasets(job)
            }
            if unprepared := sorted(asked - set(datasets)):
                raise ParameterError(
                    f"params.yaml: {where} reads the data set {unprepared[0]!r}, which data.datasets does not list"
                )
    return Profile(name, checked(Jobs, sections["jobs"], "jobs"), datasets, found)
