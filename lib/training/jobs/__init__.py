"""Jobs sent to Dask, their results kept in shards.

The driver (whoever calls `run_jobs`) sends jobs to workers and writes what they return as shards, atomically, into a
cache folder. A shard is named after everything its content depends on, the code too, so what was interrupted, extended or
edited computes only what is missing.
"""

from lib.training.jobs.run import Trained, run_jobs

__all__ = ["Trained", "run_jobs"]
