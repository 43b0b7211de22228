"""A profile of `params.yaml` with every section checked by the experiment that reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from lib.experiments._experiment import EXPERIMENTS
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
        What each experiment is asked for, by its name.
    """

    name: str
    jobs: Jobs
    datasets: tuple[str, ...]
    designs: Mapping[str, tuple[Design, ...]]

    def train(
        self, experiment: str, *, cache: str | Path, prepared: str | Path | None = None
    ) -> xr.Dataset:
        """Run the jobs of an experiment that have no shard yet and return its dataset, see `Experiment.train`."""
        return EXPERIMENTS[experiment].train(
            self.name, self.designs[experiment], self.jobs, cache=cache, prepared=prepared
        )


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
    for section in sections:
        if section not in known:
            raise ParameterError(
                f"params.yaml: no experiment is called {section!r}; expected one of {', '.join(known)}"
            )
    for section in known:
        if section not in sections:
            raise ParameterError(
                f"params.yaml: profile {name} has no section {section}; add it to base"
            )
    asked = {
        key: designs(EXPERIMENTS[key].design, sections[key], key) for key in sorted(EXPERIMENTS)
    }
    datasets = checked(Data, sections["data"], "data").datasets
    for dataset in datasets:
        if dataset not in source_names():
            raise ParameterError(
                f"params.yaml: data.datasets has the unknown data set {dataset!r}; known: {', '.join(source_names())}"
            )
    for key, found in asked.items():
        for design in found:
            for dataset in sorted(
                {name for job in design.jobs() for name in EXPERIMENTS[key].datasets(job)}
            ):
                if dataset not in datasets:
                    raise ParameterError(
                        f"params.yaml: {key} reads the data set {dataset!r}, which data.datasets does not list"
                    )
    return Profile(name, checked(Jobs, sections["jobs"], "jobs"), datasets, asked)
