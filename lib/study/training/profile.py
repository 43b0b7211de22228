"""Load and check a profile of `params.yaml`, and train its groups.

This is where a stage of the pipeline starts: `load_profile`, then `Profile.train`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import create_model

from study.config.cluster import ClusterSettings
from study.config.expand import expand_groups
from study.config.file import merge_profile
from study.config.grammar import Sections
from study.config.run import RunConfig
from study.config.section import ParameterError, format_value, parse_section, similar_names
from study.pipeline.files import write_text
from study.tasks import MAKERS
from study.tasks.sources import source_names
from study.training.datasets import to_dataset
from study.training.job import Job
from study.training.jobs import GroupResults, run_jobs
from study.training.plans import DESIGNS, AnyDesign, plan_jobs
from study.training.run_checks import check_network, check_settings

MOST_JOBS = 10**6
"""Largest number of jobs of a dataset; a larger number is assumed to be a typo."""
_DESIGN_FIELDS: dict[str, Any] = {name: (kind.design, ...) for name, kind in DESIGNS.items()}
_SectionsWithDesigns = create_model("_SectionsWithDesigns", __base__=Sections, **_DESIGN_FIELDS)
"""The sections of a profile, in which the sections of designs are parsed, too."""


@dataclass(frozen=True)
class Profile:
    """All settings of a profile.

    Attributes
    ----------
    name : str
    cluster : ClusterSettings
        Where jobs run.
    designs : mapping
        From the name of a dataset (a group) to its runs, or to one design.
    """

    name: str
    cluster: ClusterSettings
    designs: Mapping[str, tuple[AnyDesign, ...]]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the prepared data sets that the jobs read, sorted."""
        names: set[str] = set()
        for designs in self.designs.values():
            for design in designs:
                names.update(design.datasets)
        return tuple(sorted(names))

    def count(self, group: str) -> int:
        """Return the number of jobs of a group.

        Parameters
        ----------
        group : str
            Name of a dataset.

        Returns
        -------
        int

        Raises
        ------
        ParameterError
            The group is unknown.
        """
        return sum(design.job_count for design in self._designs_of(group))

    def plan(self, group: str) -> list[Job]:
        """Return the jobs of a group.

        Parameters
        ----------
        group : str
            Name of a dataset.

        Returns
        -------
        list of Job

        Raises
        ------
        ParameterError
            The group is unknown.
        """
        return plan_jobs(self._designs_of(group))

    def _designs_of(self, group: str) -> tuple[AnyDesign, ...]:
        """Return the designs of a group; refuse an unknown group."""
        if group not in self.designs:
            raise ParameterError(
                f"profile {self.name} has no group {format_value(group)}; "
                f"did you mean {similar_names(group, self.designs)}?"
            )
        return self.designs[group]

    def train(
        self, groups: Sequence[str], *, out: Path, cache: Path, prepared: Path
    ) -> dict[str, GroupResults]:
        """Train all jobs without a cached result, and write one dataset per group.

        Parameters
        ----------
        groups : sequence of str
            Names of the datasets.
        out : Path
            Folder of the datasets, ``<group>.nc``.
        cache : Path
            Folder of the cached results, and of ``<group>.<profile>.cost.json``. The costs are kept
            out of the dataset, because they differ between calls.
        prepared : Path
            Folder of the prepared data sets.

        Returns
        -------
        dict of str to GroupResults
            The results of each group, and their costs.

        Raises
        ------
        ParameterError
            A group is unknown.
        ValueError, ConnectionError, OSError, study.training.worker.JobError
            As `study.training.jobs.run_jobs`.
        """
        jobs = {group: self.plan(group) for group in groups}
        trained = run_jobs(jobs, cache, self.cluster, prepared)
        for group in groups:
            designs = self.designs[group]
            ds = to_dataset(self.name, designs, jobs[group], trained[group].results)
            schema = jobs[group][0].experiment.schema(designs)
            schema.save(ds, out / f"{group}.nc")
            cost = json.dumps(trained[group].cost)
            write_text(cache / f"{group}.{self.name}.cost.json", cost)
        return trained


def load_profile(name: str) -> Profile:
    """Load and check the settings of a profile.

    Parameters
    ----------
    name : str
        Its name in `params.yaml`.

    Returns
    -------
    Profile

    Raises
    ------
    ParameterError
        The profile is unknown, a section is missing or unknown, a parameter is wrong, a network
        can't be built, or a data set is unknown.
    """
    sections = parse_section(_SectionsWithDesigns, merge_profile(name), "")
    designs: dict[str, tuple[AnyDesign, ...]] = {
        section: (getattr(sections, section),) for section in DESIGNS
    }
    makers = {maker_name: maker.settings for maker_name, maker in MAKERS.items()}
    groups = expand_groups(sections.groups, sections.networks, sections.tasks, makers)
    for group, runs in groups.items():
        if group in designs:
            raise ParameterError(
                f"params.yaml: two results files are called {format_value(group)}; rename the group"
            )
        designs[group] = runs
    profile = Profile(name, sections.jobs, designs)
    for config in _runs(profile):
        check_or_refuse(check_settings, config)
    _check_sizes(profile)
    _check_datasets(profile)
    _check_networks(profile)
    return profile


def _check_sizes(profile: Profile) -> None:
    """Refuse datasets with implausibly many jobs."""
    for group in profile.designs:
        count = profile.count(group)
        if count > MOST_JOBS:
            raise ParameterError(
                f"params.yaml: {group} has {count:,} jobs; expected at most {MOST_JOBS:,}, "
                "so lower replicates or levels"
            )


def _check_datasets(profile: Profile) -> None:
    """Refuse unknown data sets."""
    for dataset in profile.datasets:
        if dataset not in source_names():
            raise ParameterError(
                f"params.yaml: unknown data set {format_value(dataset)}; "
                f"known: {similar_names(dataset, source_names())}"
            )


def _runs(profile: Profile) -> Iterator[RunConfig]:
    """Yield the runs of all groups, without other designs."""
    for designs in profile.designs.values():
        for design in designs:
            if isinstance(design, RunConfig):
                yield design


def _check_networks(profile: Profile) -> None:
    """Check that each network can be built, once per network and at its smallest width."""
    smallest: dict[str, RunConfig] = {}
    for config in _runs(profile):
        key = _settings_to_build(config)
        other = smallest.get(key)
        if other is None or config.network.width <= other.network.width:
            smallest[key] = config
    for config in smallest.values():
        check_or_refuse(check_network, config)


def _settings_to_build(config: RunConfig) -> str:
    """Return all settings that `check_network` depends on, except the width."""
    return config.model_dump_json(
        include={
            "task": True,
            "network": True,
            "recipe": {"objective", "groups"},
            "measurement": {"metric", "measures"},
        },
        exclude={"network": {"width"}},
    )


def check_or_refuse(check: Callable[[RunConfig], None], config: RunConfig) -> None:
    """Run a check; if it fails, raise an error that names the run.

    Parameters
    ----------
    check : callable
        Raises `ValueError` if the run can't be trained.
    config : RunConfig

    Raises
    ------
    ParameterError
        The check failed; the message names the run.
    """
    try:
        check(config)
    except (ValueError, RuntimeError) as error:  # PyTorch raises the latter if memory runs out
        raise ParameterError(
            f"params.yaml: {config.network_name} of width {config.network.width} on "
            f"{config.task_label} cannot be trained: {error}"
        ) from None
