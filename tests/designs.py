"""Build small designs, rows and jobs from the smoke profile, with changed settings."""

import functools
import itertools
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from study.config import file as params_file
from study.config.expand import expand_groups
from study.config.file import merge_profile
from study.config.measurement import Measurement
from study.config.network import Network
from study.config.recipe import Recipe
from study.config.run import RunConfig
from study.config.section import parse_section
from study.config.task import TaskSpec
from study.paths import ROOT
from study.pipeline import fingerprint
from study.tasks import MAKERS
from study.training import objectives
from study.training.datasets import to_dataset
from study.training.job import Experiment, Job
from study.training.jobs import run_jobs
from study.training.plans import plan_jobs
from study.training.profile import check_or_refuse, load_profile
from study.training.run_checks import check_settings

loaded = functools.cache(load_profile)
"""A profile, read once, because that takes seconds. It can't be changed."""
sections = functools.cache(merge_profile)
"""The sections of a profile. They are shared, so tests must not change them."""


def copy_to_edit(folder, monkeypatch, *names):
    """Copy folders of the repository, to edit them.

    Only modules whose file changes are parsed again.

    Parameters
    ----------
    folder
        Where the copies go.
    monkeypatch
        Pytest's fixture.
    names
        Folders in the repository's root.
    """
    for name in names:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__py*", ".*"))
    parse = fingerprint.read_module.__wrapped__

    @functools.cache
    def read_version(file, root, changed):
        return parse(file, root)

    def read(file, root):
        return read_version(file, root, file.stat().st_mtime_ns)

    read.cache_clear = read_version.cache_clear
    monkeypatch.setattr(fingerprint, "read_module", read)


def edit(path, before, after):
    """Replace the first occurrence of a text in a file of a copy.

    Parameters
    ----------
    path
        The file.
    before, after
        The text, and what replaces it.
    """
    text = path.read_text("utf-8")
    assert before in text, f"{path.name} no longer holds {before!r}"
    path.write_text(text.replace(before, after, 1), "utf-8")
    if path.suffix != ".py":  # a module names it
        fingerprint.read_module.cache_clear()


