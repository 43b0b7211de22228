"""Where things lie, resolved from this file so that a notebook works from any folder."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
DATA = ROOT / "data"
PUBLISHED = DATA / "published"
"""The papers' own numbers, transcribed; tracked by Git."""
REFERENCE = DATA / "reference"
"""Stored results of runs too long for `make repro`, with their provenance; tracked by Git."""
CACHE = DATA / "cache"
"""Shards of unfinished studies and downloads in flight; never an input of a stage."""


def resolve(path: str | Path) -> Path:
    """Return `path` as an absolute path, relative ones counted from the repository root."""
    path = Path(path)
    return path if path.is_absolute() else ROOT / path
