"""A profile of `params.yaml` with everything in it checked, and the one way to train it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from study.config.expand import expand_groups
from study.config.file import merged
from study.config.grammar import Sections
from study.config.jobs import Jobs
from study.config.network import Network
from study.config.section import ParameterError, checked, format_value, nearest
from study.tasks import TASKS
from study.tasks.sources import source_names
from study.training.factorial import Factorial
from study.training.job import Job
from study.training.jobs import Trained, run_jobs
from study.training.latching import Latching
from study.training.linear_gaps import LinearGaps
from study.training.rows import Row, check_network

DESIGNS: dict[str, type[Job]] = {kind.section: kind for kind in (Factorial, Latching, LinearGaps)}
"""What is no row, by its section in `params.yaml`."""
MOST = 10**6
"""A dataset of more trainings than this was mistyped."""


class _Sections(Sections):
    """The sections of a profile, with the designs checked."""

    factorial: Factorial
    latching: Latching
    linear_gaps: LinearGaps


@dataclass(frozen=True)
class Profile:
    """All settings of one profile."""

    name: str
    jobs: Jobs
    designs: Mapping[str, tuple[Job, ...]]
    """What is to be trained, by the name of the dataset that comes of it: rows, or a design of its own."""

    @property
    def datasets(self) -> tuple[str, ...]:
        """The prepared data sets that any training reads."""
        read = {d for name in self.designs for job in self.trainings(name) for d in job.datasets}
        return tuple(sorted(read))

    def trainings(self, name: str) -> list[Job]:
        """Return the jobs behind the dataset `name`, a replicate each; raises `ParameterError` where nothing makes it."""
        if name not in self.designs:
            known = nearest(name, self.designs)
            raise ParameterError(
                f"profile {self.name} trains no {format_value(name)}; it trains {known}"
            )
        return [job for design in self.designs[name] for job in design.jobs()]

    def train(
        self, names: Sequence[str], *, out: Path, cache: Path, prepared: Path
    ) -> dict[str, Trained]:
        """Train what has no shard yet of the groups of these names, in one queue; write a dataset for each to the folder `out`.

        `cache` is the folder of the shards, `prepared` that of the prepared data sets. Raises as `study.training.jobs.run_jobs`, and
        `ValueError` where there is no such group or a data set is not prepared.
        """
        chosen = {name: self.trainings(name) for name in names}
        found = run_jobs(chosen, cache, self.jobs, prepared)
        for name in chosen:
            designs = self.designs[name]
            kind = type(designs[0])
            ds = kind.joined(self.name, designs, found[name].results)
            kind.schema(designs).save(ds, out / f"{name}.nc")
        return found


def load_profile(name: str) -> Profile:
    """Return the settings of the profile `name`.

    Raises `ParameterError` where there is no such profile, a section is missing or unknown, a parameter is wrong, a network cannot be
    built, or a data set is unknown.
    """
    sections = checked(_Sections, merged(name), "")
    designs: dict[str, tuple[Job, ...]] = {key: (getattr(sections, key),) for key in DESIGNS}
    makers = {name: maker.settings for name, maker in TASKS.items()}
    groups = expand_groups(sections.groups, sections.networks, sections.tasks, makers)
    for group, runs in groups.items():
        if group in designs:
            raise ParameterError(
                f"params.yaml: two datasets are called {format_value(group)}; rename one"
            )
        designs[group] = tuple(Row.of(run, f"groups.{group}, {run.run}") for run in runs)
    for key, several in designs.items():
        if (planned := sum(design.planned for design in several)) > MOST:
            raise ParameterError(
                f"params.yaml: {key} plans {planned:,} trainings; expected at most {MOST:,}, so lower replicates or levels"
            )
    profile = Profile(name, sections.jobs, designs)
    for dataset in profile.datasets:
        if dataset not in source_names():
            raise ParameterError(
                f"params.yaml: there is no data set {format_value(dataset)}; known: {nearest(dataset, source_names())}"
            )
    # A network that cannot be built is told here and not by a worker: of those that differ in width alone the smallest stays.
    fields = {*Network.model_fields, "objective", "measures", "groups", "task"} - {"width"}
    rows = [row for several in designs.values() for row in several if isinstance(row, Row)]
    rows.sort(key=lambda row: row.width, reverse=True)
    for row in {row.model_dump_json(include=fields): row for row in rows}.values():
        try:
            check_network(row)
        except (ValueError, RuntimeError) as error:  # torch: no memory for it
            raise ParameterError(
                f"params.yaml: {row.network} of width {row.width} on {row.task_label} cannot be trained: {error}"
            ) from None
    return profile