def profile_of(content, name="quick"):
    """Load a profile of other content than that of `params.yaml`.

    Parameters
    ----------
    content
        What the file would hold: writing and reading it takes seconds.
    name
        Name of the profile.

    Returns
    -------
    Profile
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(params_file, "read_params", lambda _: content)
        params_file._check_plain("params.yaml", content)
        parse_section(params_file._File, content, "")
        return load_profile(name)


def single_job(design, *, replicate=0, **changes):
    """Return one job of a design or of a run, with other settings.

    Parameters
    ----------
    design
        A design, or the configuration of a run.
    replicate
        Number of the job among its replicates.
    changes
        Settings by name, those of the parts of a run included. `task` may be a task with its
        settings in one dictionary.

    Returns
    -------
    Job
    """
    if isinstance(design, RunConfig):
        changed = changed_run(design, **changes, replicates=replicate + 1)
    else:
        attempt = design.copy_with(**changes)
        factors = {name: getattr(attempt, name) for name in design.factors()}
        levels = {n: v[:1] if isinstance(v, tuple) else (v,) for n, v in factors.items()}
        changed = attempt.copy_with(**levels, replicates=replicate + 1)
    return plan_jobs([changed])[replicate]


def changed_run(config, **changes):
    """Return a run with other settings.

    Parameters
    ----------
    config
        The run.
    changes
        Settings by name, those of its parts included.

    Returns
    -------
    RunConfig
    """
    task = changes.pop("task", None)
    if isinstance(task, dict):
        settings = {name: value for name, value in task.items() if name != "task"}
        changes["task"] = TaskSpec(maker=task["task"], settings=settings)
    for part in ("network", "recipe", "measurement"):
        section = getattr(config, part)
        names = changes.keys() & type(section).model_fields.keys()
        update = {name: changes.pop(name) for name in names}
        changes[part] = section.model_copy(update=update)
    unknown = changes.keys() - type(config).model_fields.keys()
    assert not unknown, f"no field of a run: {sorted(unknown)}"
    return config.model_copy(update=changes)


def one_job(name, *, replicate=0, **changes):
    """Return the first job of a dataset of the smoke profile.

    Parameters
    ----------
    name
        Name of the dataset.
    replicate
        Number of the job among its replicates.
    changes
        Settings that differ, as in `single_job`.

    Returns
    -------
    Job
    """
    return single_job(loaded("smoke").designs[name][0], replicate=replicate, **changes)


def make_run(label, cell, task, **settings):
    """Return the run of a network on a task.

    Parameters
    ----------
    label
        Name of the network.
    cell
        Name of its cell.
    task
        The task's maker and settings in one dictionary.
    settings
        Settings of the run or of its parts, hyperparameters of the cell, or settings of its start.

    Returns
    -------
    RunConfig
    """
    task = dict(task)
    content = {"run": label, "network_name": label, "label": label, "task_label": task["task"]}
    content["task"] = {"maker": task.pop("task"), "settings": task}
    parts = {"network": Network, "recipe": Recipe, "measurement": Measurement}
    content |= {name: {} for name in parts}
    content["network"] = {"cell": cell, "hyper_parameters": {}}
    for name, value in settings.items():
        part = next((p for p, kind in parts.items() if name in kind.model_fields), None)
        if part is not None:
            content[part][name] = value
        elif name in RunConfig.model_fields:
            content[name] = value
        else:
            content["network"]["hyper_parameters"][name] = value
    return parse_section(RunConfig, content, label)


def runs_of(group, networks=None, tasks=None):
    """Return the runs of a group.

    Parameters
    ----------
    group
        What `params.yaml` would say of it.
    networks, tasks
        Definitions besides those of `params.yaml`.

    Returns
    -------
    tuple of RunConfig
    """
    base = sections("smoke")
    makers = {name: maker.settings for name, maker in MAKERS.items()}
    known = base["networks"] | (networks or {}), base["tasks"] | (tasks or {})
    return expand_groups({"table": group}, *known, makers)["table"]


def checked_runs_of(group, networks=None, tasks=None):
    """Return the runs of a group, each checked against its task.

    Parameters
    ----------
    group, networks, tasks
        As in `runs_of`.

    Returns
    -------
    tuple of RunConfig
    """
    runs = runs_of(group, networks, tasks)
    for run in runs:
        check_or_refuse(check_settings, run)
    return runs


def train(designs, prepared=None):
    """Train some designs in this process.

    Parameters
    ----------
    designs
        Designs, or configurations of runs.
    prepared
        Folder of the prepared data sets, if the tasks need any.

    Returns
    -------
    xr.Dataset
    """
    jobs = plan_jobs(designs)
    results = []
    for job in jobs:
        arrays = job.train(prepared)
        results.append({name: np.asarray(value) for name, value in arrays.items()})
    return to_dataset("smoke", designs, jobs, results)


def _train_plain(jobs, prepared, checkpoints):
    return [
        job.config.run(*job.config.arguments, checkpoint)
        for job, checkpoint in zip(jobs, checkpoints, strict=True)
    ]


# A module of `study` whose fingerprint is short. The function is not found in it, so that workers
# are sent the function itself.
_train_plain.__module__ = "study.pipeline.files"
PLAIN = Experiment("test", _train_plain, None, None)


@dataclass(frozen=True)
class PlainConfig:
    """A function of a test, which a job calls."""

    run: Callable
    arguments: tuple = ()


PlainConfig.__module__ = "study.pipeline.files"


def plain_job(run, arguments=(), levels=None, title="job", **fields):
    """Return a job that calls a function of a test.

    Parameters
    ----------
    run
        The function; it gets `arguments` and the job's checkpoint.
    arguments
        Of the function.
    levels
        Of the job's factors.
    title
        Name of the job.
    fields
        Further fields of `Job`.

    Returns
    -------
    Job
    """
    config = PlainConfig(run, arguments)
    levels = levels or {}
    return Job(experiment=PLAIN, config=config, replicate=0, levels=levels, title=title, **fields)


def fail_after(batches, monkeypatch):
    """Let the loss be not a number after some batches.

    Parameters
    ----------
    batches
        Number of batches with the right loss.
    monkeypatch
        Pytest's fixture.
    """
    calls = itertools.count()
    plain = objectives.task_loss

    def failing(task):
        loss = plain(task)
        return lambda *given: loss(*given) * (math.nan if next(calls) >= batches else 1)

    monkeypatch.setattr(objectives, "task_loss", failing)


def factorial(**changes):
    """Return the factorial design of the smoke profile.

    Parameters
    ----------
    changes
        Settings that differ.

    Returns
    -------
    Factorial
    """
    (design,) = loaded("smoke").designs["factorial"]
    return design.copy_with(**changes)


def first_attempt(**changes):
    """Return the first job of the factorial design of the smoke profile.

    Parameters
    ----------
    changes
        Settings of the design that differ.

    Returns
    -------
    Job
    """
    return plan_jobs([factorial(**changes)])[0]


def study(cluster, prepared, cache, **changes):
    """Train a factorial design on a cluster.

    Parameters
    ----------
    cluster
        The cluster, as in `params.yaml`.
    prepared
        Folder of the prepared data sets.
    cache
        Folder of the finished runs.
    changes
        Settings of the design that differ.

    Returns
    -------
    xr.Dataset
    """
    design = factorial(**changes)
    jobs = plan_jobs([design])
    trained = run_jobs({"factorial": jobs}, cache, cluster, prepared)
    return to_dataset("smoke", [design], jobs, trained["factorial"].results)
