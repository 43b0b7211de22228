"""Experiments: jobs sent to Dask, their results kept in shards and joined to one dataset.

The driver (whoever calls `run_experiment`) sends jobs to workers and writes what they return as shards, atomically, into a
cache folder. A shard's name is a hash of everything its content depends on, so an experiment that was interrupted, or
extended, computes only what is missing. A dataset joined from shards is the same after one run as after ten
interrupted ones.
"""

from lib.training.jobs.experiment import Experiment
from lib.training.jobs.run import run_experiment

__all__ = ["Experiment", "run_experiment"]
