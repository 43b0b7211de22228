"""Shards: the records of one block in one file, written whole or not at all."""

import json
import os
import sys
import zipfile
import zlib
from dataclasses import asdict
from pathlib import Path

import numpy as np

from lib.params import StudySection
from lib.study.plan import Block
from lib.train import Record


def write_shard(cache: Path, block: Block, settings: StudySection, records: list[Record]) -> Path:
    """Write a block's records under the block's key; a reader never sees half a file."""
    path = cache / f"{block.key(settings)}.npz"
    partial = path.with_suffix(f".partial{os.getpid()}")
    try:
        with partial.open("wb") as file:
            np.savez_compressed(
                file,
                attempts=_levels(block),
                status=[record.status for record in records],
                epochs_completed=[record.epochs_completed for record in records],
                **{f"measurements_{i}": record.measurements for i, record in enumerate(records)},
            )
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def read_shard(cache: Path, block: Block, settings: StudySection) -> list[Record] | None:
    """Return a block's stored records, or None if there is no shard that can be trusted."""
    path = cache / f"{block.key(settings)}.npz"
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as shard:
            if str(shard["attempts"]) != _levels(block):
                raise ValueError("it holds other attempts")
            ends = zip(shard["status"], shard["epochs_completed"], strict=True)
            return [
                Record(int(status), int(epochs), shard[f"measurements_{i}"])
                for i, (status, epochs) in enumerate(ends)
            ]
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        print(f"shard {path.name} cannot be read ({error}); its block runs again", file=sys.stderr)
        path.unlink()
        return None


def _levels(block: Block) -> str:
    return json.dumps([asdict(attempt) for attempt in block.attempts])
