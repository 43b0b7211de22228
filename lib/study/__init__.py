"""The factorial study: a grid of attempts, trained in blocks on Dask, kept in shards, joined to one dataset.

The driver (whoever calls `run_study`) sends blocks of attempts to workers and writes what they return as
shards, atomically, into a cache folder. A shard's name is a hash of everything its content depends on, so a
study that was interrupted, or extended, computes only what is missing. The joined dataset is a function of the
shards alone: it is the same after one run as after ten interrupted ones.
"""

from lib.study.run import run_study

__all__ = ["run_study"]
