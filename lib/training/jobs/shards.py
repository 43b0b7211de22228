"""Shards: what one job returned in one file, written whole or not at all."""

import hashlib
import json
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lib.run.files import write_whole

Arrays = Mapping[str, np.ndarray]

_IDENTITY = "identity"


def shard_path(cache: Path, identity: Mapping) -> Path:
    """Return the file of the job with this identity: everything its result depends on, as JSON values."""
    return cache / f"{hashlib.sha256(_text(identity).encode()).hexdigest()[:24]}.npz"


def write_shard(cache: Path, identity: Mapping, arrays: Arrays) -> Path:
    """Write a job's arrays; a reader never sees half a file."""
    whole = {_IDENTITY: _text(identity), **arrays}

    def save(partial: Path) -> None:
        with partial.open("wb") as file:  # NumPy would add a suffix to a name
            np.savez_compressed(file, **whole)

    return write_whole(shard_path(cache, identity), save)


def read_shard(cache: Path, identity: Mapping) -> dict[str, np.ndarray] | None:
    """Return a job's stored arrays, or None if there is no shard that can be trusted."""
    path = shard_path(cache, identity)
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as shard:
            if str(shard[_IDENTITY]) != _text(identity):
                raise ValueError("it holds another job's results")
            return {name: shard[name] for name in shard.files if name != _IDENTITY}
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        print(f"shard {path.name} cannot be read ({error}); its job runs again", file=sys.stderr)
        path.unlink()
        return None


def _text(identity: Mapping) -> str:
    return json.dumps(identity, sort_keys=True)
