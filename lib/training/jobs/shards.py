"""Shards: what one job returned in one file, written whole or not at all."""

import hashlib
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

Arrays = Mapping[str, np.ndarray]

_IDENTITY = "identity"


def shard_path(cache: Path, identity: Mapping) -> Path:
    """Return the file of the job with this identity: everything its result depends on, as JSON values."""
    return cache / f"{hashlib.sha256(_text(identity).encode()).hexdigest()[:24]}.npz"


def write_shard(cache: Path, identity: Mapping, arrays: Arrays) -> Path:
    """Write a job's arrays; a reader never sees half a file."""
    path = shard_path(cache, identity)
    partial = path.with_suffix(f".partial{os.getpid()}")
    try:
        with partial.open("wb") as file:
            np.savez_compressed(file, **{_IDENTITY: _text(identity)}, **arrays)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


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
