"""Designs, rows and jobs of the smoke profile, changed as a test needs them."""

import contextlib
from types import SimpleNamespace

import numpy as np
from dask.distributed import Client

from lib.run.params import merged
from lib.training import grammar
from lib.training.jobs import run_jobs
from lib.training.profile import DESIGNS, load_profile
from lib.training.rows import Row


def one_job(name, *, replicate=0, **changes):
    """Return the first job of the smoke profile's dataset `name`, with these fields."""
    design = load_profile("smoke").designs[name][0]
    return next(design.jobs()).at(**changes, replicate=replicate)


def rows_of(table, networks=None, tasks=None):
    """Return the rows of a table, with the networks and tasks of `params.yaml` and further ones."""
    base = merged("smoke")
    known = base["networks"] | (networks or {}), base["tasks"] | (tasks or {})
    return grammar.rows("table", table, *known)


def in_turn(groups, cache, where):
    """Do what `lib.training.jobs.run_jobs` does in this process: what is tested is the rest, not Dask."""
    return {
        group: SimpleNamespace(
            results=[
                {key: np.asarray(value) for key, value in job.run(*job.arguments, None).items()}
                for job in jobs
            ]
        )
        for group, jobs in groups.items()
    }


def train(name, designs, prepared=None):
    """Return the dataset of an experiment's designs, or of a table's rows, trained in this process."""
    kind = DESIGNS.get(name, Row)
    jobs = [job.work(prepared) for design in designs for job in design.jobs()]
    results = in_turn({name: jobs}, None, None)[name].results
    return kind.schema(designs).validate(kind.joined("smoke", designs, results))


@contextlib.contextmanager
def connect_here(scheduler, workers):
    """Give a client whose only worker is a thread of this process."""
    quiet = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with Client(processes=False, **quiet) as client:
        yield client


def factorial(**changes):
    """Return the smoke profile's factorial design, with what a test changes."""
    (design,) = load_profile("smoke").designs["factorial"]
    return design.at(**changes)


def study(where, prepared, cache, **changes):
    """Return the dataset of a factorial design, trained on a cluster."""
    design = factorial(**changes)
    jobs = [job.work(prepared) for job in design.jobs()]
    results = run_jobs({"factorial": jobs}, cache, where)["factorial"].results
    return design.joined("smoke", (design,), results)
