"""Designs, rows and jobs of the smoke profile, changed as a test needs them."""

import functools
import itertools
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from study.config import file as params_file
from study.config.expand import expand_groups
from study.config.file import merged
from study.paths import ROOT
from study.pipeline import fingerprint
from study.tasks import TASKS
from study.training import objectives
from study.training.jobs import run_jobs
from study.training.profile import DESIGNS, load_profile
from study.training.rows import Row

loaded = functools.cache(load_profile)
"""Profiles are frozen, and to read one takes seconds."""
sections = functools.cache(merged)
"""To read from alone."""


def copy_to_edit(folder, monkeypatch, *names):
    """Copy folders of the repository; modules are parsed again where their file was changed, and there alone."""
    for name in names:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__py*", ".*"))
    parse = fingerprint._read.__wrapped__
    kept = functools.cache(lambda file, root, _: parse(file, root))
    read = lambda file, root: kept(file, root, file.stat().st_mtime_ns)  # noqa: E731
    read.cache_clear = kept.cache_clear
    monkeypatch.setattr(fingerprint, "_read", read)


def edit(path, before, after):
    """Change the first of such places in a file."""
    text = path.read_text("utf-8")
    assert before in text, f"{path.name} no longer holds {before!r}"
    path.write_text(text.replace(before, after, 1), "utf-8")
    if path.suffix != ".py":  # a module names it
        fingerprint._read.cache_clear()


def profile_of(content, name="quick"):
    """Load a profile of what `params.yaml` would hold: to write and to read that takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(params_file, "read_params", lambda _: content)
        params_file._check_plain("params.yaml", content)
        params_file.checked(params_file._File, content, "")
        return load_profile(name)


def one_job(name, *, replicate=0, **changes):
    """Return the first job of the smoke profile's dataset `name`, with these fields."""
    return next(loaded("smoke").designs[name][0].jobs()).at(**changes, replicate=replicate)


def rows_of(table, networks=None, tasks=None):
    """Return the rows of a group, with the networks and tasks of `params.yaml` and further ones."""
    runs = runs_of(table, networks, tasks)
    return tuple(Row.of(run, f"groups.table, {run.run}") for run in runs)


def runs_of(group, networks=None, tasks=None):
    """Return the runs of a group, with the networks and tasks of `params.yaml` and further ones."""
    base = sections("smoke")
    makers = {name: maker.settings for name, maker in TASKS.items()}
    known = base["networks"] | (networks or {}), base["tasks"] | (tasks or {})
    return expand_groups({"table": group}, *known, makers)["table"]


def train(name, designs, prepared=None):
    """Return the dataset of an experiment's designs, or of a table's rows, trained in this process."""
    kind = DESIGNS.get(name, Row)
    found = [job.compute(prepared, None) for design in designs for job in design.jobs()]
    results = [{key: np.asarray(value) for key, value in one.items()} for one in found]
    return kind.schema(designs).validate(kind.joined("smoke", designs, results))


@dataclass(frozen=True)
class PlainJob:
    """A job that is a function of a test and no code of `lib`."""

    run: Callable
    arguments: tuple = ()
    identity: dict = field(default_factory=dict)
    title: str = "job"
    size: float = 1.0
    batch_key: str = ""
    places: int = 1
    cells: tuple = ()

    def name(self, prepared):
        return {"levels": self.identity, "code": "0" * 16}

    def compute(self, prepared, resume):
        return self.run(*self.arguments, resume)

    def compute_together(self, jobs, prepared, resumes):
        return [job.compute(prepared, resume) for job, resume in zip(jobs, resumes, strict=True)]


PlainJob.__module__ = (
    "study.pipeline.files"  # not found there, so that workers are sent the class itself
)


def fail_after(batches, monkeypatch):
    """Have the loss of trainings be no number after so many batches."""
    calls, plain = itertools.count(), objectives.task_loss

    def failing(task):
        loss = plain(task)
        return lambda *given: loss(*given) * (math.nan if next(calls) >= batches else 1)

    monkeypatch.setattr(objectives, "task_loss", failing)


def factorial(**changes):
    """Return the smoke profile's factorial design, with what a test changes."""
    (design,) = loaded("smoke").designs["factorial"]
    return design.at(**changes)


def study(where, prepared, cache, **changes):
    """Return the dataset of a factorial design, trained on a cluster."""
    design = factorial(**changes)
    jobs = {"factorial": list(design.jobs())}
    results = run_jobs(jobs, cache, where, prepared)["factorial"].results
    return design.joined("smoke", (design,), results)
