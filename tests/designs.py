"""Designs and jobs of the smoke profile, changed as a test needs them."""

from types import SimpleNamespace

import numpy as np

from lib.experiments import EXPERIMENTS, load_profile


def one_job(name, *, replicate=0, **changes):
    """Return the first job of the smoke profile's experiment `name`, with these fields."""
    design = load_profile("smoke").designs[name][0]
    return next(design.jobs()).at(**changes, replicate=replicate)


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


def train(name, designs, monkeypatch, prepared=None):
    """Return the dataset of an experiment's designs, trained in this process."""
    monkeypatch.setattr("lib.experiments._experiment.run_jobs", in_turn)
    where = load_profile("smoke").jobs
    return EXPERIMENTS[name].train(
        name, "smoke", designs, where, cache="not used", prepared=prepared
    )
