"""Shards: what one job returned in one file, written whole or not at all, and never believed without its hash."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lib.run.files import set_aside, write_whole
from lib.training.resume import say

Arrays = Mapping[str, np.ndarray]

_IDENTITY, _DIGEST = "identity", "digest"


def shard_path(cache: Path, identity: Mapping) -> Path:
    """Return the file of the job with this identity: everything its result depends on, as JSON values."""
    return cache / f"{hashlib.sha256(_text(identity).encode()).hexdigest()[:24]}.npz"


def write_shard(cache: Path, identity: Mapping, arrays: Arrays) -> Path:
    """Write a job's arrays; a reader never sees half a file."""
    whole = {_IDENTITY: _text(identity), _DIGEST: _digest(arrays), **arrays}

    def save(partial: Path) -> None:
        with partial.open("wb") as file:  # NumPy would add a suffix to a name
            np.savez_compressed(file, **whole)

    return write_whole(shard_path(cache, identity), save)


def read_shard(cache: Path, identity: Mapping) -> dict[str, np.ndarray] | None:
    """Return a job's stored arrays, or None if there is no shard that can be trusted.

    One that is damaged, altered or another job's is put aside, with a sentence, under a name that nothing reads.
    """
    path = shard_path(cache, identity)
    if not os.path.lexists(path):
        return None
    try:
        with np.load(path, allow_pickle=False) as shard:
            found = {name: shard[name] for name in shard.files}
        if str(found.pop(_IDENTITY)) != _text(identity):
            raise ValueError("it holds another job's results")
        if str(found.pop(_DIGEST)) != _digest(found):
            raise ValueError("its content is not what was written")
    # Whatever a damaged file makes NumPy or zip raise: none of it is a result.
    except Exception as error:
        say(
            f"shard {path.name} cannot be trusted ({error}); it is put aside and its job runs again"
        )
        set_aside(path)
        return None
    return found


def _digest(arrays: Arrays) -> str:
    """Return a hash of names, types, shapes and values."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        values = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {values.dtype.str} {np.shape(arrays[name])} ".encode())
        found.update(values.tobytes())
    return found.hexdigest()


def _text(identity: Mapping) -> str:
    return json.dumps(identity, sort_keys=True)
