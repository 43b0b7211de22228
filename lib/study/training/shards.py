"""Shards: cached results, one file per job, named by a hash of the job's cache key."""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from study.training.job import Arrays
from study.training.sealed import read_sealed, write_sealed

SECONDS = "core seconds"
"""Processor time of the job."""
RESUMED = "resumed"
"""Whether the job resumed from a checkpoint."""


def shard_path(cache: Path, key: Mapping) -> Path:
    """Return the file of a job's results.

    Parameters
    ----------
    cache : Path
        Folder of the shards.
    key : mapping
        The cache key of the job, JSON values in any order.

    Returns
    -------
    Path
    """
    text = json.dumps(key, sort_keys=True)
    return cache / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.npz"


def write_shard(cache: Path, key: Mapping, arrays: Arrays) -> Path:
    """Write a job's results atomically.

    Parameters
    ----------
    cache : Path
        Folder of the shards.
    key : mapping
        The cache key of the job.
    arrays : mapping
        Variables by name.

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    OSError
        The file could not be written.
    """
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return write_sealed(shard_path(cache, key), buffer.getvalue())


def read_shard(cache: Path, key: Mapping) -> dict[str, np.ndarray] | None:
    """Return a job's stored results, or None if the file is missing or damaged.

    Parameters
    ----------
    cache : Path
        Folder of the shards.
    key : mapping
        The cache key of the job.

    Returns
    -------
    dict of str to numpy.ndarray, or None

    Raises
    ------
    OSError, MemoryError
        The disk or the memory failed; the file stays where it is.
    """
    content = read_sealed(shard_path(cache, key), "its job runs again")
    if content is None:
        return None
    return dict(np.load(io.BytesIO(content)))
